//! An allocator as found on a machine, and the list of those found and not found.

use serde::{Deserialize, Serialize};

use crate::schema::Document;

/// Where the library of an allocator came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Carried within the command and laid out by it.
    Embedded,
    /// The C library's own allocator: nothing is preloaded.
    CLibrary,
    /// Found in one of the directories that the dynamic loader or a compiler uses.
    Found,
    /// A path that the user gave.
    Given,
}

/// One file, named so that another machine could check that it has the same one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Library {
    /// The path, without symbolic links.
    pub path: String,
    /// The size of the file.
    pub bytes: u64,
    /// SHA-256 of the file, in lower-case hexadecimal.
    pub sha256: String,
}

/// An allocator that can be run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocator {
    /// The name that selects it and heads its column, unique within a document.
    pub name: String,
    /// Which known allocator it is; `None` for a library that exports `malloc` but is not known.
    pub family: Option<String>,
    /// The version, where the library says one.
    pub version: Option<String>,
    /// Where the library came from.
    pub origin: Origin,
    /// The library itself; for the system allocator, the C library.
    pub library: Library,
}

impl Allocator {
    /// Whether running under this allocator takes a preload.
    pub fn needs_preload(&self) -> bool {
        self.origin != Origin::CLibrary
    }
}

/// A known allocator that was not found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Its name.
    pub name: String,
    /// How to get it, in a sentence.
    pub install: String,
}

/// What `freehold allocators --json` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocatorList {
    /// Allocators that can be run here.
    pub found: Vec<Allocator>,
    /// Known allocators that are not here.
    pub missing: Vec<Missing>,
}

impl Document for AllocatorList {
    const KIND: &'static str = "allocators";
}
