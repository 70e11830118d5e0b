//! Reading the memory map of a process. It must not know what the mapped files are.

use std::path::PathBuf;

/// The marker that the kernel appends to the path of a file that is gone.
const DELETED: &str = " (deleted)";

/// The files mapped with execute permission, each once, in the order of their addresses.
pub(crate) fn executable_files(maps: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = Vec::new();
    for line in maps.lines() {
        // Address, permissions, offset, device, inode, path; the path may hold spaces.
        let mut fields = line.splitn(6, ' ');
        let is_executable = fields.nth(1).is_some_and(|permissions| permissions.contains('x'));
        let path = fields.last().unwrap_or_default().trim_start();
        let path = path.strip_suffix(DELETED).unwrap_or(path);
        if is_executable && path.starts_with('/') && !files.iter().any(|known| known == path) {
            files.push(PathBuf::from(path));
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn executable_files_are_listed_once_whatever_their_names_hold() {
        let maps = "1-2 r--p 0 fe:00 1    /lib/a.so\n2-3 r-xp 0 fe:00 1    /lib/a.so\n\
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
