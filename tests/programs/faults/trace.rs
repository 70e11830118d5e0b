//! Following all threads of the program from one system call to the next. Source: `ptrace(2)`.

use std::collections::HashSet;
use std::io;
use std::mem::MaybeUninit;
use std::process::{Command, ExitCode};

use crate::library::Library;
use crate::plan::{FAULTS_END, Place, Plan};

const OPTIONS: i32 = libc::PTRACE_O_EXITKILL
    | libc::PTRACE_O_TRACESECCOMP
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK;

/// What a shell adds to the number of the signal that ended a program.
const BY_SIGNAL: i32 = 128;

fn request(request: libc::c_uint, tid: i32, data: usize) -> io::Result<()> {
    // SAFETY: none of the requests made by way of this function reads or writes memory of ours but
    // the registers that `data` points to, which live during the call.
    match unsafe { libc::ptrace(request, tid, 0_usize, data) } {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn registers(tid: i32) -> io::Result<libc::user_regs_struct> {
    let mut registers = MaybeUninit::<libc::user_regs_struct>::uninit();
    request(libc::PTRACE_GETREGS, tid, registers.as_mut_ptr().addr())?;
    // SAFETY: the kernel has filled it.
    Ok(unsafe { registers.assume_init() })
}

/// Has the call that a thread is stopped at fail instead of being made.
fn fail(tid: i32, mut registers: libc::user_regs_struct, error: i32) -> io::Result<()> {
    registers.orig_rax = u64::MAX;
    registers.rax = i64::from(-error).cast_unsigned();
    request(libc::PTRACE_SETREGS, tid, (&raw const registers).addr())
}

struct Tracer {
    library: Library,
    plan: Plan,
    threads: HashSet<i32>,
}

impl Tracer {
    fn at_call(&mut self, tid: i32) -> io::Result<()> {
        let registers = registers(tid)?;
        let number = registers.orig_rax.cast_signed();
        if (number, registers.rdi) == FAULTS_END {
            self.plan.end();
        }
        let Some(offset) = self.library.offset(tid, registers.rip) else { return Ok(()) };
        let arguments = [
            registers.rdi,
            registers.rsi,
            registers.rdx,
            registers.r10,
            registers.r8,
            registers.r9,
        ];
        let Some(place) = Place::new(number, &arguments, offset) else { return Ok(()) };
        match self.plan.meet(place) {
            Some(error) => fail(tid, registers, error),
            None => Ok(()),
        }
    }

    /// A thread has stopped: returns the signal that it is to go on with.
    fn at_stop(&mut self, tid: i32, status: i32) -> io::Result<i32> {
        let signal = libc::WSTOPSIG(status);
        let is_new = self.threads.insert(tid);
        match status >> 16 {
            libc::PTRACE_EVENT_SECCOMP => self.at_call(tid).map(|()| 0),
            // A new thread begins by being stopped.
            0 if !(is_new && signal == libc::SIGSTOP) => Ok(signal),
            _ => Ok(0),
        }
    }
}

fn wait() -> io::Result<(i32, i32)> {
    let mut status = 0;
    // SAFETY: the kernel writes the status to a local variable.
    match unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL) } {
        tid @ 0.. => Ok((tid, status)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Runs the command, which is prepared to be traced, to its end.
pub(crate) fn run(mut command: Command, library: &str, plan: Plan) -> io::Result<(Plan, ExitCode)> {
    let root = command.spawn()?.id().cast_signed();
    // It is stopped at its first instruction.
    wait()?;
    request(libc::PTRACE_SETOPTIONS, root, OPTIONS as usize)?;
    request(libc::PTRACE_CONT, root, 0)?;
    let mut tracer =
        Tracer { library: Library::new(library), plan, threads: HashSet::from([root]) };
    loop {
        let (tid, status) = wait()?;
        if libc::WIFSTOPPED(status) {
            let gone_on = tracer
                .at_stop(tid, status)
                .and_then(|signal| request(libc::PTRACE_CONT, tid, signal as usize));
            // One that was ended meanwhile is heard of next.
            if let Err(error) = gone_on
                && error.raw_os_error() != Some(libc::ESRCH)
            {
                return Err(error);
            }
        } else if tid == root {
            let code = if libc::WIFEXITED(status) {
                libc::WEXITSTATUS(status)
            } else {
                BY_SIGNAL + libc::WTERMSIG(status)
            };
            return Ok((tracer.plan, ExitCode::from(code as u8)));
        } else {
            tracer.threads.remove(&tid);
        }
    }
}
