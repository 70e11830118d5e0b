//! The handler of SIGSEGV, which tells accesses to guarded objects from all others.
//!
//! It is set as the library is loaded, before the program can set its own. A program that does that
//! later takes its place: then the program's handler gets what the kernel has to say about the
//! access, or the program ends as it would have, and there is no report. What was set before gets
//! the signal after the report: the program's handler, or the default action, so that a program
//! ends as it would have ended, and leaves the core file that it would have left.
//!
//! The handler allocates nothing, takes no lock but the loader's (to find the tables of stacks, and
//! only for an access to a guarded object), and uses no thread-local storage.

use super::{explain, pool};
use crate::stack::Registers;
use core::ffi::c_int;
use freehold_sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use freehold_sys::signal::{
    self, Action, Context, Details, SA_NODEFER, SA_ONSTACK, SA_RESETHAND, SA_SIGINFO, SIG_DFL,
    SIG_IGN, SIGSEGV,
};
use freehold_sys::{futex, process};

/// What was set before. Written once, before a fault can come here.
static BEFORE_HANDLER: AtomicUsize = AtomicUsize::new(SIG_DFL);
static BEFORE_FLAGS: AtomicUsize = AtomicUsize::new(0);
static BEFORE_MASK: AtomicU64 = AtomicU64::new(0);

/// The thread that reports; 0 if none does.
static REPORTING: AtomicU32 = AtomicU32::new(0);

/// Sets the handler.
pub(super) fn install() {
    let action = Action::call(on_fault, SA_SIGINFO | SA_ONSTACK);
    // SAFETY: the handler is of the kind that the flags ask for, and does only what it may.
    if let Some(before) = unsafe { signal::set(SIGSEGV, &action) } {
        // Relaxed: the process has one thread, or nothing is guarded yet.
        BEFORE_HANDLER.store(before.handler, Ordering::Relaxed);
        BEFORE_FLAGS.store(before.flags, Ordering::Relaxed);
        BEFORE_MASK.store(before.mask, Ordering::Relaxed);
    }
}

unsafe extern "C" fn on_fault(number: c_int, details: *mut Details, context: *mut Context) {
    // SAFETY: the kernel's, for as long as the handler runs.
    let (said, state) = unsafe { (&*details, &*context) };
    let accessed = said.accessed();
    if let (Some(address), Some(pool)) = (accessed, pool())
        && pool.contains(address)
    {
        report(|| explain::access(pool, address, state.was_write(), Registers::interrupted(state)));
    }
    // SAFETY: what the kernel has passed.
    unsafe { pass_on(number, accessed.is_some(), details, context) }
}

/// Reports, when nobody else does.
fn report(words: impl FnOnce()) {
    let me = process::thread_id();
    loop {
        // Acquire and Release: reports come one after the other.
        match REPORTING.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => break,
            // A fault in the report itself.
            Err(other) if other == me => return,
            Err(other) => futex::wait(&REPORTING, other),
        }
    }
    words();
    REPORTING.store(0, Ordering::Release);
    futex::wake_all(&REPORTING);
}

/// In the child of a fork: a thread that reported is not there.
pub(super) fn reset() {
    // Relaxed: there is one thread.
    REPORTING.store(0, Ordering::Relaxed);
}

/// Lets happen what would have happened without this handler.
unsafe fn pass_on(number: c_int, by_access: bool, details: *mut Details, context: *mut Context) {
    let handler = BEFORE_HANDLER.load(Ordering::Relaxed);
    let flags = BEFORE_FLAGS.load(Ordering::Relaxed);
    if handler == SIG_IGN && !by_access {
        return;
    }
    if matches!(handler, SIG_DFL | SIG_IGN) {
        // SAFETY: the default action. The access is made again as this returns, and is the
        // program's end; a signal that somebody has sent is sent again.
        unsafe { signal::set(number, &Action::default()) };
        if !by_access {
            signal::send_to_self(number);
        }
        return;
    }
    if flags & SA_RESETHAND != 0 {
        BEFORE_HANDLER.store(SIG_DFL, Ordering::Relaxed);
    }
    signal::set_blocked(BEFORE_MASK.load(Ordering::Relaxed), true);
    if flags & SA_NODEFER != 0 {
        signal::set_blocked(1 << (number - 1), false);
    }
    // SAFETY: a handler that the program has set, called as its flags ask for.
    unsafe {
        if flags & SA_SIGINFO != 0 {
            core::mem::transmute::<usize, signal::Handler>(handler)(number, details, context);
        } else {
            core::mem::transmute::<usize, unsafe extern "C" fn(c_int)>(handler)(number);
        }
    }
}
