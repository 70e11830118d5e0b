//! Stopping and continuing threads with `ptrace`, and waiting for them to stop. Signals are plain
//! numbers here, since the C library uses some that have no name.

use std::io;
use std::mem::MaybeUninit;

/// What a thread stopped for, or that it is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It is at a system call's beginning or end.
    Call,
    /// It was sent this signal, which it has not received yet.
    Signal(i32),
    /// The kernel tells of a new thread, or of a stop that we asked for.
    Event,
    /// It runs a new program.
    Exec,
    /// It is stopped together with its process, as by a shell's job control.
    Group(i32),
    /// It ended, with this status of `wait`.
    Ended(i32),
}

/// Where a thread is in a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// At the beginning of the call of this number.
    Entry(u64),
    /// At the end.
    Exit {
        /// Whether it failed.
        is_error: bool,
    },
    /// Neither.
    None,
}

const OPTIONS: i32 = libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACEEXEC;

fn check(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A request that takes nothing but a number.
fn request(request: libc::c_uint, tid: u32, data: usize) -> io::Result<()> {
    // SAFETY: none of the requests that this module makes by way of this function reads or writes
    // memory of ours; a thread that is not ours to trace is refused by the kernel.
    check(unsafe { libc::ptrace(request, tid.cast_signed(), 0_usize, data) })
}

/// Begins to trace a thread, without stopping it. Threads that it starts are traced as well.
pub(crate) fn seize(tid: u32) -> io::Result<()> {
    request(libc::PTRACE_SEIZE, tid, OPTIONS as usize)
}

/// Asks a traced thread to stop.
pub(crate) fn interrupt(tid: u32) -> io::Result<()> {
    request(libc::PTRACE_INTERRUPT, tid, 0)
}

/// Lets a stopped thread go on to the next beginning or end of a system call, with this signal
/// delivered if it is not 0.
pub(crate) fn go_on(tid: u32, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_SYSCALL, tid, signal as usize)
}

/// Leaves a thread stopped with its process, but hears of what becomes of it.
pub(crate) fn listen(tid: u32) -> io::Result<()> {
    request(libc::PTRACE_LISTEN, tid, 0)
}

/// Lets a stopped thread go for good, with this signal delivered if it is not 0.
pub(crate) fn detach(tid: u32, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_DETACH, tid, signal as usize)
}

/// Where a stopped thread is in a system call.
pub(crate) fn phase(tid: u32) -> io::Result<Phase> {
    let mut info = MaybeUninit::<libc::ptrace_syscall_info>::zeroed();
    let size = size_of::<libc::ptrace_syscall_info>();
    // SAFETY: the kernel writes at most `size` bytes to `info`, which has as many.
    let written = unsafe {
        libc::ptrace(libc::PTRACE_GET_SYSCALL_INFO, tid.cast_signed(), size, info.as_mut_ptr())
    };
    check(written)?;
    // SAFETY: it was zeroed, and every field is a number, for which any bytes will do.
    let info = unsafe { info.assume_init() };
    Ok(match info.op {
        libc::PTRACE_SYSCALL_INFO_ENTRY => {
            // SAFETY: the operation says that this part of the union is the valid one.
            Phase::Entry(unsafe { info.u.entry.nr })
        }
        libc::PTRACE_SYSCALL_INFO_EXIT => {
            // SAFETY: the operation says that this part of the union is the valid one.
            let is_error = unsafe { info.u.exit.is_error };
            Phase::Exit { is_error: is_error != 0 }
        }
        _ => Phase::None,
    })
}

/// A stop of this process, if there is one. Its end is left to be waited for by somebody else.
pub(crate) fn next_of(pid: u32) -> io::Result<Option<Stop>> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let kinds = libc::WSTOPPED | libc::WNOHANG | libc::__WALL;
    // SAFETY: the kernel writes to `info`, which has the type that it is documented to have.
    check(unsafe { libc::waitid(libc::P_PID, pid, info.as_mut_ptr(), kinds) }.into())?;
    // SAFETY: it was zeroed, and every field is a number, for which any bytes will do.
    let info = unsafe { info.assume_init() };
    // SAFETY: for a child's change of state these fields are the valid ones; zeroed otherwise.
    let (child, status) = unsafe { (info.si_pid(), info.si_status()) };
    Ok((child != 0).then(|| meaning(status << 8 | STOPPED)))
}

/// The next thread that stopped or ended, if there is one; fails when there is none to wait for.
pub(crate) fn next() -> io::Result<Option<(u32, Stop)>> {
    let mut status = 0;
    // SAFETY: the kernel writes the status to a variable that outlives the call.
    let tid = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::WNOHANG) };
    check(tid.into())?;
    let tid = tid.cast_unsigned();
    Ok((tid > 0).then(|| (tid, meaning(status))))
}

/// The low bits of the status of a stop.
const STOPPED: i32 = 0x7f;

/// What a status of `wait` means.
fn meaning(status: i32) -> Stop {
    /// How the end of a system call differs from a signal to stop.
    const CALL: i32 = libc::SIGTRAP | 0x80;
    if !libc::WIFSTOPPED(status) {
        return Stop::Ended(status);
    }
    let signal = libc::WSTOPSIG(status);
    match (status >> 16, signal) {
        (0, CALL) => Stop::Call,
        (0, _) => Stop::Signal(signal),
        (libc::PTRACE_EVENT_STOP, libc::SIGTRAP) => Stop::Event,
        (libc::PTRACE_EVENT_EXEC, _) => Stop::Exec,
        (libc::PTRACE_EVENT_STOP, _) => Stop::Group(signal),
        _ => Stop::Event,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_are_told_apart_by_their_status() {
        let stopped = |signal: i32, event: i32| meaning(event << 16 | signal << 8 | STOPPED);
        assert_eq!(stopped(libc::SIGTRAP | 0x80, 0), Stop::Call);
        assert_eq!(stopped(libc::SIGUSR1, 0), Stop::Signal(libc::SIGUSR1));
        // The C library's own, which has no name.
        assert_eq!(stopped(33, 0), Stop::Signal(33));
        assert_eq!(stopped(libc::SIGTRAP, libc::PTRACE_EVENT_CLONE), Stop::Event);
        assert_eq!(stopped(libc::SIGTRAP, libc::PTRACE_EVENT_STOP), Stop::Event);
        assert_eq!(stopped(libc::SIGTRAP, libc::PTRACE_EVENT_EXEC), Stop::Exec);
        assert_eq!(stopped(libc::SIGTSTP, libc::PTRACE_EVENT_STOP), Stop::Group(libc::SIGTSTP));
        assert_eq!(meaning(3 << 8), Stop::Ended(3 << 8));
    }
}
