//! From what a user calls an allocator to the allocator: by name, by alias, or by path.

use std::fs;
use std::path::{Path, PathBuf};

use freehold_lab::{FREEHOLD, Finder, KNOWN, Known, SYSTEM, distinct_name, is_asked_for, launch};
use freehold_model::{Allocator, AllocatorList, Missing, Origin};

use crate::advice;
use crate::exit::{Exit, Failure};
use crate::suggest;

/// A known allocator as users ask for it: by its name, or by name and version as `mimalloc@2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Choice<'a> {
    pub(crate) known: &'static Known,
    version: Option<&'a str>,
}

impl<'a> Choice<'a> {
    /// Reads what a user wrote.
    pub(crate) fn parse(wanted: &'a str) -> Result<Self, Failure> {
        let (name, version) = match wanted.split_once('@') {
            Some((name, version)) => (name, Some(version)),
            None => (wanted, None),
        };
        let known = Known::named(name).ok_or_else(|| unknown(name))?;
        Ok(Self { known, version })
    }

    /// Whether an allocator of the right name has a version that was asked for.
    pub(crate) fn accepts(&self, version: Option<&str>) -> bool {
        self.version.is_none_or(|asked| version.is_some_and(|own| is_asked_for(own, asked)))
    }

    /// The first of these that was asked for.
    fn among(&self, candidates: Vec<Allocator>) -> Result<Allocator, Failure> {
        let name = self.known.name;
        let versions: Vec<_> = candidates.iter().filter_map(|own| own.version.clone()).collect();
        let found = candidates.into_iter().find(|own| self.accepts(own.version.as_deref()));
        found.ok_or_else(|| match self.version {
            Some(asked) if !versions.is_empty() => {
                let message = format!("{name} {asked} was not found on this machine");
                let there = format!("there is {name} {}", versions.join(", "));
                Failure::new(Exit::NotLive, message).hint(there)
            }
            _ => {
                let message = format!("{name} was not found on this machine");
                Failure::new(Exit::NotLive, message).hint(advice::install(name))
            }
        })
    }
}

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
        let choice = match Choice::parse(wanted) {
            Ok(choice) => choice,
            Err(failure) => return self.listed(wanted)?.ok_or(failure),
        };
        choice.among(match (choice.known.name, choice.known.modelled()) {
            (FREEHOLD, _) => vec![self.freehold()?],
            (SYSTEM, _) => vec![self.system()?],
            (_, None) => self.finder.installed(choice.known),
            (_, Some(model)) => self.model(model)?,
        })
    }

    /// The allocator that is listed under a name which is not that of its family: one of several
    /// whose versions do not tell them apart.
    fn listed(&self, name: &str) -> Result<Option<Allocator>, Failure> {
        let found = self.list(&[])?.found.into_iter().find(|own| own.name == name);
        Ok(found.map(|own| Allocator { name: own.family.clone().unwrap_or(own.name), ..own }))
    }

    /// The allocators that a user means, each under a name of its own.
    pub(crate) fn get_all(&self, wanted: &[String]) -> Result<Vec<Allocator>, Failure> {
        let all: Result<Vec<_>, _> = wanted.iter().map(|name| self.get(name)).collect();
        Ok(with_distinct_names(all?))
    }

    /// The allocators that a user means, or without any the representative ones: each can be
    /// preloaded.
    pub(crate) fn to_preload(&self, wanted: &[String]) -> Result<Vec<Allocator>, Failure> {
        let all = if wanted.is_empty() { self.representative() } else { self.get_all(wanted) }?;
        // The loader takes a preload path apart at certain characters: say so before the start.
        for allocator in &all {
            launch::preload_value(allocator)
                .map_err(|error| Failure::new(Exit::NotLive, error.to_string()))?;
        }
        Ok(all)
    }

    /// Freehold, the C library's, and of every other allocator that is installed the newest of
    /// each major version.
    pub(crate) fn representative(&self) -> Result<Vec<Allocator>, Failure> {
        let mut all = vec![self.freehold()?, self.system()?];
        all.extend(self.finder.representative());
        Ok(with_distinct_names(all))
    }

    /// Everything that was found, and what was not.
    pub(crate) fn list(&self, given: &[String]) -> Result<AllocatorList, Failure> {
        let mut found = vec![self.freehold()?, self.system()?];
        found.extend(self.finder.all_installed());
        for known in KNOWN.iter().filter_map(Known::modelled) {
            found.extend(self.model(known)?);
        }
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
        self.carried(&freehold_embed::FREEHOLD)
    }

    /// The model of this name: there is one.
    fn model(&self, name: &str) -> Result<Vec<Allocator>, Failure> {
        let models = freehold_embed::MODELS.iter().filter(|(own, _)| *own == name);
        models.map(|(_, library)| self.carried(library)).collect()
    }

    /// The allocator in the file that served a process.
    pub(crate) fn serving(&self, file: &str) -> Result<Allocator, Failure> {
        let system = self.system()?;
        let real = fs::canonicalize(file).unwrap_or_else(|_| PathBuf::from(file));
        if real == Path::new(&system.library.path) { Ok(system) } else { self.given(file) }
    }

    /// What records the calls to the allocator behind it.
    pub(crate) fn recorder(&self) -> Result<Allocator, Failure> {
        self.carried(&freehold_embed::RECORDER)
    }

    /// A library that this program carries.
    fn carried(&self, library: &freehold_embed::Library) -> Result<Allocator, Failure> {
        let found = self.finder.library(&lay_out(library)?, Origin::Embedded);
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

/// Lays out a library that this program carries.
pub(crate) fn lay_out(library: &freehold_embed::Library) -> Result<PathBuf, Failure> {
    library.lay_out().map_err(|error| Failure::error("cannot lay out the library", &error))
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

/// Gives every allocator a name of its own.
fn with_distinct_names(mut allocators: Vec<Allocator>) -> Vec<Allocator> {
    for index in 1..allocators.len() {
        let (before, rest) = allocators.split_at_mut(index);
        rest[0].name = distinct_name(&rest[0], before);
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
    fn equal_names_of_different_versions_tell_the_version() {
        let all = ["3.6.0", "2.5.2"]
            .map(|version| Allocator { version: Some(version.to_owned()), ..allocator("x") });
        let names = with_distinct_names(all.to_vec()).into_iter().map(|own| own.name);
        assert_eq!(names.collect::<Vec<_>>(), ["x", "x@2.5.2"]);
    }

    #[test]
    fn a_version_may_be_asked_for_behind_the_name() {
        let choice = Choice::parse("mi@2").expect("known");
        assert_eq!(choice.known.name, "mimalloc");
        assert!(choice.accepts(Some("2.5.2")) && !choice.accepts(Some("3.6.0")));
        assert!(!choice.accepts(None));
        assert!(Choice::parse("mimalloc").expect("known").accepts(None));
        let failure = choice
            .among(vec![Allocator { version: Some("3.6.0".to_owned()), ..allocator("mimalloc") }]);
        let hint = failure.expect_err("only another version is there").hint;
        assert_eq!(hint.as_deref(), Some("there is mimalloc 3.6.0"));
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
