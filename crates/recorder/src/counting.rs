//! Counting calls where they are not recorded: how many, how many bytes are in use, and how much is
//! freed by another thread than asked for it. Each thread counts for itself, and adds what it has
//! to the process' record now and then.

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use freehold_sys::process::File;
use freehold_sys::{Linux, System, shared};
use freehold_trace::counts::{self, FOLLOWED, field};

use crate::process::named_in_environment;
use crate::thread::Thread;
use crate::{next, store, thread};

/// What a thread has counted and not added yet.
#[derive(Default)]
pub(crate) struct Own {
    /// Calls until it is added.
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
const NUMBER_BITS: u32 = 16;

/// Whether this process has mapped a file of counts.
pub(crate) fn is_mapped() -> bool {
    BASE.load(Ordering::Relaxed) != 0
}

/// Maps the file that the environment names, and takes a record; `false` if there is none.
pub(crate) fn find() -> bool {
    let mut path = [0; 4096];
    let Some(path) = named_in_environment(counts::VARIABLE.as_bytes(), &mut path) else {
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
    next::check_usable_size();
    make_table() && take_record()
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

/// Counts an object that was given out.
#[inline]
pub(crate) fn allocated(thread: &mut Thread, object: *mut c_void, requested: u64) {
    let Some(bytes) = size(object) else { return };
    begin(thread);
    let own = &mut thread.own;
    own.allocations += 1;
    own.requested += requested;
    own.allocated += bytes;
    if let Some((entry, address)) = followed(object) {
        let number = u64::from(own.number) & ((1 << NUMBER_BITS) - 1);
        entry.store(address << NUMBER_BITS | number, Ordering::Relaxed);
    }
    end(thread, bytes);
}

/// Counts an object that is about to be freed.
#[inline]
pub(crate) fn released(thread: &mut Thread, object: *mut c_void) {
    let Some(bytes) = size(object) else { return };
    begin(thread);
    let own = &mut thread.own;
    own.frees += 1;
    own.freed += bytes;
    if let Some((entry, address)) = followed(object) {
        let asked = entry.load(Ordering::Relaxed);
        if asked >> NUMBER_BITS == address {
            let number = u64::from(own.number) & ((1 << NUMBER_BITS) - 1);
            own.followed += 1;
            own.elsewhere += u64::from(asked & ((1 << NUMBER_BITS) - 1) != number);
        }
    }
    end(thread, bytes);
}

/// Bytes of an object; `None` for one of the store, which is never freed. 0 if they are not told.
#[inline(always)]
fn size(object: *mut c_void) -> Option<u64> {
    // SAFETY: the object is in use by the caller.
    (!store::owns(object)).then(|| unsafe { next::usable_size(object) } as u64)
}

/// The entry of an object that is followed, and its address without the bits that are zero.
#[inline(always)]
fn followed(object: *mut c_void) -> Option<(&'static AtomicU64, u64)> {
    const SCATTER: u64 = 0x9e37_79b9_7f4a_7c15;
    let address = object.addr() as u64 >> 4;
    let hash = address.wrapping_mul(SCATTER) >> 32;
    if !hash.is_multiple_of(FOLLOWED) {
        return None;
    }
    let index = (hash / FOLLOWED) as usize % ENTRIES;
    // SAFETY: the table has as many entries, was made before anything is counted, and stays.
    let entry = unsafe { &*ASKED.load(Ordering::Relaxed).add(index) };
    Some((entry, address))
}

#[inline(always)]
fn begin(thread: &mut Thread) {
    if thread.own.number == 0 {
        introduce(thread);
    }
}

/// Gives the thread its number.
#[cold]
#[inline(never)]
fn introduce(thread: &mut Thread) {
    thread.own.number = THREADS.fetch_add(1, Ordering::Relaxed) + 1;
    thread.own.left = CALLS;
    thread::arrange_exit(thread);
}

#[inline(always)]
fn end(thread: &mut Thread, bytes: u64) {
    let own = &mut thread.own;
    own.left = own.left.wrapping_sub(1);
    if own.left == 0 || bytes >= LARGE {
        add(own);
    }
}

/// Adds what the thread has counted to the process' record.
#[cold]
#[inline(never)]
pub(crate) fn add(own: &mut Own) {
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
    own.left = if own.is_ending { 1 } else { CALLS };
}
