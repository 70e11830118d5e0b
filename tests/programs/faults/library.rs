//! Where the library is in the memory of the program.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The library, as far as it has been found.
pub(crate) struct Library {
    path: PathBuf,
    /// Its code, and where the file's first byte is.
    found: Option<(Range<u64>, u64)>,
}

impl Library {
    /// The library at this path.
    pub(crate) fn new(path: &str) -> Self {
        let path = fs::canonicalize(path).unwrap_or_else(|_| PathBuf::from(path));
        Self { path, found: None }
    }

    /// How far into the library an address is, if it is in its code. Looked up in the process until
    /// it is found: a library stays where it is.
    pub(crate) fn offset(&mut self, pid: i32, address: u64) -> Option<u64> {
        if self.found.is_none() {
            self.found = code_of(pid, &self.path);
        }
        let (code, start) = self.found.as_ref()?;
        code.contains(&address).then(|| address - start)
    }
}

/// The executable mapping of a file, and where its first byte is, from `/proc/PID/maps`.
fn code_of(pid: i32, path: &Path) -> Option<(Range<u64>, u64)> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let path = path.to_string_lossy();
    let parts = || maps.lines().filter(|line| line.ends_with(&*path)).filter_map(part);
    let (code, _) = parts().find(|(_, is_code)| *is_code)?;
    let start = parts().map(|(part, _)| part.start).min()?;
    Some((code, start))
}

/// Where a part of a file is, and whether it can be executed.
fn part(line: &str) -> Option<(Range<u64>, bool)> {
    let mut fields = line.split_ascii_whitespace();
    let (from, to) = fields.next()?.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let is_code = fields.next()?.contains('x');
    Some((number(from)?..number(to)?, is_code))
}
