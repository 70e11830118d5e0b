//! `/proc/PID/task/TID/status`: how often a thread left its processor.

/// What is used of the file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Switches {
    /// Because it had to wait.
    pub(crate) voluntary: u64,
    /// Because somebody else was to run.
    pub(crate) involuntary: u64,
}

impl Switches {
    /// For whatever reason.
    pub(crate) fn sum(self) -> u64 {
        self.voluntary + self.involuntary
    }
}

/// Reads the text of the file.
pub(crate) fn parse(text: &str) -> Option<Switches> {
    let value = |name: &str| {
        let line = text.lines().rev().find_map(|line| line.strip_prefix(name));
        line?.trim().parse().ok()
    };
    Some(Switches {
        voluntary: value("voluntary_ctxt_switches:")?,
        involuntary: value("nonvoluntary_ctxt_switches:")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_switches_are_read() {
        let text = "Name:\tprogram\nState:\tS (sleeping)\nvoluntary_ctxt_switches:\t150\n\
                    nonvoluntary_ctxt_switches:\t545\n";
        assert_eq!(parse(text), Some(Switches { voluntary: 150, involuntary: 545 }));
        assert_eq!(parse("Name:\tprogram\n"), None);
    }
}
