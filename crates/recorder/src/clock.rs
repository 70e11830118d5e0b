//! The order of calls across threads.
//!
//! Each thread has a clock of its own, which goes one tick of a nanosecond forward with each call:
//! it falls behind the time of day, and is set to it every now and then. Looking at the time at
//! each call would cost more than the calls. It is needed only where threads meet: what a thread
//! does with an object has to come after what others did with it before. So a table has, for an
//! address, which thread was last concerned with it. Who finds himself there goes on; who does not
//! writes himself there and looks at the time, which is later than all clocks.
//!
//! Threads without objects in common wait for nobody, and write to no line of memory that others
//! write to, but for addresses that share an entry.
//!
//! A thread that was idle has a clock that is behind. For it not to say that its next call came
//! before all that others did meanwhile, who looks at the time publishes it now and then, and whose
//! clock is behind what was published looks at the time.
//!
//! **Why plain loads and stores are enough.** Calls that concern one address are ordered by the
//! program: an object is handed over before another thread frees it; and by the allocator, which
//! gives out an address again after it was freed. Each call leaves its thread and its address in
//! the entry, so the next one finds them there, or what was written later: a pair of its own only
//! if it wrote it after all others that were concerned with this address. A pair that another
//! address has overwritten, in whatever race, is not found, and then the time is looked at.

use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use freehold_sys::{Linux, System};

/// Entries of the table, each for 16 bytes: so many bytes one behind the other do not share any.
const ENTRIES: usize = 1 << 20;
const GRANULE_SHIFT: u32 = 4;

/// Regions of this size lie one behind the other in the table, beginning anywhere: arenas that
/// begin at multiples of it would else share entries with each other.
const REGION_SHIFT: u32 = 24;
const SCATTER: u64 = 0x9e37_79b1;

/// Bits of an entry that tell the thread; the others tell the address, of which the low bits are
/// zero.
const THREAD_BITS: u32 = 16;
const NO_THREAD: u64 = 0;
const LOW_BITS: u32 = 3;

/// How far time may have gone on before a thread publishes it.
const PUBLISH_EVERY: u64 = 50_000;

static TABLE: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());

/// On a line of its own: it is read at every call.
#[repr(align(128))]
struct Latest(AtomicU64);

static LATEST: Latest = Latest(AtomicU64::new(0));

/// Makes the table, unless there is one; `false` if there is no memory for it.
pub(crate) fn make_table() -> bool {
    // Acquire and Release: the table is there for who sees it. The kernel has zeroed it.
    if !TABLE.load(Ordering::Acquire).is_null() {
        return true;
    }
    let system = Linux::new();
    let Some(made) = system.map(ENTRIES * size_of::<AtomicU64>()) else {
        return false;
    };
    let table = ptr::with_exposed_provenance_mut(made);
    let first =
        TABLE.compare_exchange(ptr::null_mut(), table, Ordering::Release, Ordering::Relaxed);
    if first.is_err() {
        // SAFETY: another thread was faster, and nobody knows of this one.
        unsafe { system.unmap(made, ENTRIES * size_of::<AtomicU64>()) };
    }
    true
}

/// How a thread is told in the table.
pub(crate) fn badge(number: u32) -> u64 {
    let badge = u64::from(number) + 1;
    if badge >> THREAD_BITS == 0 { badge } else { NO_THREAD }
}

/// The entry of an address. There is a table.
#[inline(always)]
fn entry(address: u64) -> &'static AtomicU64 {
    let region = (address >> REGION_SHIFT).wrapping_mul(SCATTER);
    let index = (address >> GRANULE_SHIFT).wrapping_add(region) as usize % ENTRIES;
    // SAFETY: the table has as many entries, is made before any thread comes here, and stays.
    unsafe { &*TABLE.load(Ordering::Relaxed).add(index) }
}

#[inline(always)]
fn pair(badge: u64, address: u64) -> u64 {
    (address >> LOW_BITS) << THREAD_BITS | badge
}

/// Whether a thread's clock will do for a call that concerns `address`: the thread itself was the
/// last that was concerned, and it is not behind what was published.
#[inline(always)]
pub(crate) fn will_do(clock: u64, badge: u64, address: u64) -> bool {
    entry(address).load(Ordering::Relaxed) == pair(badge, address)
        && LATEST.0.load(Ordering::Relaxed) <= clock
}

/// Writes down that the thread is concerned with `address`. It looks at the time next.
pub(crate) fn concern(badge: u64, address: u64) {
    let is_told = badge != NO_THREAD && address.is_multiple_of(1 << LOW_BITS);
    let value = if is_told { pair(badge, address) } else { 0 };
    entry(address).store(value, Ordering::Relaxed);
}

/// The later of the time and of what was published; publishes the time if that was long ago.
pub(crate) fn publish(time: u64) -> u64 {
    let latest = LATEST.0.load(Ordering::Relaxed);
    if time > latest + PUBLISH_EVERY {
        LATEST.0.fetch_max(time, Ordering::Relaxed);
    }
    time.max(latest)
}
