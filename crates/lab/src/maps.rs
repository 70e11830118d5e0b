//! Reading the memory map of a process. It must not know what the mapped files are.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The marker that the kernel appends to the path of a file that is gone.
const DELETED: &[u8] = b" (deleted)";

/// The files mapped with execute permission, each once, in the order of their addresses. Bytes: the
/// names of files need not be text, and one that is not must not hide the others.
pub(crate) fn executable_files(maps: &[u8]) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = Vec::new();
    for line in maps.split(|byte| *byte == b'\n') {
        // Address, permissions, offset, device, inode, path; the path may hold spaces.
        let mut fields = line.splitn(6, |byte| *byte == b' ');
        let is_executable = fields.nth(1).is_some_and(|permissions| permissions.contains(&b'x'));
        let path = fields.last().unwrap_or_default().trim_ascii_start();
        let path = path.strip_suffix(DELETED).unwrap_or(path);
        let path = Path::new(OsStr::from_bytes(path));
        if is_executable && path.has_root() && !files.iter().any(|known| known == path) {
            files.push(path.to_owned());
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_no_text_hides_no_other() {
        let maps = b"1-2 r--s 0 fe:00 1    /srv/donn\xe9es\n2-3 r-xp 0 fe:00 1    /opt/\xff/a.so\n\
                     3-4 r-xp 0 fe:00 1    /lib/b.so\n";
        let odd = Path::new(OsStr::from_bytes(b"/opt/\xff/a.so"));
        assert_eq!(executable_files(maps), [odd, Path::new("/lib/b.so")]);
    }

    #[test]
    fn executable_files_are_listed_once_whatever_their_names_hold() {
        let maps = b"1-2 r--p 0 fe:00 1    /lib/a.so\n2-3 r-xp 0 fe:00 1    /lib/a.so\n\
                    3-4 r-xp 0 fe:00 1    /lib/a.so\n4-5 r-xp 0 fe:00 2    /opt/my lib/b.so\n\
                    5-6 r-xp 0 fe:00 3    /tmp/gone.so (deleted)\n\
                    6-7 r-xp 0 00:00 0    [vdso]\n7-8 rwxp 0 00:00 0\n";
        let files = executable_files(maps);
        assert_eq!(
            files,
            [Path::new("/lib/a.so"), Path::new("/opt/my lib/b.so"), Path::new("/tmp/gone.so")]
        );
    }
}
