//! Which processes and threads there are.

use std::fs;

/// The threads of a process; none once it has ended.
pub(crate) fn threads(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
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
