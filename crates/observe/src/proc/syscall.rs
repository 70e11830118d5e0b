//! `/proc/PID/task/TID/syscall`: what a thread that does not run is waiting in.

/// What a thread was doing when the file was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doing {
    /// On a processor, or waiting for one.
    Running,
    /// Stopped or waiting outside of a system call: serving a page fault, as a rule.
    Fault {
        /// The stack pointer.
        sp: u64,
        /// The program counter.
        pc: u64,
    },
    /// Waiting in a system call.
    Call(Call),
}

/// A system call that a thread waits in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Call {
    /// Its number.
    pub(crate) number: u64,
    /// Its arguments.
    pub(crate) arguments: [u64; 6],
    /// The stack pointer.
    pub(crate) sp: u64,
    /// The program counter.
    pub(crate) pc: u64,
}

/// Reads the text of the file: `running`; `-1 SP PC`; or a number, six arguments, SP and PC.
pub(crate) fn parse(text: &str) -> Option<Doing> {
    let text = text.trim_end();
    if text == "running" {
        return Some(Doing::Running);
    }
    let mut fields = text.split_ascii_whitespace();
    let number = fields.next()?;
    let mut hexadecimal = || u64::from_str_radix(fields.next()?.strip_prefix("0x")?, 16).ok();
    if number == "-1" {
        return Some(Doing::Fault { sp: hexadecimal()?, pc: hexadecimal()? });
    }
    let number = number.parse().ok()?;
    let mut arguments = [0; 6];
    for argument in &mut arguments {
        *argument = hexadecimal()?;
    }
    Some(Doing::Call(Call { number, arguments, sp: hexadecimal()?, pc: hexadecimal()? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_has_its_call_and_where_the_thread_stands() {
        let text = "202 0x7f01aa 0x80 0x2 0x0 0x0 0x0 0x7ffe0010 0x7f02bb\n";
        let call = Call {
            number: 202,
            arguments: [0x7f_01aa, 0x80, 2, 0, 0, 0],
            sp: 0x7ffe_0010,
            pc: 0x7f_02bb,
        };
        assert_eq!(parse(text), Some(Doing::Call(call)));
    }

    #[test]
    fn running_and_faulting_threads_are_in_no_call() {
        assert_eq!(parse("running\n"), Some(Doing::Running));
        assert_eq!(parse("-1 0x10 0x20\n"), Some(Doing::Fault { sp: 0x10, pc: 0x20 }));
    }

    #[test]
    fn a_text_that_was_cut_off_is_refused() {
        assert_eq!(parse(""), None);
        assert_eq!(parse("202 0x1 0x2"), None);
        assert_eq!(parse("-1 0x1"), None);
    }
}
