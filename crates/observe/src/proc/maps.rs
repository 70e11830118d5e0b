//! `/proc/PID/maps`: which files a process has mapped, and where.

use std::ops::Range;
use std::path::PathBuf;

/// The mark of a file that is gone.
const DELETED: &str = " (deleted)";

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

/// The mappings of files in the text of the file.
pub(crate) fn parse(text: &str) -> Vec<Mapping> {
    text.lines().filter_map(mapping).collect()
}

fn mapping(line: &str) -> Option<Mapping> {
    // Address, permissions, offset, device, inode, path; the path may hold spaces.
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let permissions = fields.next()?;
    let offset = fields.next()?;
    let path = fields.last()?.trim_start();
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let path = path.strip_suffix(DELETED).unwrap_or(path);
    path.starts_with('/').then_some(Mapping {
        addresses: number(start)?..number(end)?,
        offset: number(offset)?,
        is_executable: permissions.contains('x'),
        path: PathBuf::from(path),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_of_files_are_read_and_others_left_out() {
        let text = "7f00-7f10 r--p 00000000 fe:00 12    /lib/a.so\n\
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
