//! The trace, as this process has mapped it.
//!
//! What the process does is told by its mode, which lies on a page that the kernel zeroes in every
//! forked child, however it was forked: so a child finds out at its first call, before it could
//! write to a chunk of its parent's, and takes its own place in the trace. On the same page lies
//! the time that was last published ([`crate::clock`]), which changes with every mode as well: so
//! where there are several threads, each looks at that alone.
//!
//! | mode | calls are |
//! |---|---|
//! | `UNKNOWN` | not recorded yet: the process has to find its trace, or its own place |
//! | `SINGLE` | recorded; there has been one thread, so nothing is shared |
//! | `MANY` | recorded, with a look at the table |
//! | `SAMPLED` | recorded for a share of the objects, with a look at the table |
//! | `COUNTED` | not recorded, but counted ([`crate::counting`]) |
//! | `OFF` | not recorded |

use core::ffi::CStr;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use freehold_sync::published::Published;
use freehold_sys::process::File;
use freehold_sys::{Linux, System, environment, shared};
use freehold_trace::file::{self, Block, Header, UNIT, block, header, process};
use freehold_trace::packed::Before;

use crate::thread::{self, Thread};
use crate::{clock, counting, libc, next};

pub(crate) const UNKNOWN: u32 = 0;
pub(crate) const SINGLE: u32 = 1;
pub(crate) const MANY: u32 = 2;
pub(crate) const SAMPLED: u32 = 3;
pub(crate) const OFF: u32 = 4;
pub(crate) const COUNTED: u32 = 5;

/// The largest page of the architecture: the mode must have its page for itself.
const LARGEST_PAGE: usize = if cfg!(target_arch = "aarch64") { 65_536 } else { 4096 };

#[cfg_attr(target_arch = "aarch64", repr(C, align(65536)))]
#[cfg_attr(not(target_arch = "aarch64"), repr(C, align(4096)))]
struct Wiped(Published);

static WIPED: Wiped = Wiped(Published::new());

const _: () = assert!(UNKNOWN == 0, "what was wiped is unknown");

const _: () = assert!(size_of::<Wiped>() == LARGEST_PAGE, "wiping takes whole pages");

/// Where the trace is mapped; 0 before it is.
static BASE: AtomicUsize = AtomicUsize::new(0);
static CAPACITY: AtomicU64 = AtomicU64::new(0);
/// When recording began.
static START: AtomicU64 = AtomicU64::new(0);
/// What is written of this process, behind its block's header.
static OWN: AtomicUsize = AtomicUsize::new(0);
/// Which of the trace's processes this is.
static NUMBER: AtomicU32 = AtomicU32::new(0);
/// Threads that have a place.
static THREADS: AtomicU32 = AtomicU32::new(0);
/// The share of the objects that is recorded.
static LEVEL: AtomicU32 = AtomicU32::new(0);
/// Whether somebody is looking for the trace, or has looked.
static BEGUN: AtomicBool = AtomicBool::new(false);

/// The mode, and the time that was last published. Both are 0 in a child that does not know yet
/// that it is one.
#[inline(always)]
pub(crate) fn published() -> &'static Published {
    &WIPED.0
}

/// The mode.
#[inline(always)]
pub(crate) fn mode() -> u32 {
    published().mode()
}

/// Makes sure that calls can be recorded, and tells whether they are.
#[inline]
pub(crate) fn enter(thread: &mut Thread) -> bool {
    match mode() {
        MANY => true,
        SINGLE if libc::is_single_threaded() => true,
        _ => enter_first(thread),
    }
}

/// The same for a call that may be the first of a process, or the first since it has had two
/// threads.
#[cold]
#[inline(never)]
fn enter_first(thread: &mut Thread) -> bool {
    loop {
        match mode() {
            OFF | COUNTED => return false,
            SINGLE if !libc::is_single_threaded() => join_many(),
            UNKNOWN if BASE.load(Ordering::Relaxed) != 0 => take_own_place(thread),
            UNKNOWN if counting::is_mapped() => count_calls(counting::take_record()),
            // Calls of other threads, while one is looking for the trace, pass unrecorded.
            UNKNOWN if BEGUN.swap(true, Ordering::Relaxed) => return false,
            UNKNOWN => find_trace(thread),
            _ => return true,
        }
    }
}

/// From now on there are several threads.
fn join_many() {
    if !clock::make_table() {
        published().set_mode(OFF);
        return;
    }
    // Another thread may have gone further in the meantime, and must not be called back.
    published().turn(SINGLE, MANY);
}

/// The time since recording began, in nanoseconds.
pub(crate) fn time() -> u64 {
    libc::monotonic().saturating_sub(START.load(Ordering::Relaxed))
}

/// Looks for the trace that this process was told of, and takes a place in it.
fn find_trace(thread: &mut Thread) {
    if let Some((base, found)) = open_trace()
        && wipe_in_children()
    {
        START.store(found.start_monotonic, Ordering::Relaxed);
        CAPACITY.store(found.capacity, Ordering::Relaxed);
        BASE.store(base, Ordering::Relaxed);
        thread::prepare_exit();
        if register(thread, None) {
            published().set_mode(SINGLE);
            return;
        }
    }
    count_calls(wipe_in_children() && counting::find());
}

/// From now on calls are counted, or nothing is done.
fn count_calls(can_be_counted: bool) {
    published().set_mode(if can_be_counted { COUNTED } else { OFF });
}

fn wipe_in_children() -> bool {
    // SAFETY: the page is the mode's alone, and all that is to be known of it in a child is that it
    // is zero.
    unsafe { shared::wipe_on_fork((&raw const WIPED).addr(), LARGEST_PAGE) }
}

/// Maps the trace that the environment names.
fn open_trace() -> Option<(usize, Header)> {
    let mut path = [0; 4096];
    let path = environment::file_named(file::VARIABLE.as_bytes(), &mut path)?;
    let mut start = [0; header::BYTES];
    let read = File::open(path)?.read(&mut start);
    let found = Header::read(&start[..read]).ok()?;
    if found.state != file::RAW {
        return None;
    }
    let base = shared::map(path, usize::try_from(found.capacity).ok()?)?;
    Some((base, found))
}

/// This process is a copy of one that is recorded, and takes its own place.
fn take_own_place(thread: &mut Thread) {
    let parent = (NUMBER.load(Ordering::Relaxed), OWN.load(Ordering::Relaxed), thread.clock);
    thread.leave();
    THREADS.store(0, Ordering::Relaxed);
    published().set_mode(if register(thread, Some(parent)) { SINGLE } else { OFF });
    raise_level();
}

/// Writes down what is known of this process, and takes a number. A copy says of which process, and
/// from which clock on.
fn register(thread: &mut Thread, parent: Option<(u32, usize, u64)>) -> bool {
    // Before there is room: one for which there is none is counted as well. Relaxed: the addition
    // alone makes the number ours.
    let number = header_word::<AtomicU32>(header::PROCESSES).fetch_add(1, Ordering::Relaxed);
    let Some(at) = take(UNIT) else {
        return false;
    };
    let payload = at + block::HEADER;
    // SAFETY: the block was just taken, so nobody else writes to it, and it is mapped.
    let bytes = unsafe { bytes_at(payload, process::BYTES) };
    if let Some((parent, described, fork_clock)) = parent {
        // SAFETY: the parent's description, which is mapped and does not change.
        let theirs = unsafe { bytes_at(described, process::BYTES) };
        // The texts are the same, and no call is made for them that a filter may forbid.
        bytes[process::ALLOCATOR..].copy_from_slice(&theirs[process::ALLOCATOR..]);
        let pid = freehold_sys::process::process_id();
        thread.is_first_of(pid);
        put(bytes, process::PID, &pid.to_le_bytes());
        put(bytes, process::PARENT_PID, &theirs[process::PID..][..size_of::<u32>()]);
        put(bytes, process::FORKED_FROM, &(parent + 1).to_le_bytes());
        put(bytes, process::FORK_CLOCK, &fork_clock.to_le_bytes());
    } else {
        describe(bytes);
        describe_allocator(&mut bytes[process::ALLOCATOR..][..process::TEXT]);
    }
    write_header(
        at,
        &Block {
            kind: file::PROCESS,
            bytes: UNIT as u64,
            process: number,
            thread: 0,
            sequence: 0,
            kernel_thread: thread.kernel_thread(),
            clock: time(),
            payload: 0,
            sum: 0,
        },
    );
    NUMBER.store(number, Ordering::Relaxed);
    OWN.store(payload, Ordering::Relaxed);
    true
}

fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}

fn describe(bytes: &mut [u8]) {
    put(bytes, process::PID, &freehold_sys::process::process_id().to_le_bytes());
    put(bytes, process::PARENT_PID, &freehold_sys::process::parent_id().to_le_bytes());
    // Each text keeps a zero byte at its end.
    let program = &mut bytes[process::PROGRAM..][..process::TEXT - 1];
    freehold_sys::process::read_link(c"/proc/self/exe", program);
    let command = &mut bytes[process::COMMAND..][..process::TEXT - 1];
    if let Some(file) = File::open(c"/proc/self/cmdline") {
        file.read(command);
    }
}

/// Writes down which file the next `malloc` is in.
fn describe_allocator(text: &mut [u8]) {
    let mut found = libc::Found::nothing();
    // SAFETY: any address may be asked about, and the answer is written to a local variable.
    let is_known = unsafe { libc::dladdr(next::malloc_address(), &raw mut found) } != 0;
    if !is_known || found.file.is_null() {
        return;
    }
    // SAFETY: the loader returns a C string that lives as long as the object is mapped, which is
    // for good for the one that serves malloc.
    let name = unsafe { CStr::from_ptr(found.file) }.to_bytes();
    let used = name.len().min(text.len() - 1);
    text[..used].copy_from_slice(&name[..used]);
}

/// Bytes of the mapped trace.
///
/// # Safety
/// They are mapped, and while the result is used nobody else writes to them.
unsafe fn bytes_at<'a>(at: usize, len: usize) -> &'a mut [u8] {
    // SAFETY: the caller's promise.
    unsafe { core::slice::from_raw_parts_mut(ptr::with_exposed_provenance_mut(at), len) }
}

/// Writes the header of a block that was just taken. It is one that a reader takes for a header
/// only when it is whole.
fn write_header(at: usize, header: &Block) {
    // SAFETY: the block was just taken, so nobody else writes to it, and it is mapped.
    let place = unsafe { bytes_at(at, block::HEADER) };
    place.copy_from_slice(&header.to_bytes());
}

/// A field of the trace's header that changes.
fn header_word<T>(at: usize) -> &'static T {
    let word = ptr::with_exposed_provenance::<T>(BASE.load(Ordering::Relaxed) + at);
    // SAFETY: called for the atomic fields of the header only, which are aligned to their size; the
    // trace stays mapped.
    unsafe { &*word }
}

/// Takes `bytes`, whole units, of the trace; `None` if there is no room left. Once the file system
/// had none, it is not asked again with every call.
fn take(bytes: usize) -> Option<usize> {
    let flags = header_word::<AtomicU32>(header::FLAGS);
    // Relaxed, as below: the flags order nothing.
    if flags.load(Ordering::Relaxed) & file::FLAG_NO_SPACE != 0 {
        return None;
    }
    let (taken, capacity) =
        (header_word::<AtomicU64>(header::TAKEN), CAPACITY.load(Ordering::Relaxed));
    let fits = |at: u64| at.checked_add(bytes as u64).filter(|&end| end <= capacity);
    // Relaxed: the addition alone makes the range ours.
    let Ok(at) = taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) else {
        // Where a larger block does not fit, a unit still may.
        if bytes == UNIT {
            flags.fetch_or(file::FLAG_FULL, Ordering::Relaxed);
        }
        return None;
    };
    let at = BASE.load(Ordering::Relaxed) + at as usize;
    // SAFETY: the range is within the mapping and nobody else's.
    if unsafe { shared::populate(at, bytes) } {
        return Some(at);
    }
    flags.fetch_or(file::FLAG_NO_SPACE, Ordering::Relaxed);
    None
}

/// Lowers the share of the objects that is recorded, if the trace has filled so far.
fn raise_level() {
    let taken = header_word::<AtomicU64>(header::TAKEN).load(Ordering::Relaxed);
    let level = file::level(taken, CAPACITY.load(Ordering::Relaxed));
    if level > LEVEL.load(Ordering::Relaxed) {
        LEVEL.fetch_max(level, Ordering::Relaxed);
    }
    if LEVEL.load(Ordering::Relaxed) > 0 && matches!(mode(), SINGLE | MANY) {
        let has_table = clock::make_table();
        published().set_mode(if has_table { SAMPLED } else { OFF });
    }
}

/// The share of the objects that is recorded.
pub(crate) fn level() -> u32 {
    LEVEL.load(Ordering::Relaxed)
}

/// The sizes of a thread's chunks: small at first, for programs with many threads that do little.
const FIRST_CHUNK: usize = UNIT;
const LARGEST_CHUNK: usize = 64 * UNIT;

/// Room at the end of a chunk for one record with all notes that can go with it.
const MARGIN: usize = 64;

/// Gives the thread its next chunk, and its number with the first; `false` if there is no room.
pub(crate) fn next_chunk(thread: &mut Thread) -> bool {
    if thread.chunks == 0 {
        thread::arrange_exit(thread);
        thread.number = THREADS.fetch_add(1, Ordering::Relaxed);
        thread.badge = clock::badge(thread.number);
        if thread.number > 0 {
            join_many();
        }
    } else {
        // The chunk stays in the file; only this process's view of it goes.
        let bytes = thread.end.addr() + MARGIN - thread.chunk.addr();
        // SAFETY: the chunk is the thread's, full, and not looked at any more; what was written to
        // a shared file is not lost.
        unsafe { Linux::new().purge(thread.chunk.expose_provenance(), bytes) };
    }
    let Some((at, bytes)) = take_chunk(thread) else {
        return false;
    };
    raise_level();
    thread.clock = clock::publish(time()).max(thread.clock);
    write_header(
        at,
        &Block {
            kind: file::CHUNK,
            bytes: bytes as u64,
            process: NUMBER.load(Ordering::Relaxed),
            thread: thread.number,
            sequence: thread.chunks,
            kernel_thread: thread.kernel_thread(),
            clock: thread.clock,
            payload: 0,
            sum: 0,
        },
    );
    thread.chunks += 1;
    thread.before = Before::default();
    thread.chunk = ptr::with_exposed_provenance_mut(at);
    thread.next = thread.chunk.wrapping_add(block::HEADER);
    thread.end = thread.chunk.wrapping_add(bytes - MARGIN);
    thread.pause = thread.next;
    true
}

/// Takes a chunk of the size that suits the thread, or of what there is room for.
fn take_chunk(thread: &Thread) -> Option<(usize, usize)> {
    let share = (CAPACITY.load(Ordering::Relaxed) / 256) as usize;
    let wanted = FIRST_CHUNK << (2 * thread.chunks).min(6);
    let mut bytes = wanted.min(LARGEST_CHUNK).min(share / UNIT * UNIT).max(UNIT);
    loop {
        match take(bytes) {
            Some(at) => return Some((at, bytes)),
            None if bytes == UNIT => return None,
            None => bytes = UNIT,
        }
    }
}

/// Counts a call that was made within another.
#[cold]
pub(crate) fn count_nested() {
    count(process::NESTED);
}

/// Counts a call that is not recorded because there is no room.
#[cold]
pub(crate) fn count_lost() {
    count(process::LOST);
}

fn count(at: usize) {
    let own = OWN.load(Ordering::Relaxed);
    // A child that has not taken its place yet would count for its parent.
    if own != 0 && mode() != UNKNOWN {
        let word = ptr::with_exposed_provenance::<AtomicU64>(own + at);
        // SAFETY: an aligned word of this process's description, which stays mapped.
        unsafe { &*word }.fetch_add(1, Ordering::Relaxed);
    }
}
