//! How the command ends: its exit statuses, and failures with the status they end it with.

use std::fmt;
use std::io;

/// How the command ends. `--help` lists these; scripts rely on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Everything went well.
    Success,
    /// The tool, or a part of what it was to do, failed.
    Error,
    /// The command line cannot be understood.
    Usage,
    /// A rule about measurements is broken.
    RuleBroken,
    /// The measurements are not enough to tell.
    NotEnoughEvidence,
    /// The allocator was not live, is not installed, or is not one.
    NotLive,
    /// The command to run could not be started or watched.
    NotStarted,
    /// The command to run was found, but cannot be executed.
    NotExecutable,
    /// The command to run was not found.
    NotFound,
    /// Ended by an interrupt, with what was done until then.
    Interrupted,
    /// The status of the command that was run.
    Status(u8),
    /// The signal that ended the command that was run.
    Signal(i32),
}

impl Exit {
    /// The exit status. A command that ended by a signal counts from 128, as in a shell.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Error => 1,
            Self::Usage => 2,
            Self::RuleBroken => 3,
            Self::NotEnoughEvidence => 4,
            Self::NotLive => 5,
            Self::NotStarted => 125,
            Self::NotExecutable => 126,
            Self::NotFound => 127,
            Self::Interrupted => 130,
            Self::Status(code) => code,
            Self::Signal(signal) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
        }
    }
}

/// Why the command could not do what it was asked to.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The status to end with.
    pub(crate) exit: Exit,
    /// What went wrong, as a fragment that follows "error:".
    pub(crate) message: String,
    /// What to do about it.
    pub(crate) hint: Option<String>,
    /// Whether there is nobody left to tell: the reader of our output has gone.
    pub(crate) is_silent: bool,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), hint: None, is_silent: false }
    }

    /// A failure of the tool itself while it did `what`.
    pub(crate) fn error(what: impl fmt::Display, error: &dyn fmt::Display) -> Self {
        Self::new(Exit::Error, format!("{what}: {error}"))
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// A failure to write our own output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let is_silent = error.kind() == io::ErrorKind::BrokenPipe;
        let exit = if is_silent { Exit::Success } else { Exit::Error };
        Self { is_silent, ..Self::new(exit, format!("cannot write the output: {error}")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_counts_from_128() {
        assert_eq!(Exit::Signal(15).code(), 143);
        assert_eq!(Exit::Status(7).code(), 7);
    }

    #[test]
    fn a_reader_that_went_away_is_no_error() {
        let failure = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!((failure.exit, failure.is_silent), (Exit::Success, true));
    }
}
