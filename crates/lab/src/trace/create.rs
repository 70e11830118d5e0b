//! Making the file that programs are recorded into. It must not know which programs.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use freehold_trace::file::{Header, LEAST_CAPACITY, MAGIC, UNIT};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::ahead::Ahead;

/// The least size that a trace can be limited to.
pub const LEAST_LIMIT: u64 = LEAST_CAPACITY;

/// A file that is ready to be recorded into. Unless it is [kept](Self::keep), it goes again with
/// this, and what was there before comes back.
#[derive(Debug)]
pub struct Draft {
    /// Where it is, from the root on: programs change their directory.
    pub path: PathBuf,
    /// Locked, so that nobody else records into it or puts another in its place.
    file: File,
    /// Where the trace is whose place it takes, until it is known that it is wanted.
    former: Option<PathBuf>,
    is_kept: bool,
    shortened: Option<u64>,
    /// Makes pages of it as long as programs are recorded.
    pub(super) ahead: Option<Ahead>,
}

impl Draft {
    /// Makes the file, which will not grow beyond `limit` bytes, at least [`LEAST_LIMIT`]. It
    /// takes the place of another trace that nobody is recording into, and of nothing else.
    pub fn create(path: &Path, limit: u64) -> io::Result<Self> {
        let longest = longest_file();
        if longest < LEAST_LIMIT {
            let message = format!("files may not be longer than {longest} bytes here (ulimit -f)");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        }
        let capacity = limit.clamp(LEAST_LIMIT, longest) / UNIT as u64 * UNIT as u64;
        // Locked until its place is taken: of two that want it, one is refused.
        let _locked = former(path)?;
        let aside = beside(path, ".before");
        former(&aside)?;
        let former = match fs::rename(path, &aside) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            moved => moved.map(|()| Some(aside))?,
        };
        match create_new(path, capacity) {
            Ok((path, file)) => {
                let shortened = (longest < limit).then_some(capacity);
                let ahead = file.try_clone().ok().map(|file| Ahead::begin(file, capacity));
                Ok(Self { path, file, former, is_kept: false, shortened, ahead })
            }
            Err(error) => {
                withdraw(path, former.as_deref());
                Err(error)
            }
        }
    }

    /// What it will not grow beyond, if files may not be as long here as the limit.
    pub fn shortened(&self) -> Option<u64> {
        self.shortened
    }

    /// The command has been started: from now on this is the trace of that name.
    pub fn keep(&mut self) {
        self.is_kept = true;
        if let Some(former) = self.former.take() {
            // It is in nobody's way.
            let _ = fs::remove_file(former);
        }
    }

    /// Whether it still has its name, and no other file does.
    pub(super) fn has_its_name(&self) -> io::Result<bool> {
        let (own, there) = (self.file.metadata()?, fs::metadata(&self.path));
        Ok(there.is_ok_and(|there| (own.dev(), own.ino()) == (there.dev(), there.ino())))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_kept {
            withdraw(&self.path, self.former.as_deref());
        }
    }
}

/// Removes a file that nobody has recorded into; what was there before comes back.
fn withdraw(path: &Path, former: Option<&Path>) {
    // Who called for it has failed already, and says why.
    let _ = match former {
        Some(former) => fs::rename(former, path),
        None => fs::remove_file(path),
    };
}

/// The same name with this behind it.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(OsStr::new(suffix));
    path.with_file_name(name)
}

fn create_new(path: &Path, capacity: u64) -> io::Result<(PathBuf, File)> {
    // A name that somebody else has put there meanwhile is not followed.
    let mut options = OpenOptions::new();
    let mut file = options.read(true).write(true).create_new(true).mode(0o600).open(path)?;
    if !lock(&file) {
        return Err(in_use());
    }
    file.write_all(&Header::new(capacity, monotonic(), since_1970()).to_bytes())?;
    // The rest is a hole, which takes no room on the disk before it is written to.
    file.set_len(capacity)?;
    Ok((fs::canonicalize(path)?, file))
}

/// How long files may be here. Who makes one longer is ended by a signal.
fn longest_file() -> u64 {
    getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX)
}

/// The trace, or the empty file, that a new trace replaces, locked; `None` if there is nothing. An
/// error if that is another file, or one that somebody is recording into.
fn former(path: &Path) -> io::Result<Option<File>> {
    let metadata = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found?,
    };
    let other = "there is another file of this name, which is not a trace";
    let other = || io::Error::new(io::ErrorKind::AlreadyExists, other);
    if !metadata.is_file() {
        return Err(other());
    }
    let mut file = File::open(path)?;
    let mut start = [0; MAGIC.len()];
    let read = file.read(&mut start)?;
    if read != 0 && start != MAGIC {
        return Err(other());
    }
    if lock(&file) { Ok(Some(file)) } else { Err(in_use()) }
}

/// Locks a trace for who records into it; false if somebody else does. Where the file system has
/// no locks, nobody is kept away. Programs that are recorded do not inherit the lock, and a
/// recorder that is killed loses it.
pub(super) fn lock(file: &File) -> bool {
    flock(file, FlockOperation::NonBlockingLockExclusive) != Err(Errno::WOULDBLOCK)
}

fn in_use() -> io::Error {
    let message = "another freehold is recording into this trace, or just reading what it recorded";
    io::Error::new(io::ErrorKind::ResourceBusy, message)
}

/// The clock of the recorder.
fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn since_1970() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_takes_the_place_of_a_trace_and_of_nothing_else() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("trace");
        let create = |limit| Draft::create(&path, limit);
        create(5 << 20).expect("created").keep();
        assert_eq!(fs::metadata(&path).expect("there").len(), 5 << 20);
        create(1).expect("created again").keep();
        assert_eq!(fs::metadata(&path).expect("there").len(), LEAST_LIMIT);
        assert_eq!(fs::read_dir(&directory).expect("there").count(), 1, "nothing is left over");
        fs::write(&path, "a letter").expect("written");
        let error = create(1).expect_err("refused");
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).expect("there"), b"a letter");
        Draft::create(directory.path(), 1).expect_err("a directory is no trace");
    }

    #[test]
    fn a_trace_that_is_recorded_into_is_not_replaced() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("trace");
        let mut first = Draft::create(&path, 1).expect("created");
        first.keep();
        let error = Draft::create(&path, 1).expect_err("refused");
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        assert!(first.has_its_name().expect("there"));
        drop(first);
        Draft::create(&path, 1).expect("nobody records any more");
    }

    #[test]
    fn what_was_there_before_comes_back_if_the_new_one_is_not_wanted() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("trace");
        drop(Draft::create(&path, 1).expect("created"));
        assert!(!path.exists());
        Draft::create(&path, 1).expect("created").keep();
        let before = fs::metadata(&path).expect("there").ino();
        drop(Draft::create(&path, 1).expect("created again"));
        assert_eq!(fs::metadata(&path).expect("there").ino(), before);
    }

    #[test]
    fn a_file_that_has_taken_the_name_is_told_from_the_draft() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("trace");
        let draft = Draft::create(&path, 1).expect("created");
        fs::rename(&path, directory.path().join("elsewhere")).expect("renamed");
        assert!(!draft.has_its_name().expect("there"));
        fs::copy(directory.path().join("elsewhere"), &path).expect("copied");
        assert!(!draft.has_its_name().expect("there"));
    }
}
