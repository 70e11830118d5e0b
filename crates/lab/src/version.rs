//! Reading the version of an allocator out of its file, without running any of it. It must not
//! know where the file is or whether anybody uses it.

use std::path::Path;

use crate::elf::Image;
use crate::known::VersionSource;

/// The version that a file, or the place where it is installed, says it is.
pub(crate) fn stated(source: VersionSource, image: &Image<'_>, path: &Path) -> Option<String> {
    match source {
        VersionSource::ConstantFunction(name) => {
            image.code(name).and_then(returned_constant).map(spelled_out)
        }
        VersionSource::TextAfter(prefix) => {
            image.texts().find_map(|text| version_at(text.split_once(prefix)?.1))
        }
        VersionSource::Described => image.texts().find_map(described),
        VersionSource::Directory => in_directory(path),
        VersionSource::FileName => None,
    }
}

/// A key by which versions are sorted: its numbers. No version comes before all others.
pub(crate) fn key(version: Option<&str>) -> Vec<u64> {
    let parts = version.unwrap_or_default().split(|c: char| !c.is_ascii_digit());
    parts.filter_map(|part| part.parse().ok()).collect()
}

/// Whether a version is the one asked for: all of its parts, or the first of them.
pub fn is_asked_for(version: &str, asked: &str) -> bool {
    let rest = version.strip_prefix(asked);
    !asked.is_empty() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The number that a function returns when it does nothing else: on x86-64 a move of a constant
/// and a return, on aarch64 the same, either behind a landing pad for checked branches.
fn returned_constant(code: &[u8]) -> Option<u32> {
    const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
    const BTI_C: [u8; 4] = 0xd503_245f_u32.to_le_bytes();
    const RET_AARCH64: [u8; 4] = 0xd65f_03c0_u32.to_le_bytes();
    const MOVZ_W0: u32 = 0x5280_0000;
    const MOVZ_W0_MASK: u32 = 0xffe0_001f;

    let code = code.strip_prefix(&ENDBR64).or(code.strip_prefix(&BTI_C)).unwrap_or(code);
    if let [0xb8, a, b, c, d, 0xc3, ..] = *code {
        return Some(u32::from_le_bytes([a, b, c, d]));
    }
    let (first, rest) = code.split_first_chunk::<4>()?;
    let instruction = u32::from_le_bytes(*first);
    let is_move = instruction & MOVZ_W0_MASK == MOVZ_W0;
    (is_move && rest.starts_with(&RET_AARCH64)).then_some((instruction >> 5) & 0xffff)
}

/// A version number such as 209 or 30403 in dotted form: 2.0.9, 3.4.3.
fn spelled_out(number: u32) -> String {
    let digit = if number < 1000 { 10 } else { 100 };
    format!("{}.{}.{}", number / (digit * digit), number / digit % digit, number % digit)
}

/// The dotted number that `text` starts with.
fn version_at(text: &str) -> Option<String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let version = text[..end].trim_end_matches('.');
    (!version.is_empty() && version.starts_with(|c: char| c.is_ascii_digit()))
        .then(|| version.to_owned())
}

/// The version in a text such as `5.3.0-0-g54eaed1d8b56b1aa528be3bdd1877e59c56fa90c`.
fn described(text: &str) -> Option<String> {
    let mut parts = text.splitn(3, '-');
    let (version, commits, commit) = (parts.next()?, parts.next()?, parts.next()?);
    let is_commit = commit
        .strip_prefix('g')
        .is_some_and(|hash| hash.len() >= 7 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let is_count = !commits.is_empty() && commits.bytes().all(|byte| byte.is_ascii_digit());
    let is_version = version.contains('.') && version_at(version).as_deref() == Some(version);
    (is_commit && is_count && is_version).then(|| version.to_owned())
}

/// The version in a path such as `/usr/lib/clang/14.0.6/lib/linux/libx.so`.
fn in_directory(path: &Path) -> Option<String> {
    let names = path.parent()?.iter().filter_map(|name| name.to_str());
    names.filter_map(|name| version_at(name).filter(|version| version == name)).next_back()
}

/// The version in a name such as `libfoo.so.2.8`. A single number is the name of an interface,
/// which many versions share, so it is not taken for one. Interfaces have versions of their own, so
/// this is asked only when the file itself says nothing.
pub(crate) fn in_file_name(name: &str) -> Option<String> {
    let (_, version) = name.split_once(".so.")?;
    (version.contains('.') && version_at(version).as_deref() == Some(version))
        .then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_is_read_from_the_code_of_both_architectures() {
        assert_eq!(returned_constant(&[0xb8, 0xd1, 0, 0, 0, 0xc3]), Some(209));
        let guarded = [0xf3, 0x0f, 0x1e, 0xfa, 0xb8, 0xd1, 0, 0, 0, 0xc3, 0x90];
        assert_eq!(returned_constant(&guarded), Some(209));
        let aarch64 = [0x20, 0x1a, 0x80, 0x52, 0xc0, 0x03, 0x5f, 0xd6];
        assert_eq!(returned_constant(&aarch64), Some(209));
        assert_eq!(returned_constant(&[0x48, 0x85, 0xff, 0xc3]), None);
        assert_eq!(returned_constant(&[]), None);
    }

    #[test]
    fn versions_are_sorted_by_their_numbers() {
        assert!(key(Some("2.10")) > key(Some("2.9.1")));
        assert!(key(Some("5.3.1")) > key(Some("5.3.0")));
        assert!(key(Some("0")) > key(None));
    }

    #[test]
    fn a_version_is_asked_for_by_its_first_parts() {
        assert!(is_asked_for("2.5.2", "2"));
        assert!(is_asked_for("2.5.2", "2.5"));
        assert!(is_asked_for("2.5.2", "2.5.2"));
        assert!(!is_asked_for("2.5.2", "2.5.20"));
        assert!(!is_asked_for("20.5", "2"));
        assert!(!is_asked_for("2.5", ""));
    }

    #[test]
    fn numbers_are_spelled_out() {
        assert_eq!(spelled_out(209), "2.0.9");
        assert_eq!(spelled_out(30403), "3.4.3");
    }

    #[test]
    fn a_description_by_git_gives_its_version_and_nothing_else_does() {
        let text = "5.3.0-0-g54eaed1d8b56b1aa528be3bdd1877e59c56fa90c";
        assert_eq!(described(text).as_deref(), Some("5.3.0"));
        assert_eq!(described("x86-64-g54eaed1d8b"), None);
        assert_eq!(described("5.3.0-0-great"), None);
        assert_eq!(described("5.3.0"), None);
    }

    #[test]
    fn versions_end_where_the_number_ends() {
        assert_eq!(version_at("2.36.\n").as_deref(), Some("2.36"));
        assert_eq!(version_at("2.10").as_deref(), Some("2.10"));
        assert_eq!(version_at(" 2.10"), None);
    }

    #[test]
    fn a_directory_gives_a_version_when_it_is_named_by_nothing_else() {
        let old = Path::new("/usr/lib/llvm-14/lib/clang/14.0.6/lib/linux/libx.so");
        assert_eq!(in_directory(old).as_deref(), Some("14.0.6"));
        let new = Path::new("/usr/lib/clang/19/lib/x86_64-unknown-linux-gnu/libx.so");
        assert_eq!(in_directory(new).as_deref(), Some("19"));
        assert_eq!(in_directory(Path::new("/opt/llvm-14/lib/libx.so")), None);
    }

    #[test]
    fn a_file_name_gives_a_version_only_when_it_has_two_numbers() {
        assert_eq!(in_file_name("libtbbmalloc_proxy.so.2.8").as_deref(), Some("2.8"));
        assert_eq!(in_file_name("libjemalloc.so.2"), None);
        assert_eq!(in_file_name("libhoard.so"), None);
    }
}
