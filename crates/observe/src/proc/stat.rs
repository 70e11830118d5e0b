//! `/proc/PID/task/TID/stat`: name, state, faults, and times counted in ticks.

/// What is used of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Stat {
    /// The name of the thread.
    pub(crate) name: String,
    /// The state, as one letter: `R`, `S`, `D`, `T`, …
    pub(crate) state: char,
    /// Faults served without reading a disk.
    pub(crate) minor_faults: u64,
    /// Faults that had to wait for one.
    pub(crate) major_faults: u64,
    /// Ticks in user mode.
    pub(crate) user_ticks: u64,
    /// Ticks in the kernel.
    pub(crate) system_ticks: u64,
    /// When it began, in ticks since the machine was started.
    pub(crate) began_ticks: u64,
}

/// Reads the text of the file. The name stands in parentheses and may hold any character, these
/// included.
pub(crate) fn parse(text: &str) -> Option<Stat> {
    let (_, rest) = text.split_once('(')?;
    let (name, rest) = rest.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let mut number = |skipped: usize| fields.nth(skipped)?.parse().ok();
    // After the state: ppid pgrp session tty tpgid flags minflt cminflt majflt cmajflt utime stime
    // cutime cstime priority nice threads itrealvalue starttime
    Some(Stat {
        name: name.to_owned(),
        state,
        minor_faults: number(6)?,
        major_faults: number(1)?,
        user_ticks: number(1)?,
        system_ticks: number(0)?,
        began_ticks: number(6)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "4242 (a) b (c) S 1 4242 4242 0 -1 4194304 1200 5 3 0 77 11 0 0 20 0 9 0 \
                        1116 5791744 435 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0\n";

    #[test]
    fn fields_are_found_whatever_the_name_holds() {
        let expected = Stat {
            name: "a) b (c".to_owned(),
            state: 'S',
            minor_faults: 1200,
            major_faults: 3,
            user_ticks: 77,
            system_ticks: 11,
            began_ticks: 1116,
        };
        assert_eq!(parse(TEXT), Some(expected));
    }

    #[test]
    fn a_text_that_was_cut_off_is_refused() {
        assert_eq!(parse(""), None);
        assert_eq!(parse("4242 (name) S 1 2"), None);
    }
}
