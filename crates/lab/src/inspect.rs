//! Recognising the allocator in a file. It must not know how the file was found or loaded.

use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use crate::elf::{Header, Image, Machine, NotElf};
use crate::known::{FREEHOLD, KNOWN, Known, SYSTEM};
use crate::version;

/// Owner and type of the note that every file with Freehold in it carries; its contents are the
/// version.
const NOTE_OWNER: &str = "Freehold";
const NOTE_VERSION: u32 = 1;

/// Why a file could not be inspected.
#[derive(Debug)]
pub enum InspectError {
    /// It could not be read.
    Read(io::Error),
    /// It is not an ELF file, or a damaged one.
    NotElf(String),
}

impl fmt::Display for InspectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => error.fmt(f),
            Self::NotElf(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for InspectError {}

impl From<NotElf> for InspectError {
    fn from(NotElf(reason): NotElf) -> Self {
        Self::NotElf(reason)
    }
}

/// What a file says about itself.
#[derive(Debug, Clone)]
pub(crate) struct Inspection {
    pub(crate) path: PathBuf,
    pub(crate) header: Header,
    pub(crate) machine: Machine,
    /// Whether other files can bind their `malloc` to it.
    pub(crate) exports_malloc: bool,
    /// The allocator in it.
    pub(crate) family: Option<&'static Known>,
    /// The version of that allocator.
    pub(crate) version: Option<String>,
}

impl Inspection {
    /// Inspects the file at `path`.
    pub(crate) fn of(path: &Path) -> Result<Self, InspectError> {
        // Others may have no end, or wait for somebody who writes.
        if !fs::metadata(path).map_err(InspectError::Read)?.is_file() {
            return Err(InspectError::NotElf("not a regular file".to_owned()));
        }
        let bytes = fs::read(path).map_err(InspectError::Read)?;
        let image = Image::parse(&bytes)?;
        let file_name = path.file_name().unwrap_or_default().to_string_lossy();
        let (family, version) = match image.note(NOTE_OWNER, NOTE_VERSION) {
            Some(text) => (Known::named(FREEHOLD), note_text(text)),
            None => recognise(&image, path, &file_name),
        };
        let forwards_to = |known| from_needed(known, path, &image.header.needed);
        let version = version
            .or_else(|| family.and_then(forwards_to))
            .or_else(|| version::in_file_name(&file_name));
        let exports_malloc = image.exports().any(|symbol| symbol == "malloc");
        Ok(Self {
            path: path.to_owned(),
            exports_malloc,
            machine: image.machine(),
            header: image.header,
            family,
            version,
        })
    }

    /// Whether it holds an allocator other than the C library's.
    pub(crate) fn holds_an_allocator(&self) -> bool {
        self.family.is_some_and(|known| known.name != SYSTEM)
    }

    /// Whether it is the C library.
    pub(crate) fn is_c_library(&self) -> bool {
        self.family.is_some_and(|known| known.name == SYSTEM)
    }
}

fn note_text(contents: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(contents);
    let text = text.trim_end_matches('\0').trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn recognise(
    image: &Image<'_>,
    path: &Path,
    file_name: &str,
) -> (Option<&'static Known>, Option<String>) {
    let exports: Vec<_> = image.exports().collect();
    let family = family(&exports, image.internals(), file_name);
    let version = family.and_then(|known| version::stated(known.version, image, path));
    (family, version)
}

/// The allocator of a file with these symbols and that name.
fn family<'a>(
    exports: &[&'a str],
    internals: impl Iterator<Item = &'a str>,
    file_name: &str,
) -> Option<&'static Known> {
    let exported = by_symbols(exports.iter().copied());
    let named = || KNOWN.iter().find(|known| known.owns_file(file_name));
    let mut found = [exported, by_symbols(internals), named()].into_iter().flatten();
    // Some replace the C library's allocator under its own names as well.
    let is_of = |symbol| exports.contains(&symbol);
    let replaces_it = is_of("__libc_malloc") && !is_of("gnu_get_libc_version");
    let other = found.clone().find(|known| known.name != SYSTEM);
    other.or_else(|| found.next().filter(|_| !replaces_it))
}

/// The allocator whose symbols these are. A statically linked program holds the C library's
/// symbols beside those of the allocator it really uses, so the C library comes last.
fn by_symbols<'a>(symbols: impl Iterator<Item = &'a str>) -> Option<&'static Known> {
    let mut c_library = None;
    for symbol in symbols {
        match KNOWN.iter().find(|known| known.owns_symbol(symbol)) {
            Some(known) if known.name == SYSTEM => c_library = Some(known),
            Some(known) => return Some(known),
            None => {}
        }
    }
    c_library
}

/// The version of a library that forwards to another one beside it, as oneTBB's proxy does.
fn from_needed(known: &Known, path: &Path, needed: &[String]) -> Option<String> {
    needed.iter().find_map(|name| {
        let sibling = path.with_file_name(name);
        let bytes = fs::read(&sibling).ok()?;
        let image = Image::parse(&bytes).ok()?;
        by_symbols(image.exports()).filter(|other| *other == known)?;
        version::stated(known.version, &image, &sibling)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allocator_beside_the_c_library_in_one_file_is_the_one_recognised() {
        let symbols = ["main", "gnu_get_libc_version", "mallctl", "malloc"];
        let family = by_symbols(symbols.into_iter()).map(|known| known.name);
        assert_eq!(family, Some("jemalloc"));
        let plain = by_symbols(["gnu_get_libc_version", "malloc"].into_iter());
        assert_eq!(plain.map(|known| known.name), Some(SYSTEM));
        assert_eq!(by_symbols(["main", "malloc"].into_iter()), None);
    }

    #[test]
    fn an_allocator_that_has_the_c_librarys_names_too_is_the_one_recognised() {
        let name = |exports: &[&'static str], internals: &[&'static str], file_name| {
            family(exports, internals.iter().copied(), file_name).map(|known| known.name)
        };
        let exports = ["malloc", "__libc_malloc"];
        assert_eq!(name(&exports, &["_ZN5Hoard9SmallHeapE"], "libmine.so"), Some("hoard"));
        assert_eq!(name(&exports, &[], "libhoard.so"), Some("hoard"));
        assert_eq!(name(&exports, &["rpmalloc_config"], "librpmalloc.so"), Some("rpmalloc"));
        assert_eq!(name(&exports, &["__libc_malloc"], "libmine.so"), None);
        let all = ["malloc", "__libc_malloc", "gnu_get_libc_version"];
        assert_eq!(name(&all, &["_int_malloc"], "libc.so.6"), Some(SYSTEM));
        assert_eq!(name(&[], &["main", "__libc_malloc"], "statically_linked"), Some(SYSTEM));
    }

    #[test]
    fn a_note_may_end_with_a_zero_byte_and_an_empty_one_says_nothing() {
        assert_eq!(note_text(b"0.1.0\0\0\0").as_deref(), Some("0.1.0"));
        assert_eq!(note_text(b"\0"), None);
    }

    #[test]
    fn a_text_file_is_not_an_elf_file_and_a_missing_one_cannot_be_read() {
        let text = Inspection::of(Path::new("/etc/passwd")).expect_err("not ELF");
        assert_eq!(text.to_string(), "not an ELF file");
        let missing = Inspection::of(Path::new("/nowhere/at/all")).expect_err("missing");
        assert!(matches!(missing, InspectError::Read(_)));
    }

    #[test]
    fn what_is_no_file_is_not_read() {
        for path in ["/dev/zero", "/"] {
            let refused = Inspection::of(Path::new(path)).expect_err("no file");
            assert_eq!(refused.to_string(), "not a regular file");
        }
    }

    #[test]
    fn this_test_program_is_an_executable_that_needs_the_c_library() {
        let own = Inspection::of(Path::new("/proc/self/exe")).expect("readable");
        assert!(!own.holds_an_allocator());
        assert!(!own.exports_malloc);
    }
}
