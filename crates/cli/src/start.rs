//! Starting a command, and what becomes of it: how failures to start it and its end are told. It
//! must not know what the command is started for.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};

use clap::Args;

use crate::exit::{Exit, Failure};

/// A command that is run in our place.
#[derive(Debug, Args)]
pub(crate) struct CommandArgs {
    /// The command and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    pub(crate) command: Vec<OsString>,
}

/// A failure of ours where the status of a plain one belongs to the command: it gets another.
pub(crate) fn set_apart(failure: Failure) -> Failure {
    match failure.exit {
        Exit::Error => Failure { exit: Exit::NotStarted, ..failure },
        _ => failure,
    }
}

/// There is no such command.
pub(crate) fn not_found(command: &OsStr) -> Failure {
    let command = command.to_string_lossy();
    Failure::new(Exit::NotFound, format!("{command}: command not found"))
}

/// The command could not be started.
pub(crate) fn not_started(command: &OsStr, error: &io::Error) -> Failure {
    let exit = match error.kind() {
        io::ErrorKind::NotFound => return not_found(command),
        io::ErrorKind::PermissionDenied => Exit::NotExecutable,
        _ if error.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error()) => {
            Exit::NotExecutable
        }
        _ => Exit::NotStarted,
    };
    Failure::new(exit, format!("{}: {error}", command.to_string_lossy()))
}

/// Where the standard output of a command goes: `null`, `inherit`, or a file.
pub(crate) fn standard_output(wanted: &str) -> Result<Stdio, Failure> {
    match wanted {
        "null" => Ok(Stdio::null()),
        "inherit" => Ok(Stdio::inherit()),
        path => File::create(path)
            .map(Stdio::from)
            .map_err(|error| Failure::error(format!("cannot write {path}"), &error)),
    }
}

/// How a command's end is ours.
pub(crate) fn ended_as(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Status(code as u8),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_command_is_ours() {
        assert_eq!(ended_as(ExitStatus::from_raw(7 << 8)), Exit::Status(7));
        assert_eq!(ended_as(ExitStatus::from_raw(15)), Exit::Signal(15));
    }
}
