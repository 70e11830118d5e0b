//! What is set up between fork and exec: tracing, the filter that stops every system call, and a
//! limit on address space. Sources: `seccomp(2)`, `ptrace(2)`.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Places of the number in what a filter is shown, `struct seccomp_data`.
const NUMBER: u32 = 0;

fn statement(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

fn check(result: i64) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Stops whatever is called but `execve`, which comes before anybody traces.
fn install() -> io::Result<()> {
    let is_exec = libc::sock_filter {
        jf: 1,
        ..statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::SYS_execve as u32)
    };
    let mut filter = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, NUMBER),
        is_exec,
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_TRACE),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the kernel reads the program and the filter, which live during the calls.
    unsafe {
        check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0).into())?;
        check(
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program).into(),
        )
    }
}

fn limit_address_space(bytes: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: the kernel reads the structure.
    check(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }.into())
}

/// Has the command traced by this thread, stopped at every call, and limited to so many bytes of
/// address space unless that is 0.
pub(crate) fn install_before(command: &mut Command, address_space: u64) {
    let prepare = move || {
        if address_space > 0 {
            limit_address_space(address_space)?;
        }
        // SAFETY: reads and writes nothing of this process.
        check(unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) })?;
        install()
    };
    // SAFETY: between fork and exec the closure makes system calls only, and allocates nothing.
    unsafe { command.pre_exec(prepare) };
}
