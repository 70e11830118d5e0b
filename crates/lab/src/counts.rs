//! Files into which a recorder counts calls: made for a command, and read while it runs.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use freehold_trace::counts::{BYTES, head, records};
pub use freehold_trace::counts::{Counts, FOLLOWED, VARIABLE};

/// A file that calls are counted in.
#[derive(Debug)]
pub struct CountsFile {
    /// Where it is, from the root on: programs change their directory.
    pub path: PathBuf,
}

impl CountsFile {
    /// Makes the file, where there is none.
    pub fn create(path: &Path) -> io::Result<Self> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(&head())?;
        file.set_len(BYTES as u64)?;
        Ok(Self { path: fs::canonicalize(path)? })
    }

    /// What was counted so far, a process each.
    pub fn read(&self) -> io::Result<Vec<Counts>> {
        let bytes = fs::read(&self.path)?;
        Ok(records(&bytes).into_iter().flatten().collect())
    }

    /// Bytes that these processes have in use; `None` where none of them tells.
    pub fn live_bytes(&self, processes: &[u32]) -> Option<u64> {
        let counted = self.read().ok()?;
        // A number that is used again is that of the last one.
        let last = |pid: &u32| counted.iter().rfind(|counts| counts.pid == *pid)?.live();
        processes.iter().filter_map(last).reduce(|sum, live| sum + live)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_has_counted_nothing() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("counts");
        let file = CountsFile::create(&path).expect("created");
        assert_eq!(file.read().expect("readable"), []);
        assert_eq!(file.live_bytes(&[1, 2]), None);
        CountsFile::create(&path).expect_err("it is there");
    }
}
