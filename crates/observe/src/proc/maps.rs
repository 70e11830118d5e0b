//! `/proc/PID/maps`: which files a process has mapped, and where.

use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The mark of a file that is gone.
const DELETED: &[u8] = b" (deleted)";

/// A mapping of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mapping {
    /// Where it is.
    pub(crate) addresses: Range<u64>,
    /// Where in the file it begins.
    pub(crate) offset: u64,
    /// Whether code in it can run.
    pub(crate) is_executable: bool,
    /// The file.
    pub(crate) path: PathBuf,
}

/// The mappings of files in the bytes of the file: names need not be text, and one that is not must
/// not hide the others.
pub(crate) fn parse(maps: &[u8]) -> Vec<Mapping> {
    maps.split(|byte| *byte == b'\n').filter_map(mapping).collect()
}

fn mapping(line: &[u8]) -> Option<Mapping> {
    // Address, permissions, offset, device, inode, path; the path may hold spaces.
    let mut fields = line.splitn(6, |byte| *byte == b' ');
    let mut word = || std::str::from_utf8(fields.next()?).ok();
    let (start, end) = word()?.split_once('-')?;
    let permissions = word()?;
    let offset = word()?;
    let path = fields.last()?.trim_ascii_start();
    let path = Path::new(OsStr::from_bytes(path.strip_suffix(DELETED).unwrap_or(path)));
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    path.has_root().then_some(Mapping {
        addresses: number(start)?..number(end)?,
        offset: number(offset)?,
        is_executable: permissions.contains('x'),
        path: path.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_no_text_hides_no_other() {
        let maps = b"1000-2000 r--s 00000000 fe:00 12    /srv/donn\xe9es\n\
                     2000-3000 r-xp 00000000 fe:00 12    /lib/a.so\n";
        let paths: Vec<_> = parse(maps).into_iter().map(|mapping| mapping.path).collect();
        let odd = Path::new(OsStr::from_bytes(b"/srv/donn\xe9es"));
        assert_eq!(paths, [odd, Path::new("/lib/a.so")]);
    }

    #[test]
    fn mappings_of_files_are_read_and_others_left_out() {
        let text = b"7f00-7f10 r--p 00000000 fe:00 12    /lib/a.so\n\
                    7f10-7f30 r-xp 00000010 fe:00 12    /opt/my lib/a.so (deleted)\n\
                    7f30-7f40 rw-p 00000000 00:00 0\n\
                    7ffc-7ffd r-xp 00000000 00:00 0     [vdso]\n";
        let mappings = parse(text);
        assert_eq!(mappings.len(), 2);
        assert_eq!(mappings[0].addresses, 0x7f00..0x7f10);
        assert!(!mappings[0].is_executable);
        let code = Mapping {
            addresses: 0x7f10..0x7f30,
            offset: 0x10,
            is_executable: true,
            path: PathBuf::from("/opt/my lib/a.so"),
        };
        assert_eq!(mappings[1], code);
    }
}
