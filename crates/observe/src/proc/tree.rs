//! Which processes and threads there are.

use std::fs;
use std::os::unix::fs::MetadataExt;

/// The threads of a process; none once it has ended.
pub(crate) fn threads(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// How many threads a process has, those included that have ended and not been waited for; nothing
/// once it has ended. It costs a hundredth of listing many of them.
pub(crate) fn thread_count(pid: u32) -> Option<u64> {
    let links = fs::metadata(format!("/proc/{pid}/task")).ok()?.nlink();
    // The directory itself has two.
    links.checked_sub(2)
}

/// A process and all that descend from it.
pub(crate) fn family(pid: u32) -> Vec<u32> {
    let mut family = vec![pid];
    let mut at = 0;
    while let Some(&parent) = family.get(at) {
        for tid in threads(parent) {
            let path = format!("/proc/{parent}/task/{tid}/children");
            let children = fs::read_to_string(path).unwrap_or_default();
            family.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
        at += 1;
    }
    family
}

/// Whether there is a process of this number.
pub(crate) fn exists(pid: u32) -> bool {
    fs::metadata(format!("/proc/{pid}/stat")).is_ok()
}
