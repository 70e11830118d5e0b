//! The memory of this process, as the kernel accounts it. Read into a buffer on the stack, so
//! that reading never calls `malloc`. It must not know what is measured.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::str;
use std::thread;
use std::time::Duration;

const KIB: u64 = 1024;

/// Larger than any of the files read here.
const BUFFER: usize = 8192;

/// Resident memory at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Resident {
    /// All of it.
    pub rss_bytes: u64,
    /// The anonymous part.
    pub anonymous_bytes: u64,
    /// The part given back lazily (`MADV_FREE`).
    pub lazy_free_bytes: u64,
    /// The part in transparent huge pages.
    pub huge_bytes: u64,
    /// Swapped out.
    pub swap_bytes: u64,
}

/// The high-water marks of this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Peaks {
    /// Resident memory.
    pub rss_bytes: u64,
    /// Address space.
    pub virtual_bytes: u64,
}

/// Reads resident memory from `smaps_rollup`, which walks the page tables and so is exact; the
/// cheaper counters may lag by some pages a processor. Falls back on those where it is missing.
pub fn now() -> Resident {
    let mut buffer = [0; BUFFER];
    match read_file("/proc/self/smaps_rollup", &mut buffer) {
        Some(text) => from_rollup(text),
        None => read_file("/proc/self/status", &mut buffer).map(from_status).unwrap_or_default(),
    }
}

/// Reads resident memory after a time in which nothing happens; not at all without such a time.
pub(crate) fn after(idle: Duration) -> Option<Resident> {
    if idle.is_zero() {
        return None;
    }
    thread::sleep(idle);
    Some(now())
}

/// Reads the high-water marks.
pub fn peaks() -> Peaks {
    let mut buffer = [0; BUFFER];
    let Some(text) = read_file("/proc/self/status", &mut buffer) else {
        return Peaks::default();
    };
    Peaks { rss_bytes: field(text, "VmHWM:"), virtual_bytes: field(text, "VmPeak:") }
}

/// Reads the size of the address space.
pub(crate) fn virtual_bytes() -> u64 {
    let mut buffer = [0; BUFFER];
    read_file("/proc/self/status", &mut buffer).map_or(0, |text| field(text, "VmSize:"))
}

/// Reads resident memory again and again at the least cost: one system call, no page-table walk.
pub(crate) struct Quick {
    statm: Option<File>,
    page_bytes: u64,
}

impl Quick {
    pub(crate) fn open() -> Self {
        // SAFETY: `sysconf` has no preconditions.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let page_bytes = u64::try_from(page_bytes).unwrap_or(4 * KIB);
        Self { statm: File::open("/proc/self/statm").ok(), page_bytes }
    }

    /// Resident bytes; zero where the kernel does not say.
    pub(crate) fn rss_bytes(&self) -> u64 {
        self.pages()[1] * self.page_bytes
    }

    /// Resident bytes that are not backed by a file, and not shared.
    pub(crate) fn anonymous_bytes(&self) -> u64 {
        let [_, resident, shared] = self.pages();
        resident.saturating_sub(shared) * self.page_bytes
    }

    /// The first fields of `statm`: the address space, resident pages, and those of them that are
    /// backed by a file or shared.
    fn pages(&self) -> [u64; 3] {
        let mut buffer = [0; 256];
        let read = self.statm.as_ref().and_then(|file| file.read_at(&mut buffer, 0).ok());
        let text = read.and_then(|len| str::from_utf8(&buffer[..len]).ok()).unwrap_or_default();
        let mut fields = text.split_ascii_whitespace().map(|field| field.parse().unwrap_or(0));
        [0; 3].map(|_: u64| fields.next().unwrap_or(0))
    }
}

fn read_file<'a>(path: &str, buffer: &'a mut [u8; BUFFER]) -> Option<&'a str> {
    let mut file = File::open(path).ok()?;
    let mut len = 0;
    while len < buffer.len() {
        match file.read(&mut buffer[len..]).ok()? {
            0 => break,
            read => len += read,
        }
    }
    str::from_utf8(&buffer[..len]).ok()
}

fn from_rollup(text: &str) -> Resident {
    Resident {
        rss_bytes: field(text, "Rss:"),
        anonymous_bytes: field(text, "Anonymous:"),
        lazy_free_bytes: field(text, "LazyFree:"),
        huge_bytes: field(text, "AnonHugePages:"),
        swap_bytes: field(text, "Swap:"),
    }
}

fn from_status(text: &str) -> Resident {
    Resident {
        rss_bytes: field(text, "VmRSS:"),
        anonymous_bytes: field(text, "RssAnon:"),
        swap_bytes: field(text, "VmSwap:"),
        ..Resident::default()
    }
}

/// The value of the line that starts with `name`, which the kernel writes in KiB.
fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let value = line.and_then(|line| line.split_ascii_whitespace().next()?.parse::<u64>().ok());
    value.unwrap_or(0) * KIB
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rollup_is_read_field_by_field_and_swap_is_not_swappss() {
        let text = "00400000-7ffd Rollup\nRss:  12 kB\nAnonymous: 8 kB\nLazyFree: 4 kB\n\
                    AnonHugePages: 0 kB\nSwap: 3 kB\nSwapPss: 99 kB\n";
        let resident = from_rollup(text);
        assert_eq!(resident.rss_bytes, 12 * KIB);
        assert_eq!(resident.anonymous_bytes, 8 * KIB);
        assert_eq!(resident.lazy_free_bytes, 4 * KIB);
        assert_eq!(resident.swap_bytes, 3 * KIB);
    }

    #[test]
    fn this_process_has_memory_and_never_had_less_at_its_peak() {
        let now = now();
        assert!(now.rss_bytes > 0);
        assert!(Quick::open().rss_bytes() > 0);
        assert!(peaks().virtual_bytes >= peaks().rss_bytes);
    }
}
