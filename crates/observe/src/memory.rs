//! Resident memory of processes.

use std::fs;

/// Resident memory of these processes together, in bytes; 0 once they have ended.
pub(crate) fn resident_bytes(processes: &[u32]) -> u64 {
    let pages: u64 = processes.iter().filter_map(|&pid| resident_pages(pid)).sum();
    pages * rustix::param::page_size() as u64
}

fn resident_pages(pid: u32) -> Option<u64> {
    pages_in(&fs::read_to_string(format!("/proc/{pid}/statm")).ok()?)
}

/// Resident pages in the text of a `statm` file.
fn pages_in(statm: &str) -> Option<u64> {
    statm.split(' ').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_number_is_what_is_resident() {
        assert_eq!(pages_in("1414 435 300 12 0 80 0\n"), Some(435));
        assert_eq!(pages_in(""), None);
    }
}
