//! What a thread has at hand: its place in the trace and its clock.

use core::ffi::{c_uint, c_void};
use core::ptr::without_provenance;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use freehold_trace::packed::Before;

use crate::counting::Own;
use crate::{libc, writer};

/// A thread's part of the recorder. All zero at first, which means that it has no place yet.
#[repr(C, align(64))]
pub(crate) struct Thread {
    /// Where the next record goes.
    pub(crate) next: *mut u8,
    /// From here on the slow path is taken, which looks at the time, or for another chunk.
    pub(crate) pause: *mut u8,
    /// The clock of the last record.
    pub(crate) clock: u64,
    /// The time that others had published when the thread last looked whether its own is behind:
    /// as long as it is the same, and the mode is `MANY`, the clock will do. [`NONE_SEEN`] in other
    /// modes. It is set before there is anything short of `pause`.
    pub(crate) seen: u64,
    /// What the next record is compared with.
    pub(crate) before: Before,
    /// How the thread is told in the table of [`crate::clock`].
    pub(crate) badge: u64,
    /// Whether a call is under way, so that one within it is not recorded. A signal handler may see
    /// it in between.
    pub(crate) is_inside: AtomicBool,
    /// Whether the end of the thread will be noticed.
    will_exit: bool,
    /// The share of the objects that was last announced.
    pub(crate) level: u32,
    /// What the clock was when the thread last looked at the time because that was due.
    pub(crate) looked: u64,
    /// How many bytes it then was to write before the next time.
    pub(crate) stride: u64,
    /// What `realloc` was last called with.
    pub(crate) resized: u64,
    /// The kernel's number of it; 0 before it was asked for.
    tid: u32,
    /// Which of the process's threads it is.
    pub(crate) number: u32,
    /// How many chunks it has had.
    pub(crate) chunks: u32,
    /// The first byte of the chunk.
    pub(crate) chunk: *mut u8,
    /// From here on there is no room for one more record with all that goes with it.
    pub(crate) end: *mut u8,
    /// What it has counted, where calls are counted rather than recorded.
    pub(crate) own: Own,
}

/// A time that nobody publishes.
pub(crate) const NONE_SEEN: u64 = u64::MAX;

const _: () = assert!(size_of::<Thread>() <= 1024, "dlopen needs small thread-local storage");

freehold_sys::thread_storage! {
    /// The calling thread's part.
    pub(crate) fn current() -> *mut Thread = concat!(
        "freehold_recorder_",
        env!("CARGO_PKG_VERSION_MAJOR"),
        "_",
        env!("CARGO_PKG_VERSION_MINOR"),
        "_",
        env!("CARGO_PKG_VERSION_PATCH")
    );
}

impl Thread {
    /// The kernel's number of it. It is asked once: a program may have forbidden itself the call
    /// by the time of a later chunk.
    pub(crate) fn kernel_thread(&mut self) -> u32 {
        if self.tid == 0 {
            self.tid = freehold_sys::process::thread_id();
        }
        self.tid
    }

    /// The thread is the first of this process, and has its number.
    pub(crate) fn is_first_of(&mut self, process: u32) {
        self.tid = process;
    }

    /// Gives up a place that was another process's: this one is a copy of it.
    pub(crate) fn leave(&mut self) {
        *self = Self {
            next: core::ptr::null_mut(),
            pause: core::ptr::null_mut(),
            clock: self.clock,
            seen: NONE_SEEN,
            before: Before::default(),
            badge: 0,
            is_inside: AtomicBool::new(self.is_inside.load(Ordering::Relaxed)),
            will_exit: self.will_exit,
            level: 0,
            looked: self.looked,
            stride: 0,
            resized: 0,
            tid: 0,
            number: 0,
            chunks: 0,
            chunk: core::ptr::null_mut(),
            end: core::ptr::null_mut(),
            own: core::mem::take(&mut self.own),
        };
    }
}

/// The key by which the end of a thread is noticed, plus one; 0 when there is none.
static KEY: AtomicU32 = AtomicU32::new(0);

/// Makes the key, once for the process.
pub(crate) fn prepare_exit() {
    let mut key: c_uint = 0;
    // SAFETY: the key is written to a local variable; the destructor is of the kind asked for.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(at_exit)) } == 0 {
        KEY.store(key + 1, Ordering::Relaxed);
    }
}

/// Makes sure that the end of the calling thread is noticed.
pub(crate) fn arrange_exit(thread: &mut Thread) {
    if thread.will_exit {
        return;
    }
    if let Some(key) = KEY.load(Ordering::Relaxed).checked_sub(1) {
        thread.will_exit = true;
        // SAFETY: the key was made by `prepare_exit` and is never deleted. If it allocates, that is
        // a call within a call.
        unsafe { libc::pthread_setspecific(key, without_provenance(1)) };
    }
}

unsafe extern "C" fn at_exit(_: *mut c_void) {
    // SAFETY: the thread's own part, and nothing of ours is using it: one that was cancelled within
    // a call is found inside.
    unsafe { writer::exit(current()) };
}
