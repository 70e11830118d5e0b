//! Counting calls where they are not recorded: how many, how many bytes are in use, and how much is
//! freed by another thread than asked for it. Each thread counts for itself, and adds what it has
//! to the process' record now and then.

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use freehold_sys::process::File;
use freehold_sys::{Linux, System, environment, shared};
use freehold_trace::counts::{self, FOLLOWED, field};

use crate::thread::Thread;
use crate::{next, store, thread};

/// What a thread has counted and not added yet.
#[derive(Default)]
pub(crate) struct Own {
    /// Calls before the one at which it is added. 0 before the thread's first call, which is one of
    /// those that take the slow way and give it its number.
    left: u32,
    /// The thread's number among those that count; 0 before its first call.
    number: u32,
    /// Whether the thread is ending: then each call is added at once.
    pub(crate) is_ending: bool,
    allocations: u64,
    frees: u64,
    requested: u64,
    allocated: u64,
    freed: u64,
    followed: u64,
    elsewhere: u64,
}

/// How many calls a thread makes, and bytes it is given or gives back, before it adds what it has.
const CALLS: u32 = 64;
const LARGE: u64 = 64 << 10;

/// The file; 0 before it is mapped.
static BASE: AtomicUsize = AtomicUsize::new(0);
/// The process' record.
static RECORD: AtomicUsize = AtomicUsize::new(0);
static THREADS: AtomicU32 = AtomicU32::new(0);
/// Who asked for each followed object: its address and the thread's number.
static ASKED: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());

/// Objects that are followed at once, as long as they do not meet in the table.
const ENTRIES: usize = 1 << 16;
/// Bits of a scattered address that are less than the number of an entry.
const ENTRY_SHIFT: u32 = 32 - ENTRIES.trailing_zeros();
const NUMBER_BITS: u32 = 16;

/// Whether this process has mapped a file of counts.
pub(crate) fn is_mapped() -> bool {
    BASE.load(Ordering::Relaxed) != 0
}

/// Maps the file that the environment names, and takes a record; `false` if there is none.
pub(crate) fn find() -> bool {
    let mut path = [0; 4096];
    let Some(path) = environment::file_named(counts::VARIABLE.as_bytes(), &mut path) else {
        return false;
    };
    let mut start = [0; counts::MAGIC.len()];
    let is_one = File::open(path).is_some_and(|file| file.read(&mut start) == start.len());
    if !is_one || start != counts::MAGIC {
        return false;
    }
    let Some(base) = shared::map(path, counts::BYTES) else { return false };
    BASE.store(base, Ordering::Relaxed);
    thread::prepare_exit();
    next::prepare();
    next::check_usable_size();
    next::is_ready() && make_table() && take_record()
}

/// Makes the table of who asked for what. The kernel has zeroed it.
fn make_table() -> bool {
    let made = Linux::new().map(ENTRIES * size_of::<AtomicU64>());
    ASKED.store(ptr::with_exposed_provenance_mut(made.unwrap_or(0)), Ordering::Relaxed);
    made.is_some()
}

/// Takes a record for this process. One that is a copy of another begins with what that one has,
/// since it has the same objects.
pub(crate) fn take_record() -> bool {
    let base = BASE.load(Ordering::Relaxed);
    let parent = RECORD.load(Ordering::Relaxed);
    // SAFETY: an aligned number of the file, which stays mapped.
    let processes = unsafe { word::<AtomicU32>(base + counts::PROCESSES) };
    let number = processes.fetch_add(1, Ordering::Relaxed) as usize;
    if number >= counts::MOST {
        return false;
    }
    let record = base + counts::FIRST + number * counts::RECORD;
    if parent != 0 {
        for at in (field::ALLOCATIONS..=field::ELSEWHERE).step_by(8) {
            // SAFETY: aligned words of two records of the file.
            let (own, theirs) =
                unsafe { (word::<AtomicU64>(record + at), word::<AtomicU64>(parent + at)) };
            own.store(theirs.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
    RECORD.store(record, Ordering::Relaxed);
    // SAFETY: an aligned number of the record.
    let pid = unsafe { word::<AtomicU32>(record + field::PID) };
    // Release: for who reads the file, the record is whole.
    pid.store(freehold_sys::process::process_id(), Ordering::Release);
    true
}

/// A number in the file.
///
/// # Safety
/// The address is that of an atomic number of the file, aligned to its size.
unsafe fn word<T>(at: usize) -> &'static T {
    // SAFETY: the caller's promise; the file stays mapped.
    unsafe { &*ptr::with_exposed_provenance::<T>(at) }
}

impl Own {
    #[inline(always)]
    fn count_allocated(&mut self, object: *mut c_void, requested: u64, bytes: u64) {
        self.allocations += 1;
        self.requested += requested;
        self.allocated += bytes;
        if is_followed(object) {
            let address = object.addr() as u64 >> ALIGN_BITS;
            let number = u64::from(self.number) & ((1 << NUMBER_BITS) - 1);
            entry(object).store(address << NUMBER_BITS | number, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    fn count_released(&mut self, object: *mut c_void, bytes: u64) {
        self.frees += 1;
        self.freed += bytes;
        if is_followed(object) {
            let asked = entry(object).load(Ordering::Relaxed);
            if asked >> NUMBER_BITS == object.addr() as u64 >> ALIGN_BITS {
                let number = u64::from(self.number) & ((1 << NUMBER_BITS) - 1);
                self.followed += 1;
                self.elsewhere += u64::from(asked & ((1 << NUMBER_BITS) - 1) != number);
            }
        }
    }

    /// Whether a call is to be counted as usual; what it comes to is added some calls later.
    #[inline(always)]
    fn is_usual(&mut self, bytes: u64) -> bool {
        let (left, is_due) = self.left.overflowing_sub(1);
        self.left = left;
        !is_due && bytes < LARGE
    }
}

/// Counts an object that was given out.
#[inline(always)]
pub(crate) fn allocated(thread: &mut Thread, object: *mut c_void, requested: u64) {
    // What is of the store is never freed.
    if !store::owns(object) {
        allocated_behind(thread, object, requested);
    }
}

/// Counts an object that the allocator behind has given out.
#[inline(always)]
pub(crate) fn allocated_behind(thread: &mut Thread, object: *mut c_void, requested: u64) {
    // SAFETY: the object is in use by the caller, and calls are counted only once all was found.
    let bytes = unsafe { next::ready_usable_size(object) } as u64;
    if thread.own.is_usual(bytes) {
        thread.own.count_allocated(object, requested, bytes);
    } else {
        allocated_and_added(thread, object, requested, bytes);
    }
}

/// Counts an object that is about to be freed.
#[inline(always)]
pub(crate) fn released(thread: &mut Thread, object: *mut c_void) {
    if !store::owns(object) {
        released_behind(thread, object);
    }
}

/// Counts an object of the allocator behind that is about to be freed.
#[inline(always)]
pub(crate) fn released_behind(thread: &mut Thread, object: *mut c_void) {
    // SAFETY: the object is in use by the caller, and calls are counted only once all was found.
    let bytes = unsafe { next::ready_usable_size(object) } as u64;
    if thread.own.is_usual(bytes) {
        thread.own.count_released(object, bytes);
    } else {
        released_and_added(thread, object, bytes);
    }
}

#[cold]
#[inline(never)]
fn allocated_and_added(thread: &mut Thread, object: *mut c_void, requested: u64, bytes: u64) {
    introduce(thread);
    thread.own.count_allocated(object, requested, bytes);
    add(&mut thread.own);
}

#[cold]
#[inline(never)]
fn released_and_added(thread: &mut Thread, object: *mut c_void, bytes: u64) {
    introduce(thread);
    thread.own.count_released(object, bytes);
    add(&mut thread.own);
}

/// Bits of an address that are zero.
const ALIGN_BITS: u32 = 4;

/// An address, scattered: the upper bits depend on all that are lower.
#[inline(always)]
fn scattered(object: *mut c_void) -> u32 {
    const SCATTER: u32 = 0x9e37_79b1;
    (object.addr() as u32).wrapping_mul(SCATTER)
}

/// Whether an object is one of those that are followed.
#[inline(always)]
fn is_followed(object: *mut c_void) -> bool {
    scattered(object) < u32::MAX / FOLLOWED as u32 + 1
}

/// The entry of an object that is followed.
#[inline(always)]
fn entry(object: *mut c_void) -> &'static AtomicU64 {
    // The bits below those that are zero in all objects which are followed.
    let index = ((scattered(object) as usize * FOLLOWED as usize) >> ENTRY_SHIFT) % ENTRIES;
    // SAFETY: the table has as many entries, was made before anything is counted, and stays.
    unsafe { &*ASKED.load(Ordering::Relaxed).add(index) }
}

/// Gives the thread its number, if it has none.
fn introduce(thread: &mut Thread) {
    if thread.own.number == 0 {
        thread.own.number = THREADS.fetch_add(1, Ordering::Relaxed) + 1;
        thread::arrange_exit(thread);
    }
}

/// Adds what the thread has counted to the process' record.
#[cold]
#[inline(never)]
pub(crate) fn add(own: &mut Own) {
    own.left = if own.is_ending { 0 } else { CALLS - 1 };
    let record = RECORD.load(Ordering::Relaxed);
    if record == 0 {
        return;
    }
    let counted = [
        (field::ALLOCATIONS, &mut own.allocations),
        (field::FREES, &mut own.frees),
        (field::REQUESTED, &mut own.requested),
        (field::ALLOCATED, &mut own.allocated),
        (field::FREED, &mut own.freed),
        (field::FOLLOWED, &mut own.followed),
        (field::ELSEWHERE, &mut own.elsewhere),
    ];
    for (at, count) in counted {
        let count = core::mem::take(count);
        if count != 0 {
            // SAFETY: an aligned word of the record.
            unsafe { word::<AtomicU64>(record + at) }.fetch_add(count, Ordering::Relaxed);
        }
    }
}
