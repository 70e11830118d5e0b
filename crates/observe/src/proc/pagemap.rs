//! `/proc/PID/pagemap`: which pages of a process are in memory.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Bytes of a page that an entry is for.
pub(crate) const PAGE: u64 = 4096;

/// Bytes of an entry, and the bit in it that says that the page is there.
const ENTRY: u64 = 8;
const PRESENT: u64 = 1 << 63;

/// Entries that are read at once.
const AT_ONCE: usize = 8192;

/// Opens the file of a process.
pub(crate) fn open(pid: u32) -> Option<File> {
    File::open(format!("/proc/{pid}/pagemap")).ok()
}

/// How many pages of these addresses, which begin at a page, are in memory; nothing if that may not
/// be read.
pub(crate) fn present_pages(pagemap: &File, addresses: &Range<u64>) -> Option<u64> {
    let mut left = (addresses.end - addresses.start).div_ceil(PAGE);
    let mut at = addresses.start / PAGE * ENTRY;
    let mut entries = vec![0; AT_ONCE.min(left as usize) * ENTRY as usize];
    let mut present = 0;
    while left > 0 {
        let count = left.min(AT_ONCE as u64);
        let bytes = &mut entries[..(count * ENTRY) as usize];
        pagemap.read_exact_at(bytes, at).ok()?;
        let (words, _) = bytes.as_chunks::<{ ENTRY as usize }>();
        let is_there = |word: &&[u8; 8]| u64::from_ne_bytes(**word) & PRESENT != 0;
        present += words.iter().filter(is_there).count() as u64;
        (left, at) = (left - count, at + count * ENTRY);
    }
    Some(present)
}

/// Whether the page of an address is in memory; nothing if that may not be read.
pub(crate) fn is_present(pid: u32, address: u64) -> Option<bool> {
    let begin = address - address % PAGE;
    Some(present_pages(&open(pid)?, &(begin..begin + PAGE))? > 0)
}

/// Bytes of these addresses that are in memory.
pub(crate) fn resident_bytes(pid: u32, addresses: &Range<u64>) -> Option<u64> {
    Some(present_pages(&open(pid)?, addresses)? * PAGE)
}
