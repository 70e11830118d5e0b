//! Libraries to preload, carried within the program that uses this crate.
//!
//! The dynamic loader can only preload a file, so a library is laid out in a directory of the
//! user's before it is used. Nobody else may be able to change what is loaded into the user's
//! programs: the directory must belong to the user alone, the file appears in one step, and one
//! that is already there is used only if it is the very same.
//!
//! This crate must not know what the libraries do or who uses them.
#![forbid(unsafe_code)]

use std::fmt::Write as _;
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process};

use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::process::geteuid;
use sha2::{Digest, Sha256};

/// A library that is carried within the program.
#[derive(Debug, Clone, Copy)]
pub struct Library {
    /// The start of its file's name.
    stem: &'static str,
    /// Its contents.
    pub bytes: &'static [u8],
}

/// The Freehold library.
pub const FREEHOLD: Library =
    Library { stem: "libfreehold", bytes: include_bytes!(env!("FREEHOLD_LIBRARY")) };

/// What records allocation calls.
pub const RECORDER: Library =
    Library { stem: "libfreehold-recorder", bytes: include_bytes!(env!("FREEHOLD_RECORDER")) };

/// What asks the allocators of a process.
pub const ASKER: Library =
    Library { stem: "libfreehold-asker", bytes: include_bytes!(env!("FREEHOLD_ASKER")) };

/// The models of classic allocators, by name.
pub const MODELS: [(&str, Library); 5] = [
    ("serial", model("libfreehold-model-serial", include_bytes!(env!("FREEHOLD_MODEL_SERIAL")))),
    (
        "mtmalloc",
        model("libfreehold-model-mtmalloc", include_bytes!(env!("FREEHOLD_MODEL_MTMALLOC"))),
    ),
    (
        "mtmalloc-exclusive",
        model(
            "libfreehold-model-mtmalloc-exclusive",
            include_bytes!(env!("FREEHOLD_MODEL_MTMALLOC_EXCLUSIVE")),
        ),
    ),
    ("private", model("libfreehold-model-private", include_bytes!(env!("FREEHOLD_MODEL_PRIVATE")))),
    (
        "ownership",
        model("libfreehold-model-ownership", include_bytes!(env!("FREEHOLD_MODEL_OWNERSHIP"))),
    ),
];

const fn model(stem: &'static str, bytes: &'static [u8]) -> Library {
    Library { stem, bytes }
}

/// The version of the libraries, which is that of the program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Digits of the hash in the file's name: enough that two builds never meet in one name.
const HASH_DIGITS: usize = 16;

/// Write permission for the group and for everybody.
const OTHERS_MAY_WRITE: u32 = 0o022;

/// Everything may be read and run, and only the owner may write.
const FILE_MODE: u32 = 0o755;

/// Only the owner may do anything.
const DIRECTORY_MODE: u32 = 0o700;

impl Library {
    /// Lays the library out in the first directory that will do, and returns its path: the user's
    /// cache directory, or else one of the user's own among the temporary files.
    pub fn lay_out(&self) -> io::Result<PathBuf> {
        let mut refusals = String::new();
        for directory in directories() {
            match self.lay_out_in(&directory) {
                Ok(path) => return Ok(path),
                // Writing to a string cannot fail.
                Err(error) => {
                    let _ = write!(refusals, "; {}: {error}", directory.display());
                }
            }
        }
        let message = format!("no directory to lay the library out in{refusals}");
        Err(io::Error::new(ErrorKind::PermissionDenied, message))
    }

    /// Lays the library out in this directory, which is made if it is missing.
    pub fn lay_out_in(&self, directory: &Path) -> io::Result<PathBuf> {
        make_private(directory)?;
        // Preloading takes a path that the loader does not take apart, on a file system that lets
        // files be run.
        let directory = fs::canonicalize(directory)?;
        // Results name it, as text.
        let Some(name) = directory.to_str() else {
            return Err(io::Error::new(ErrorKind::InvalidInput, "its name is not text"));
        };
        if name.contains([' ', ':']) {
            return Err(io::Error::new(
                ErrorKind::InvalidInput,
                "the loader ends a path at a space or a colon",
            ));
        }
        if statvfs(&directory)?.f_flag.contains(StatVfsMountFlags::NOEXEC) {
            return Err(io::Error::new(
                ErrorKind::PermissionDenied,
                "nothing can be run from this file system",
            ));
        }
        let path = directory.join(self.file_name());
        if !self.is_at(&path) {
            replace(&path, self.bytes)?;
        }
        Ok(path)
    }

    fn file_name(&self) -> String {
        let mut name = format!("{}-{VERSION}-", self.stem);
        for byte in Sha256::digest(self.bytes).iter().take(HASH_DIGITS / 2) {
            // Writing to a string cannot fail.
            let _ = write!(name, "{byte:02x}");
        }
        name + ".so"
    }

    fn is_at(&self, path: &Path) -> bool {
        let is_sound = |data: fs::Metadata| data.is_file() && data.mode() & OTHERS_MAY_WRITE == 0;
        fs::symlink_metadata(path).is_ok_and(is_sound)
            && fs::read(path).is_ok_and(|found| found == self.bytes)
    }
}

/// Where to try, in order.
fn directories() -> Vec<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME");
    let home = absolute("HOME").map(|home| home.join(".cache"));
    let caches = cache.or(home).map(|cache| cache.join("freehold"));
    let own = env::temp_dir().join(format!("freehold-{}", geteuid().as_raw()));
    caches.into_iter().chain([own]).collect()
}

/// Makes the directory if needed, and makes sure that nobody but its owner, who must be the user
/// or root, can put anything into it.
fn make_private(directory: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(directory)?;
    let found = fs::metadata(directory)?;
    let is_trusted = found.uid() == geteuid().as_raw() || found.uid() == 0;
    if !is_trusted || found.permissions().mode() & OTHERS_MAY_WRITE != 0 {
        return Err(io::Error::new(
            ErrorKind::PermissionDenied,
            "others can write to this directory",
        ));
    }
    Ok(())
}

/// Puts the library at `path` in one step: a program that is just being started sees the old file
/// or the new one, and never a part of one.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    /// Threads of one process may do so at the same time, each with a draft of its own.
    static DRAFTS: AtomicU32 = AtomicU32::new(0);
    let number = DRAFTS.fetch_add(1, Ordering::Relaxed);
    let draft = path.with_extension(format!("{}-{number}.draft", process::id()));
    // One may be left over from a process of the same number that was killed in between.
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let written = write(&draft, bytes).and_then(|()| fs::rename(&draft, path));
    if written.is_err() {
        // Only the draft is lost, and the first error is the one that matters.
        let _ = fs::remove_file(&draft);
    }
    written
}

fn write(draft: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft)?;
    file.write_all(bytes)?;
    file.set_permissions(fs::Permissions::from_mode(FILE_MODE))?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_library_is_an_elf_file_and_has_a_name_of_its_own() {
        let all = [FREEHOLD, RECORDER, ASKER].into_iter().chain(MODELS.map(|(_, model)| model));
        let mut names: Vec<_> = all
            .map(|library| {
                assert!(library.bytes.starts_with(b"\x7fELF"));
                library.file_name()
            })
            .collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }

    #[test]
    fn it_is_laid_out_whole_and_executable_and_found_again() {
        let parent = tempfile::tempdir().expect("a directory");
        let directory = parent.path().join("new/cache");
        let path = FREEHOLD.lay_out_in(&directory).expect("laid out");
        assert_eq!(fs::read(&path).expect("readable"), FREEHOLD.bytes);
        assert_eq!(fs::metadata(&path).expect("there").mode() & 0o7777, FILE_MODE);
        let first = fs::metadata(&path).expect("there").ino();
        assert_eq!(FREEHOLD.lay_out_in(&directory).expect("found"), path);
        assert_eq!(fs::metadata(&path).expect("there").ino(), first, "it was written again");
        assert_eq!(fs::read_dir(&directory).expect("readable").count(), 1, "a draft was left");
    }

    #[test]
    fn threads_may_lay_the_same_library_out_at_the_same_time() {
        let parent = tempfile::tempdir().expect("a directory");
        std::thread::scope(|scope| {
            let lay_out = || FREEHOLD.lay_out_in(parent.path());
            let all: Vec<_> = (0..8).map(|_| scope.spawn(lay_out)).collect();
            for thread in all {
                thread.join().expect("no panic").expect("laid out");
            }
        });
        assert_eq!(fs::read_dir(parent.path()).expect("readable").count(), 1);
    }

    #[test]
    fn a_file_that_was_tampered_with_is_replaced() {
        let parent = tempfile::tempdir().expect("a directory");
        let path = FREEHOLD.lay_out_in(parent.path()).expect("laid out");
        fs::write(&path, b"something else").expect("writable");
        assert_eq!(FREEHOLD.lay_out_in(parent.path()).expect("laid out again"), path);
        assert_eq!(fs::read(&path).expect("readable"), FREEHOLD.bytes);
    }

    #[test]
    fn a_link_to_the_library_elsewhere_is_replaced() {
        let parent = tempfile::tempdir().expect("a directory");
        let path = FREEHOLD.lay_out_in(parent.path()).expect("laid out");
        let elsewhere = parent.path().join("elsewhere.so");
        fs::rename(&path, &elsewhere).expect("moved");
        std::os::unix::fs::symlink(&elsewhere, &path).expect("linked");
        FREEHOLD.lay_out_in(parent.path()).expect("laid out again");
        assert!(fs::symlink_metadata(&path).expect("there").is_file());
    }

    #[test]
    fn a_directory_that_others_can_write_is_refused() {
        let parent = tempfile::tempdir().expect("a directory");
        let open = parent.path().join("open");
        fs::create_dir(&open).expect("made");
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("opened");
        let error = FREEHOLD.lay_out_in(&open).expect_err("must be refused");
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        assert_eq!(fs::read_dir(&open).expect("readable").count(), 0);
    }

    #[test]
    fn a_directory_that_the_loader_would_take_apart_is_refused() {
        let parent = tempfile::tempdir().expect("a directory");
        let error =
            FREEHOLD.lay_out_in(&parent.path().join("two words")).expect_err("must be refused");
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
}
