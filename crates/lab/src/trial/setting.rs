//! What makes an allocator live in a program, decided before the first run: asking the loader and
//! reading files takes processor time that must not fall into a measurement, least of all into
//! those of one allocator only.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use freehold_model::Allocator;

use crate::launch::{self, Suspect};

/// A program that an allocator can be live in, with what makes it so.
#[derive(Debug, Clone)]
pub struct Setting {
    pub(super) allocator: Allocator,
    preload: Option<OsString>,
    program: PathBuf,
    is_foreseen: bool,
}

impl Setting {
    /// Looks at the program and the allocator; the error is the reason for which this allocator
    /// cannot be live in this program.
    pub fn new(program: &Path, allocator: &Allocator) -> Result<Self, String> {
        if let Some(reason) = launch::obstacle(program, allocator) {
            return Err(reason);
        }
        let library = Path::new(&allocator.library.path);
        let is_foreseen = |preload: &Option<OsString>| {
            let preload = preload.clone().unwrap_or_default();
            launch::foreseen(program, &preload).is_some_and(|own| own == library)
        };
        let setting = |preload, is_foreseen| {
            let (program, allocator) = (program.to_owned(), allocator.clone());
            Self { allocator, preload, program, is_foreseen }
        };
        let plain = launch::preload_value(allocator).map_err(|error| error.to_string())?;
        if allocator.needs_preload() || is_foreseen(&plain) {
            return Ok(setting(plain, true));
        }
        // Something else serves it, or the loader cannot tell.
        let forced = launch::forced_preload(allocator).map_err(|error| error.to_string())?;
        let forced = Some(forced);
        let is_foreseen = is_foreseen(&forced);
        Ok(setting(if is_foreseen { forced } else { plain }, is_foreseen))
    }

    /// Makes the allocator live in a program that is about to be started.
    pub(super) fn apply(&self, command: &mut Command) {
        match &self.preload {
            Some(preload) => command.env(launch::PRELOAD, preload),
            None => command.env_remove(launch::PRELOAD),
        };
    }

    /// The process `pid`, which was started in this setting.
    pub(super) fn suspect(&self, pid: u32) -> Suspect {
        if self.is_foreseen {
            Suspect::foreseen(pid, &self.program, &self.allocator)
        } else {
            Suspect::new(pid, &self.program, &self.allocator)
        }
    }
}
