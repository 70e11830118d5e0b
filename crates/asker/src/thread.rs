//! The thread that waits for questions.
//!
//! It is made by the C library, because the functions that it calls need a thread that the C
//! library knows, and from the beginning, because nobody else runs code of ours later. It gets no
//! signals, so that none of the program's handlers runs on it, but those by which the C library
//! makes all threads change their user. A fork does not take it along: a copy of a process cannot
//! be asked, and says so by not being among those that can. A program may end its first thread and
//! go on until the others have ended, and this one would keep the process alive; so it ends as well
//! when the first has ended.

use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use freehold_sync::question::Question;
use freehold_sys::process::{File, process_id, read_link};
use freehold_sys::thread::set_name;
use freehold_sys::{environment, futex, shared};
use freehold_trace::asked::{self, field};

use crate::allocators;
use crate::libc::{EVERYWHERE, function};

/// The stack: what the functions take, and storage of the program's threads, which lies there too.
const STACK: usize = 256 << 10;

/// How long it sleeps before it looks whether the first thread has ended.
const PAUSE_MS: u64 = 1000;

/// Runs as the program starts.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = at_start;

/// Where the record of this process is.
static RECORD: AtomicUsize = AtomicUsize::new(0);

extern "C" fn at_start() {
    let Some(record) = take_record() else { return };
    // Relaxed: the thread is made after this.
    RECORD.store(record, Ordering::Relaxed);
    if start() == Some(MADE) {
        // SAFETY: an aligned number of the record.
        let pid = unsafe { word::<AtomicU32>(record + field::PID) };
        // Release: for who reads the file, there is somebody to be asked.
        pid.store(process_id(), Ordering::Release);
    }
}

/// Maps the file that the environment names, and takes a record in it.
fn take_record() -> Option<usize> {
    let mut path = [0; 4096];
    let path = environment::file_named(asked::VARIABLE.as_bytes(), &mut path)?;
    let mut start = [0; asked::MAGIC.len()];
    File::open(path)?.read(&mut start);
    if start != asked::MAGIC {
        return None;
    }
    let base = shared::map(path, asked::BYTES)?;
    // SAFETY: an aligned number of the file.
    let processes = unsafe { word::<AtomicU32>(base + asked::PROCESSES) };
    // Relaxed: the addition alone makes the record ours.
    let number = processes.fetch_add(1, Ordering::Relaxed) as usize;
    (number < asked::MOST).then_some(base + asked::FIRST + number * asked::RECORD)
}

/// Something in the file, which stays mapped.
///
/// # Safety
/// The address is that of a `T` of the file, which is made of atomic numbers.
unsafe fn word<T>(at: usize) -> &'static T {
    // SAFETY: the caller's promise.
    unsafe { &*ptr::with_exposed_provenance::<T>(at) }
}

/// Room for what the C library keeps in `pthread_attr_t` and `sigset_t`: they have 64 and 128
/// bytes.
type Room = [u64; 16];

/// What `pthread_create(3)` returns where it has made a thread.
const MADE: c_int = 0;

/// Makes the thread; nothing happens where that cannot be done.
fn start() -> Option<c_int> {
    type OnRoom = unsafe extern "C" fn(*mut Room) -> c_int;
    type SetNumber = unsafe extern "C" fn(*mut Room, c_int) -> c_int;
    type SetSize = unsafe extern "C" fn(*mut Room, usize) -> c_int;
    type SetMask = unsafe extern "C" fn(c_int, *const Room, *mut Room) -> c_int;
    type Body = extern "C" fn(*mut c_void) -> *mut c_void;
    type Create = unsafe extern "C" fn(*mut usize, *const Room, Body, *mut c_void) -> c_int;
    const DETACHED: c_int = 1;
    const SIG_SETMASK: c_int = 2;
    // SAFETY: the C library's functions, as `pthread.h` and `signal.h` declare them.
    let (begin, detach, set_size, create, fill, set_mask) = unsafe {
        (
            function::<OnRoom>(EVERYWHERE, c"pthread_attr_init")?,
            function::<SetNumber>(EVERYWHERE, c"pthread_attr_setdetachstate")?,
            function::<SetSize>(EVERYWHERE, c"pthread_attr_setstacksize")?,
            function::<Create>(EVERYWHERE, c"pthread_create")?,
            function::<OnRoom>(EVERYWHERE, c"sigfillset")?,
            function::<SetMask>(EVERYWHERE, c"pthread_sigmask")?,
        )
    };
    let (mut how, mut all, mut before): (Room, Room, Room) = ([0; 16], [0; 16], [0; 16]);
    let mut thread = 0;
    // SAFETY: attributes and masks are written before they are read, and have room enough; the
    // thread inherits the mask that its maker has meanwhile.
    let made = unsafe {
        begin(&raw mut how);
        detach(&raw mut how, DETACHED);
        set_size(&raw mut how, STACK);
        // The C library leaves out the signals that are its own.
        fill(&raw mut all);
        set_mask(SIG_SETMASK, &raw const all, &raw mut before);
        let made = create(&raw mut thread, &raw const how, serve, ptr::null_mut());
        set_mask(SIG_SETMASK, &raw const before, ptr::null_mut());
        made
    };
    Some(made)
}

extern "C" fn serve(_: *mut c_void) -> *mut c_void {
    set_name(c"freehold-asker");
    let record = RECORD.load(Ordering::Relaxed);
    // SAFETY: numbers of the record, each at its place; a question is two of them.
    let (pid, question) = unsafe {
        (word::<AtomicU32>(record + field::PID), word::<Question>(record + field::QUESTION))
    };
    let can_tell = first_lives();
    loop {
        if let Some(number) = question.next() {
            let write = |at, value| {
                // SAFETY: an aligned number of the record. Relaxed: `answer` publishes it.
                unsafe { word::<AtomicU64>(record + at) }.store(value, Ordering::Relaxed);
            };
            allocators::ask().write(write);
            question.answer(number);
            futex::wake_waiting_shortly(question.answered());
            continue;
        }
        let (asked, last) = question.asked();
        futex::wait_shortly(asked, last, PAUSE_MS);
        if can_tell && !first_lives() {
            // Relaxed: who reads it before waits in vain, and says so.
            pid.store(0, Ordering::Relaxed);
            return ptr::null_mut();
        }
    }
}

/// Whether the program's first thread has not ended: the kernel does not tell the program of one
/// that has. Nothing is opened for that, since programs count on which descriptor comes next.
fn first_lives() -> bool {
    read_link(c"/proc/self/exe", &mut [0; 16]) > 0
}
