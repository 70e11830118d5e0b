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
//! clock is behind what was published looks at the time. A thread compares with what was published
//! when it last did so: the word is the same until somebody publishes again.
//!
//! The table's entries are [`Concerned`], which says why plain loads and stores are enough; the
//! word that is published is [`freehold_sync::published`]. A thread's word for an address is its
//! badge and the address: that calls which concern one address are ordered is the program's doing,
//! which hands an object over before another thread frees it, and the allocator's, which gives out
//! an address again after it was freed.

use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};
use freehold_sync::concerned::Concerned;
use freehold_sys::{Linux, System};

use crate::process;

/// Entries of the table, each for 16 bytes: so many bytes one behind the other do not share any.
const ENTRIES: usize = 1 << 20;
const GRANULE_SHIFT: u32 = 4;

/// Regions of this size lie one behind the other in the table, beginning anywhere: arenas that
/// begin at multiples of it would else share entries with each other.
const REGION_SHIFT: u32 = 24;
const SCATTER: u64 = 0x9e37_79b1;

/// Bits of an entry that tell the address; the upper ones tell the thread.
const ADDRESS_BITS: u32 = 48;
const NO_THREAD: u64 = 0;

/// How far time may have gone on before a thread publishes it.
const PUBLISH_EVERY: u64 = 50_000;

static TABLE: AtomicPtr<Concerned> = AtomicPtr::new(ptr::null_mut());

/// Makes the table, unless there is one; `false` if there is no memory for it.
pub(crate) fn make_table() -> bool {
    // Acquire and Release: the table is there for who sees it. The kernel has zeroed it.
    if !TABLE.load(Ordering::Acquire).is_null() {
        return true;
    }
    let system = Linux::new();
    let Some(made) = system.map(ENTRIES * size_of::<Concerned>()) else {
        return false;
    };
    let table = ptr::with_exposed_provenance_mut(made);
    let first =
        TABLE.compare_exchange(ptr::null_mut(), table, Ordering::Release, Ordering::Relaxed);
    if first.is_err() {
        // SAFETY: another thread was faster, and nobody knows of this one.
        unsafe { system.unmap(made, ENTRIES * size_of::<Concerned>()) };
    }
    true
}

/// How a thread is told in the table.
pub(crate) fn badge(number: u32) -> u64 {
    let badge = u64::from(number) + 1;
    if badge >> (u64::BITS - ADDRESS_BITS) == 0 { badge << ADDRESS_BITS } else { NO_THREAD }
}

/// The entry of an address. There is a table, which was all zeros at first.
#[inline(always)]
fn entry(address: u64) -> &'static Concerned {
    let region = (address >> REGION_SHIFT).wrapping_mul(SCATTER);
    let index = (address >> GRANULE_SHIFT).wrapping_add(region) as usize % ENTRIES;
    // SAFETY: the table has as many entries, is made before any thread comes here, and stays.
    unsafe { &*TABLE.load(Ordering::Relaxed).add(index) }
}

/// Whether the thread of this badge was the last that was concerned with a usual address.
#[inline(always)]
pub(crate) fn is_last(badge: u64, address: u64) -> bool {
    entry(address).is(badge | address)
}

/// Whether the entry of an address can tell it.
pub(crate) fn can_be_told(badge: u64, address: u64) -> bool {
    badge != NO_THREAD && address >> ADDRESS_BITS == 0
}

/// Writes down that the thread is concerned with `address`. It looks at the time next.
pub(crate) fn concern(badge: u64, address: u64) {
    // No thread finds itself in zero.
    let value = if can_be_told(badge, address) { badge | address } else { 0 };
    entry(address).leave(value);
}

/// The later of the time and of what was published; publishes the time if that was long ago.
pub(crate) fn publish(time: u64) -> u64 {
    let latest = process::published().time();
    if time > latest + PUBLISH_EVERY {
        process::published().publish(time);
    }
    time.max(latest)
}
