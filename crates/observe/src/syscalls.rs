//! System calls by number: their names, and which of them wait for a futex.

use syscalls::Sysno;

use crate::proc::syscall::Call;

/// What is asked of a futex, without the flags.
const COMMAND: u64 = 127;

/// The commands that wait.
const WAIT: u64 = 0;
const LOCK_PI: u64 = 6;
const WAIT_BITSET: u64 = 9;
const WAIT_REQUEUE_PI: u64 = 11;
const LOCK_PI2: u64 = 13;

/// The name of a system call.
pub(crate) fn name(number: u64) -> String {
    let known = usize::try_from(number).ok().and_then(Sysno::new);
    known.map_or_else(|| format!("call {number}"), |call| call.name().to_owned())
}

/// Whether this call may give the thread that makes it another name.
pub(crate) fn may_rename(number: u64) -> bool {
    let known = usize::try_from(number).ok().and_then(Sysno::new);
    matches!(known, Some(Sysno::prctl | Sysno::execve | Sysno::execveat))
}

/// Whether this call waits for a futex.
pub(crate) fn is_futex_wait(call: &Call) -> bool {
    match usize::try_from(call.number).ok().and_then(Sysno::new) {
        Some(Sysno::futex) => {
            let command = call.arguments[1] & COMMAND;
            [WAIT, LOCK_PI, WAIT_BITSET, WAIT_REQUEUE_PI, LOCK_PI2].contains(&command)
        }
        Some(Sysno::futex_waitv | Sysno::futex_wait) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn futex(command: u64) -> Call {
        let number = Sysno::futex.id().unsigned_abs().into();
        Call { number, arguments: [0x10, command, 0, 0, 0, 0], sp: 0, pc: 0 }
    }

    #[test]
    fn waits_are_told_from_wakes_whatever_their_flags() {
        assert!(is_futex_wait(&futex(0)));
        assert!(is_futex_wait(&futex(0x80)));
        assert!(is_futex_wait(&futex(0x189)));
        assert!(!is_futex_wait(&futex(0x81)));
        let read = Call { number: Sysno::read.id().unsigned_abs().into(), ..futex(0) };
        assert!(!is_futex_wait(&read));
    }

    #[test]
    fn a_number_without_a_name_stays_a_number() {
        assert_eq!(name(u64::from(Sysno::madvise.id().unsigned_abs())), "madvise");
        assert_eq!(name(99_999), "call 99999");
    }
}
