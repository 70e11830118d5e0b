//! Running a command whose allocators can be asked. It must not know what is asked.

use std::env;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

use freehold_lab::{answers, launch};
use tempfile::TempDir;

use crate::catalogue::lay_out;
use crate::exit::Failure;
use crate::recorder::scratch;
use crate::start;

/// An asker that is ready for a command.
pub(crate) struct Asker {
    library: PathBuf,
    answers: PathBuf,
    /// Where the file of answers is; it goes with the asker.
    _directory: TempDir,
}

impl Asker {
    /// For the command of this name; the reason, if nothing can be preloaded into it.
    pub(crate) fn new(name: &OsStr) -> Result<Result<Self, String>, Failure> {
        let library = lay_out(&freehold_embed::ASKER)?;
        let program = launch::resolve(name).ok_or_else(|| start::not_found(name))?;
        if let Some(reason) = launch::closed(&program, &library) {
            return Ok(Err(reason));
        }
        let (directory, _) = scratch()?;
        let path = directory.path().join("answers");
        let answers = answers::create(&path)
            .map_err(|error| Failure::error(format!("cannot write {}", path.display()), &error))?;
        Ok(Ok(Self { library, answers, _directory: directory }))
    }

    /// Makes the allocators of a command ready to be asked. Comes after whatever else is preloaded
    /// into it.
    pub(crate) fn apply(&self, command: &mut Command) {
        let given = command.get_envs().find(|(name, _)| *name == launch::PRELOAD);
        let list = match given {
            Some((_, value)) => value.map(OsStr::to_owned),
            None => env::var_os(launch::PRELOAD),
        };
        let library = self.library.to_string_lossy();
        let preload = launch::before(&library, &list.unwrap_or_default());
        command.env(launch::PRELOAD, preload).env(answers::VARIABLE, &self.answers);
    }
}
