//! Touching memory before a run, so that no page of the run's is new to the machine.
//!
//! A virtual machine that gives free memory back to its host has to be given it again, which takes
//! several times as long as the page fault itself and is paid by whoever happens to come first.
//! What was touched a moment ago is still there, for all alike.

use std::hint::black_box;

/// Touched at once. The C library maps and unmaps as much by itself, so that none stays.
const PIECE: usize = 64 << 20;

/// Touches so many bytes of memory, or as many as a limit leaves, and gives them back. The caller
/// knows that the machine has them.
pub(crate) fn touch(bytes: u64) {
    let piece = || {
        let mut piece = Vec::new();
        piece.try_reserve_exact(PIECE).ok()?;
        piece.resize(PIECE, 1_u8);
        Some(piece)
    };
    let pieces = bytes.div_ceil(PIECE as u64);
    // All at the same time: one after the other would be the same pages again and again.
    let touched: Vec<Vec<u8>> = (0..pieces).map_while(|_| piece()).collect();
    black_box(&touched);
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Resident memory of the process at the peak, or now.
    fn resident(field: &str) -> u64 {
        let status = fs::read_to_string("/proc/self/status").expect("there is a procfs");
        let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("a field");
        let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
        kib << 10
    }

    #[test]
    fn as_much_as_is_asked_for_is_resident_for_a_moment_and_is_given_back() {
        // More than all other tests have, which may run at the same time.
        let bytes = 6 * PIECE as u64;
        assert!(resident("VmHWM:") < bytes);
        touch(bytes - 1);
        assert!(resident("VmHWM:") >= bytes);
        assert!(resident("VmRSS:") < bytes / 2);
    }
}
