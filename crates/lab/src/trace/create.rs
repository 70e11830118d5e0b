//! Making the file that programs are recorded into. It must not know which programs.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use freehold_trace::file::{Header, LEAST_CAPACITY, MAGIC, UNIT};
use rustix::time::{ClockId, clock_gettime};

use super::ahead::Ahead;

/// The least size that a trace can be limited to.
pub const LEAST_LIMIT: u64 = LEAST_CAPACITY;

/// A file that is ready to be recorded into.
#[derive(Debug)]
pub struct Draft {
    /// Where it is, from the root on: programs change their directory.
    pub path: PathBuf,
    /// Makes pages of it as long as this lives.
    _ahead: Ahead,
}

impl Draft {
    /// Makes the file, which will not grow beyond `limit` bytes, at least [`LEAST_LIMIT`]. It
    /// takes the place of another trace, and of nothing else.
    pub fn create(path: &Path, limit: u64) -> io::Result<Self> {
        if !may_be_replaced(path)? {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "there is another file of this name, which is not a trace",
            ));
        }
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let unit = UNIT as u64;
        let capacity = limit.max(LEAST_LIMIT) / unit * unit;
        // A name that somebody else has put there meanwhile is not followed.
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        let mut file = options.open(path)?;
        file.write_all(&Header::new(capacity, monotonic(), since_1970()).to_bytes())?;
        // The rest is a hole, which takes no room on the disk before it is written to.
        file.set_len(capacity)?;
        Ok(Self { path: fs::canonicalize(path)?, _ahead: Ahead::begin(file, capacity) })
    }
}

/// Whether a new trace can take this place: there is nothing, or a trace, or an empty file.
fn may_be_replaced(path: &Path) -> io::Result<bool> {
    let found = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        found => found?,
    };
    if !found.is_file() {
        return Ok(false);
    }
    let mut start = [0; MAGIC.len()];
    let read = File::open(path)?.read(&mut start)?;
    Ok(read == 0 || start == MAGIC)
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
        let draft = Draft::create(&path, 5 << 20).expect("created");
        assert_eq!(fs::metadata(&draft.path).expect("there").len(), 5 << 20);
        Draft::create(&path, 1).expect("created again");
        assert_eq!(fs::metadata(&path).expect("there").len(), LEAST_LIMIT);
        fs::write(&path, "a letter").expect("written");
        let error = Draft::create(&path, 1).expect_err("refused");
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).expect("there"), b"a letter");
        Draft::create(directory.path(), 1).expect_err("a directory is no trace");
    }
}
