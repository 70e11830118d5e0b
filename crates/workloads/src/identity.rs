//! Which objects serve the allocation calls of this process. It reports paths, and must not know
//! which allocator a path belongs to.

use std::ffi::{CStr, OsStr, c_void};
use std::fs;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::blocks;

/// The objects that the calls of this process go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Providers {
    /// The file that holds the `malloc` which calls here are bound to.
    pub malloc: PathBuf,
    /// The same for `free`.
    pub free: PathBuf,
    /// Every file mapped with execute permission, in the order of the memory map.
    pub mapped: Vec<PathBuf>,
}

/// Asks the dynamic loader where the bound addresses of `malloc` and `free` lie; `None` when it
/// does not know.
pub fn providers() -> Option<Providers> {
    Some(Providers {
        malloc: object_of(blocks::malloc_address())?,
        free: object_of(blocks::free_address())?,
        mapped: mapped_objects(&fs::read_to_string("/proc/self/maps").unwrap_or_default()),
    })
}

fn object_of(address: *const c_void) -> Option<PathBuf> {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: any address may be asked about, and `info` is writable memory of the right type.
    let found = unsafe { libc::dladdr(address, info.as_mut_ptr()) };
    if found == 0 {
        return None;
    }
    // SAFETY: all fields are integers and pointers, and were zeroed before they were filled.
    let info = unsafe { info.assume_init() };
    if info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader returns a terminated string that lives as long as the object is mapped,
    // which is for good for the object that serves `malloc`.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
}

fn mapped_objects(maps: &str) -> Vec<PathBuf> {
    let mut objects: Vec<PathBuf> = Vec::new();
    for line in maps.lines() {
        let mut fields = line.splitn(6, ' ');
        let executable = fields.nth(1).is_some_and(|permissions| permissions.contains('x'));
        let path = fields.last().unwrap_or_default().trim_start();
        if executable && path.starts_with('/') && !objects.iter().any(|known| known == path) {
            objects.push(PathBuf::from(path));
        }
    }
    objects
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn executable_mappings_are_listed_once_and_paths_may_hold_spaces() {
        let maps = "1-2 r--p 0 fe:00 1    /lib/a.so\n2-3 r-xp 0 fe:00 1    /lib/a.so\n\
                    3-4 r-xp 0 fe:00 1    /lib/a.so\n4-5 r-xp 0 fe:00 2    /opt/my lib/b.so\n\
                    5-6 r-xp 0 00:00 0    [vdso]\n6-7 rwxp 0 00:00 0\n";
        assert_eq!(mapped_objects(maps), [Path::new("/lib/a.so"), Path::new("/opt/my lib/b.so")]);
    }

    #[test]
    fn this_process_can_name_the_object_that_serves_its_malloc() {
        let providers = providers().expect("the loader knows its own symbols");
        assert!(providers.malloc.exists());
        assert_eq!(providers.malloc, providers.free);
        assert!(!providers.mapped.is_empty());
    }
}
