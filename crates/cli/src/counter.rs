//! Running a command with its allocation calls counted. It must not know what is made of that.

use std::ffi::{OsStr, OsString};
use std::process::Command;

use freehold_lab::counts::{CountsFile, VARIABLE};
use freehold_lab::launch;
use freehold_model::AllocationCalls;
use tempfile::TempDir;

use crate::exit::Failure;
use crate::recorder::{preloaded, scratch};

/// A counter that is ready for a command.
pub(crate) struct Counter {
    file: CountsFile,
    preload: OsString,
    /// Where the file is; it goes with the counter.
    _directory: TempDir,
}

impl Counter {
    /// For the command of this name, and the allocator that is to serve it, if that is another than
    /// it has anyway.
    pub(crate) fn new(name: &OsStr, allocator: Option<&str>) -> Result<Self, Failure> {
        let preload = preloaded(name, allocator)?;
        let (directory, path) = scratch()?;
        let file = CountsFile::create(&path)
            .map_err(|error| Failure::error(format!("cannot write {}", path.display()), &error))?;
        Ok(Self { file, preload, _directory: directory })
    }

    /// Where they are counted.
    pub(crate) fn file(&self) -> &CountsFile {
        &self.file
    }

    /// Makes a command count its calls.
    pub(crate) fn apply(&self, command: &mut Command) {
        command.env(launch::PRELOAD, &self.preload).env(VARIABLE, &self.file.path);
    }

    /// What the calls of all processes came to so far; `None` if nothing could be counted.
    pub(crate) fn counted(&self) -> Option<AllocationCalls> {
        let counted = self.file.read().unwrap_or_default().into_iter().map(|own| AllocationCalls {
            allocations: own.allocations,
            frees: own.frees,
            followed: own.followed,
            elsewhere: own.elsewhere,
            requested_bytes: own.requested,
            allocated_bytes: own.allocated,
            live_bytes: own.live(),
        });
        counted.max_by_key(|own| own.allocations)
    }

    /// Bytes that these processes have in use; `None` where that is not known.
    pub(crate) fn live_bytes(&self, processes: &[u32]) -> Option<u64> {
        self.file.live_bytes(processes)
    }
}
