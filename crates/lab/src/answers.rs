//! Files in which the allocators of a command's processes answer questions: made for a command, and
//! asked by who observes it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

pub use freehold_trace::asked::VARIABLE;
use freehold_trace::asked::{BYTES, head};

/// Makes the file, where there is none; returns where it is, from the root on: programs change
/// their directory.
pub fn create(path: &Path) -> io::Result<PathBuf> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(&head())?;
    file.set_len(BYTES as u64)?;
    fs::canonicalize(path)
}
