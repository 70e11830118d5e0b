//! From what a user calls an allocator to the allocator: by name, by alias, or by path.

use std::path::{Path, PathBuf};

use freehold_lab::{FREEHOLD, Finder, KNOWN, Known, SYSTEM};
use freehold_model::{Allocator, AllocatorList, Missing, Origin};

use crate::advice;
use crate::exit::{Exit, Failure};
use crate::suggest;

/// The allocators that can be chosen from.
pub(crate) struct Catalogue {
    finder: Finder,
}

impl Catalogue {
    /// Looks for libraries in the usual directories, and first in `extra`.
    pub(crate) fn new(extra: &[PathBuf]) -> Result<Self, Failure> {
        let finder = Finder::new(extra)
            .map_err(|error| Failure::error("cannot read this executable", &error))?;
        Ok(Self { finder })
    }

    /// The allocator that a user means.
    pub(crate) fn get(&self, wanted: &str) -> Result<Allocator, Failure> {
        if looks_like_a_path(wanted) {
            return self.given(wanted);
        }
        let Some(known) = Known::named(wanted) else {
            return Err(unknown(wanted));
        };
        match known.name {
            FREEHOLD => self.freehold(),
            SYSTEM => self.system(),
            name => self.finder.installed(known).ok_or_else(|| {
                let message = format!("{name} was not found on this machine");
                Failure::new(Exit::NotLive, message).hint(advice::install(name))
            }),
        }
    }

    /// The allocators that a user means, each under a name of its own.
    pub(crate) fn get_all(&self, wanted: &[String]) -> Result<Vec<Allocator>, Failure> {
        let all: Result<Vec<_>, _> = wanted.iter().map(|name| self.get(name)).collect();
        Ok(with_distinct_names(all?))
    }

    /// Freehold, the C library's, and every other allocator that is installed.
    pub(crate) fn all(&self) -> Result<Vec<Allocator>, Failure> {
        let mut all = vec![self.freehold()?, self.system()?];
        all.extend(self.finder.all_installed());
        Ok(all)
    }

    /// Everything that was found, and what was not.
    pub(crate) fn list(&self, given: &[String]) -> Result<AllocatorList, Failure> {
        let mut found = self.all()?;
        let is_missing = |known: &&Known| {
            !found.iter().any(|allocator| allocator.family.as_deref() == Some(known.name))
        };
        let missing = KNOWN.iter().filter(is_missing).map(|known| Missing {
            name: known.name.to_owned(),
            install: advice::install(known.name).to_owned(),
        });
        let missing = missing.collect();
        found.extend(self.get_all(given)?);
        Ok(AllocatorList { found: with_distinct_names(found), missing })
    }

    fn freehold(&self) -> Result<Allocator, Failure> {
        let path = lay_out()?;
        let found = self.finder.library(&path, Origin::Embedded);
        found.map_err(|unfit| Failure::error("the library within this program", &unfit))
    }

    fn system(&self) -> Result<Allocator, Failure> {
        let system = self.finder.system();
        system.map_err(|error| Failure::error("cannot find the C library", &error))
    }

    fn given(&self, path: &str) -> Result<Allocator, Failure> {
        self.finder
            .library(Path::new(path), Origin::Given)
            .map_err(|unfit| Failure::new(Exit::NotLive, format!("{path}: {unfit}")))
    }
}

/// Lays out the library that this program carries.
pub(crate) fn lay_out() -> Result<PathBuf, Failure> {
    freehold_embed::lay_out().map_err(|error| Failure::error("cannot lay out the library", &error))
}

/// The name of a known allocator that a user means, without looking for it.
pub(crate) fn known_name(wanted: &str) -> Result<&'static str, Failure> {
    Known::named(wanted).map(|known| known.name).ok_or_else(|| unknown(wanted))
}

/// Whether a user's word is the path of a library and not the name of an allocator.
pub(crate) fn looks_like_a_path(word: &str) -> bool {
    let extension = Path::new(word).extension();
    word.contains('/') || extension.is_some_and(|so| so == "so") || word.contains(".so.")
}

fn unknown(wanted: &str) -> Failure {
    let failure = Failure::new(Exit::Usage, format!("there is no allocator \"{wanted}\""));
    let names = KNOWN.iter().flat_map(Known::all_names);
    match suggest::closest(wanted, names) {
        Some(name) => failure.hint(format!("did you mean \"{name}\"?")),
        None => failure.hint(advice::name_or_path()),
    }
}

/// Numbers names that occur more than once, since a name heads a column.
fn with_distinct_names(mut allocators: Vec<Allocator>) -> Vec<Allocator> {
    for index in 1..allocators.len() {
        let (before, rest) = allocators.split_at_mut(index);
        let own = rest[0].name.clone();
        let is_taken = |name: &str| before.iter().any(|other| other.name == name);
        let numbered = (2..).map(|number| format!("{own}-{number}"));
        let mut names = [own.clone()].into_iter().chain(numbered);
        if let Some(free) = names.find(|name| !is_taken(name)) {
            rest[0].name = free;
        }
    }
    allocators
}

#[cfg(test)]
mod tests {
    use freehold_model::Library;

    use super::*;

    fn allocator(name: &str) -> Allocator {
        Allocator {
            name: name.to_owned(),
            family: None,
            version: None,
            origin: Origin::Given,
            library: Library { path: String::new(), bytes: 0, sha256: String::new() },
        }
    }

    #[test]
    fn equal_names_are_numbered() {
        let all = ["x", "y", "x", "x"].map(allocator).to_vec();
        let names: Vec<_> = with_distinct_names(all).into_iter().map(|own| own.name).collect();
        assert_eq!(names, ["x", "y", "x-2", "x-3"]);
    }

    #[test]
    fn paths_are_told_from_names() {
        assert!(looks_like_a_path("./x"));
        assert!(looks_like_a_path("libmine.so"));
        assert!(looks_like_a_path("libjemalloc.so.2"));
        assert!(!looks_like_a_path("jemalloc"));
    }

    #[test]
    fn a_mistyped_name_is_answered_by_a_suggestion() {
        let failure = unknown("mimaloc");
        assert_eq!(failure.exit, Exit::Usage);
        assert_eq!(failure.hint.as_deref(), Some("did you mean \"mimalloc\"?"));
        assert!(unknown("banana").hint.is_some_and(|hint| hint.contains("jemalloc")));
    }
}
