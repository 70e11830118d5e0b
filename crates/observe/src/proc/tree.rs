//! Which processes and threads there are.

use std::fs;

/// The threads of a process; none once it has ended.
pub(crate) fn threads(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Whether there is a process of this number.
pub(crate) fn exists(pid: u32) -> bool {
    fs::metadata(format!("/proc/{pid}/stat")).is_ok()
}
