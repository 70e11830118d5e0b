//! `/proc/PID/task/TID/schedstat`: exact times on a processor and waiting for one.

/// What the scheduler has counted for a thread since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SchedStat {
    /// Time on a processor, in nanoseconds.
    pub(crate) run_ns: u64,
    /// Time runnable without a processor, in nanoseconds.
    pub(crate) wait_ns: u64,
    /// How often it was given a processor. While this stays, a thread that waited waits on.
    pub(crate) turns: u64,
}

/// Reads the text of the file.
pub(crate) fn parse(text: &str) -> Option<SchedStat> {
    let mut fields = text.split_ascii_whitespace().map(str::parse);
    let mut next = || fields.next()?.ok();
    Some(SchedStat { run_ns: next()?, wait_ns: next()?, turns: next()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_first_and_turns_last() {
        let expected = SchedStat { run_ns: 72048, wait_ns: 40410, turns: 1 };
        assert_eq!(parse("72048 40410 1\n"), Some(expected));
    }

    #[test]
    fn a_kernel_that_counts_nothing_is_not_taken_for_zero() {
        assert_eq!(parse(""), None);
        assert_eq!(parse("12 13"), None);
        assert_eq!(parse("a b c"), None);
    }
}
