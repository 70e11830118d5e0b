//! Starting a command so that it stands before its first instruction, until it is told to go on.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use rustix::thread::gettid;

/// Makes a command stand before its first instruction when it is started, where the system allows
/// that: it asks to be traced by who starts it, and the kernel stops what is traced as it executes
/// a program. Not for programs that change their user: what is traced may not.
pub fn prepare(command: &mut Command) {
    let be_traced = || {
        // SAFETY: the request reads and writes no memory. Refused, it changes nothing.
        unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) };
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes one system call, and allocates nothing.
    unsafe { command.pre_exec(be_traced) };
}

/// Takes over a prepared command that was just started, by the thread that has started it: it is
/// stopped as if by `SIGSTOP`, and nobody traces it any more. False where it was not prepared, the
/// system did not allow it, or it has ended.
pub fn take_over(pid: u32) -> bool {
    let stood = is_traced(pid) && has_stopped(pid);
    if !stood {
        return false;
    }
    // SAFETY: the request reads and writes no memory of ours; it is about a child that we trace.
    let detached = unsafe {
        libc::ptrace(libc::PTRACE_DETACH, pid.cast_signed(), 0_usize, libc::SIGSTOP as usize)
    };
    detached == 0 && has_stopped(pid)
}

/// Whether this thread traces a process. That has asked for it before it has executed its program,
/// which starting it waits for.
fn is_traced(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_some_and(|tracer| tracer.trim() == gettid().to_string())
}

/// Waits until a child has stopped, for who traces it or for all, or has ended; tells whether it
/// stands now.
fn has_stopped(pid: u32) -> bool {
    let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    let Some(child) = Pid::from_raw(pid.cast_signed()) else { return false };
    waitid(WaitId::Pid(child), options)
        .ok()
        .flatten()
        .is_some_and(|status| status.stopped() || status.trapped())
}

#[cfg(test)]
mod tests {
    use rustix::process::{Signal, kill_process};

    use super::*;

    #[test]
    fn a_command_stands_before_its_loader_has_done_anything_and_then_goes_on() {
        let mut command = Command::new("sh");
        prepare(command.args(["-c", "exit 3"]));
        let mut child = command.spawn().expect("there is a shell");
        assert!(take_over(child.id()), "it may be traced here");
        let mapped = fs::read_to_string(format!("/proc/{}/maps", child.id())).expect("it stands");
        assert!(mapped.contains("/ld-") && !mapped.contains("libc.so"), "{mapped}");
        assert!(!is_traced(child.id()));
        let pid = Pid::from_raw(child.id().cast_signed()).expect("a number");
        kill_process(pid, Signal::CONT).expect("it is ours");
        assert_eq!(child.wait().expect("it ends").code(), Some(3));
    }

    #[test]
    fn a_command_that_was_not_prepared_is_not_waited_for() {
        let mut child = Command::new("sleep").arg("30").spawn().expect("there is a sleep");
        assert!(!take_over(child.id()));
        child.kill().expect("it is ours");
        child.wait().expect("it ends");
    }
}
