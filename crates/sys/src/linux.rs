//! [`System`] by Linux system calls. Sources: `mmap(2)`, `mremap(2)`, `madvise(2)`, `prlimit(2)`,
//! `mincore(2)`, `sched_getaffinity(2)`, `clock_gettime(2)`, `getauxval(3)`, `proc(5)`,
//! `membarrier(2)`, `process_vm_readv(2)`, `PR_GET_SECCOMP(2const)`.

use crate::guard::{Guards, discard};
use crate::move_pages;
use crate::process::{self, File};
use crate::processor;
use crate::syscall::{self, failed, number};
use crate::{HugePages, System};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

const PROT_NONE: usize = 0;
const PROT_READ_WRITE: usize = 3;
const MAP_PRIVATE_ANONYMOUS_NORESERVE: usize = 0x02 | 0x20 | 0x4000;
const MAP_PRIVATE_ANONYMOUS: usize = 0x02 | 0x20;
const MADV_HUGEPAGE: usize = 14;
const MADV_NOHUGEPAGE: usize = 15;
const MADV_POPULATE_WRITE: usize = 23;
const MREMAP_MAYMOVE: usize = 1;
const RLIMIT_AS: usize = 9;
const CLOCK_THREAD_CPUTIME_ID: usize = 3;
const CLOCK_MONOTONIC_COARSE: usize = 6;
const AT_PAGESZ: u64 = 6;
const MEMBARRIER_PRIVATE_EXPEDITED: usize = 1 << 3;
const MEMBARRIER_REGISTER_PRIVATE_EXPEDITED: usize = 1 << 4;
const PR_GET_SECCOMP: usize = 21;
const EPERM: isize = 1;
const LARGEST_PAGE: usize = 64 * 1024;
/// What [`System::resident`] can be asked of: a byte of the stack for each.
const MOST_PAGES_ASKED: usize = 512;

/// The running kernel.
pub struct Linux {
    page_size: AtomicUsize,
    /// A [`HugePages`].
    huge_pages: AtomicU8,
    guards: Guards,
}

impl Linux {
    /// The kernel; its page size is asked for when it is first needed.
    pub const fn new() -> Self {
        Self {
            page_size: AtomicUsize::new(0),
            huge_pages: AtomicU8::new(HugePages::OnRequest as u8),
            guards: Guards::new(),
        }
    }

    /// Makes a committed range inaccessible, and returns its memory to the system. Where the system
    /// has too many mappings to keep, the range may stay as it is.
    ///
    /// # Safety
    /// The range is the caller's.
    pub unsafe fn withdraw(&self, at: usize, bytes: usize) {
        // SAFETY: the caller's range, which nobody uses.
        unsafe {
            syscall::call(number::MPROTECT, [at, bytes, PROT_NONE, 0, 0, 0]);
            self.purge(at, bytes);
        }
    }

    fn anonymous(bytes: usize, protection: usize, flags: usize) -> Option<usize> {
        // SAFETY: a new private mapping at a place of the kernel's choice disturbs nothing.
        let at =
            unsafe { syscall::call(number::MMAP, [0, bytes, protection, flags, usize::MAX, 0]) };
        (!failed(at)).then_some(at as usize)
    }
}

impl Default for Linux {
    fn default() -> Self {
        Self::new()
    }
}

/// The page size, where the architecture has several: from the auxiliary vector, read from `/proc`
/// so that no libc state is needed; where `/proc` is missing, found by asking for the smallest unit
/// that `mprotect` accepts.
fn find_page_size() -> usize {
    let mut vector = [0_u64; 64];
    if let Some(file) = File::open(c"/proc/self/auxv") {
        // SAFETY: a u64 array may be viewed and written as bytes; the view ends with this block.
        let bytes = unsafe {
            core::slice::from_raw_parts_mut(vector.as_mut_ptr().cast::<u8>(), size_of_val(&vector))
        };
        let words = file.read(bytes) / 8;
        for pair in vector[..words].chunks_exact(2) {
            if pair[0] == AT_PAGESZ {
                return pair[1] as usize;
            }
        }
    }
    let Some(probe) = Linux::anonymous(2 * LARGEST_PAGE, PROT_NONE, MAP_PRIVATE_ANONYMOUS) else {
        return LARGEST_PAGE;
    };
    let mut size = 4096;
    while size < LARGEST_PAGE {
        // SAFETY: changes the protection of a mapping that only this function knows.
        let result =
            unsafe { syscall::call(number::MPROTECT, [probe + size, size, PROT_NONE, 0, 0, 0]) };
        if !failed(result) {
            break;
        }
        size *= 2;
    }
    // SAFETY: the mapping made above, whole.
    unsafe { syscall::call(number::MUNMAP, [probe, 2 * LARGEST_PAGE, 0, 0, 0, 0]) };
    size
}

/// The setting of the running kernel; never, where there is none. Source: its
/// `admin-guide/mm/transhuge.rst`.
fn huge_pages_setting() -> HugePages {
    let mut text = [0_u8; 64];
    let file = File::open(c"/sys/kernel/mm/transparent_hugepage/enabled");
    let n = file.map_or(0, |file| file.read(&mut text));
    // The value in force stands in brackets.
    match text[..n].split(|&c| c == b'[').nth(1) {
        Some(value) if value.starts_with(b"always") => HugePages::Always,
        Some(value) if value.starts_with(b"madvise") => HugePages::OnRequest,
        _ => HugePages::Never,
    }
}

/// Whether a filter of system calls holds for this thread. It may end the process for a call that
/// it does not know, and few programs need those for which this is asked.
fn is_filtered() -> bool {
    // SAFETY: takes no pointers.
    unsafe { syscall::call(number::PRCTL, [PR_GET_SECCOMP, 0, 0, 0, 0, 0]) != 0 }
}

/// The bytes of address space in use, from `/proc/self/statm` (its first field, in pages).
fn address_space_used(page_size: usize) -> usize {
    let mut text = [0_u8; 64];
    let Some(file) = File::open(c"/proc/self/statm") else {
        return 0;
    };
    let n = file.read(&mut text);
    let digits = text[..n].iter().take_while(|c| c.is_ascii_digit());
    digits.fold(0_usize, |sum, c| sum * 10 + usize::from(c - b'0')) * page_size
}

/// What a clock shows: seconds and nanoseconds.
fn time(clock: usize) -> [u64; 2] {
    let mut time = [0_u64; 2];
    // SAFETY: the kernel fills a timespec, two 64-bit words on both architectures.
    unsafe {
        syscall::call(number::CLOCK_GETTIME, [clock, time.as_mut_ptr() as usize, 0, 0, 0, 0]);
    }
    time
}

impl System for Linux {
    fn processor(&self) -> Option<usize> {
        processor::number()
    }

    fn page_size(&self) -> usize {
        if cfg!(target_arch = "x86_64") {
            return 4096;
        }
        // Relaxed: the value is the same whoever computes it, and it stands for nothing else.
        let known = self.page_size.load(Ordering::Relaxed);
        if known != 0 {
            return known;
        }
        let found = find_page_size();
        self.page_size.store(found, Ordering::Relaxed);
        found
    }

    fn reserve(&self, bytes: usize, align: usize) -> Option<usize> {
        let slack = if align <= self.page_size() { 0 } else { align };
        let total = bytes.checked_add(slack)?;
        let at = Self::anonymous(total, PROT_NONE, MAP_PRIVATE_ANONYMOUS_NORESERVE)?;
        let start = at.next_multiple_of(align);
        let (before, after) = (start - at, at + total - (start + bytes));
        // SAFETY: the slack before and after the aligned part is ours and nobody knows of it.
        unsafe {
            if before > 0 {
                self.unmap(at, before);
            }
            if after > 0 {
                self.unmap(start + bytes, after);
            }
        }
        Some(start)
    }

    unsafe fn unmap(&self, at: usize, bytes: usize) {
        // SAFETY: the caller owns the range and gives it up.
        let result = unsafe { syscall::call(number::MUNMAP, [at, bytes, 0, 0, 0, 0]) };
        if failed(result) {
            // Where a process has as many mappings as it may, none can be divided. Then the memory
            // at least goes back, and nothing but address space is lost.
            // SAFETY: as above.
            unsafe { self.purge(at, bytes) };
        }
    }

    unsafe fn commit(&self, at: usize, bytes: usize) -> bool {
        // SAFETY: the caller owns the range; more rights harm nobody.
        let result =
            unsafe { syscall::call(number::MPROTECT, [at, bytes, PROT_READ_WRITE, 0, 0, 0]) };
        !failed(result)
    }

    unsafe fn purge(&self, at: usize, bytes: usize) -> bool {
        // SAFETY: the caller owns the range and does not mind losing its contents.
        unsafe { discard(at, bytes) }
    }

    unsafe fn guard(&self, at: usize, bytes: usize) -> bool {
        // SAFETY: the caller's promise, passed on.
        unsafe { self.guards.guard(at, bytes) }
    }

    unsafe fn unguard(&self, at: usize, bytes: usize) -> bool {
        // SAFETY: the caller's promise, passed on.
        unsafe { self.guards.unguard(at, bytes) }
    }

    unsafe fn hide(&self, at: usize, bytes: usize) -> bool {
        // SAFETY: the caller's promise, passed on.
        unsafe { self.guards.hide(at, bytes) }
    }

    unsafe fn reveal(&self, at: usize, bytes: usize) -> bool {
        // SAFETY: the caller's promise, passed on.
        unsafe { self.guards.reveal(at, bytes) }
    }

    unsafe fn forbid_huge_pages(&self, at: usize, bytes: usize) {
        // SAFETY: an advice on the caller's own range. Kernels without huge pages refuse it, which
        // is as good.
        unsafe { syscall::call(number::MADVISE, [at, bytes, MADV_NOHUGEPAGE, 0, 0, 0]) };
    }

    // The kernel tells by a file, but opening and reading it took an eighth of what a small process
    // takes more with this library. Where huge pages are everywhere, reading a byte of one maps all
    // of it, and whether that is so can be asked.
    unsafe fn find_huge_pages(&self, at: usize, bytes: usize) {
        let page = self.page_size();
        // As many pages as a page has room for the numbers of.
        let huge = page * (page / size_of::<u64>());
        let mut around = None;
        if bytes >= huge {
            // SAFETY: the caller's range, which is committed.
            unsafe { core::ptr::with_exposed_provenance::<u8>(at + huge - page).read_volatile() };
            around = self.resident(at, page);
        }
        let found = match around {
            Some(0) => HugePages::OnRequest,
            Some(_) => HugePages::Always,
            None => huge_pages_setting(),
        };
        if around.is_some_and(|bytes| bytes > 0) {
            // SAFETY: the caller's range, which holds nothing but zeros.
            unsafe { self.purge(at, bytes) };
        }
        // Relaxed here and below: it stands for nothing else.
        self.huge_pages.store(found as u8, Ordering::Relaxed);
    }

    fn huge_pages(&self) -> HugePages {
        let all = [HugePages::Never, HugePages::OnRequest, HugePages::Always];
        all[usize::from(self.huge_pages.load(Ordering::Relaxed))]
    }

    unsafe fn allow_huge_pages(&self, at: usize, bytes: usize) -> bool {
        // SAFETY: an advice on the caller's own range.
        let result = unsafe { syscall::call(number::MADVISE, [at, bytes, MADV_HUGEPAGE, 0, 0, 0]) };
        !failed(result)
    }

    unsafe fn populate(&self, at: usize, bytes: usize) -> bool {
        // SAFETY: as if each page were written to with what it holds (Linux 5.14; older kernels
        // refuse).
        let result =
            unsafe { syscall::call(number::MADVISE, [at, bytes, MADV_POPULATE_WRITE, 0, 0, 0]) };
        !failed(result)
    }

    fn resident(&self, at: usize, bytes: usize) -> Option<usize> {
        let mut pages = [0_u8; MOST_PAGES_ASKED];
        let count = bytes / self.page_size();
        if count > pages.len() || is_filtered() {
            return None;
        }
        let arguments = [at, bytes, pages.as_mut_ptr() as usize, 0, 0, 0];
        // SAFETY: the kernel writes a byte for each page, of which there are no more than bytes.
        let result = unsafe { syscall::call(number::MINCORE, arguments) };
        // The other bits of each byte are reserved.
        let resident = pages[..count].iter().filter(|&page| page & 1 != 0).count();
        (!failed(result)).then_some(resident * self.page_size())
    }

    fn map(&self, bytes: usize) -> Option<usize> {
        Self::anonymous(bytes, PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS)
    }

    unsafe fn remap(&self, at: usize, old_bytes: usize, new_bytes: usize) -> Option<usize> {
        // SAFETY: the caller owns the whole mapping and knows that it may move.
        let result = unsafe {
            syscall::call(number::MREMAP, [at, old_bytes, new_bytes, MREMAP_MAYMOVE, 0, 0])
        };
        (!failed(result)).then_some(result as usize)
    }

    unsafe fn move_pages(&self, from: usize, to: usize, bytes: usize) -> bool {
        // SAFETY: the caller's promise, passed on.
        unsafe { move_pages::move_pages(from, to, bytes) }
    }

    fn barrier(&self) -> bool {
        if is_filtered() {
            return false;
        }
        // SAFETY: takes no pointers.
        let ask = |what| unsafe { syscall::call(number::MEMBARRIER, [what, 0, 0, 0, 0, 0]) };
        let first = ask(MEMBARRIER_PRIVATE_EXPEDITED);
        // Whoever wants it has to say so once, before.
        first == 0
            || first == -EPERM
                && ask(MEMBARRIER_REGISTER_PRIVATE_EXPEDITED) == 0
                && ask(MEMBARRIER_PRIVATE_EXPEDITED) == 0
    }

    fn peek(&self, at: usize) -> Option<u8> {
        let mut byte = 0_u8;
        let (to, from) = ([&raw mut byte as usize, 1], [at, 1]);
        let process = process::process_id() as usize;
        let arguments = [process, to.as_ptr() as usize, 1, from.as_ptr() as usize, 1, 0];
        // SAFETY: the kernel writes one byte, where there is room for it, and fails if the other
        // address is none.
        let read = unsafe { syscall::call(number::PROCESS_VM_READV, arguments) };
        (read == 1).then_some(byte)
    }

    fn address_space_left(&self) -> usize {
        let mut limit = [0_u64; 2];
        // SAFETY: process 0 is this one; the kernel fills two u64.
        let result = unsafe {
            syscall::call(number::PRLIMIT64, [0, RLIMIT_AS, 0, limit.as_mut_ptr() as usize, 0, 0])
        };
        if failed(result) || limit[0] == u64::MAX {
            return usize::MAX;
        }
        (limit[0] as usize).saturating_sub(address_space_used(self.page_size()))
    }

    fn processors(&self) -> usize {
        let mut mask = [MaybeUninit::<u64>::uninit(); 128];
        // SAFETY: the kernel fills at most the 1024 bytes it is told of.
        let bytes = unsafe {
            syscall::call(
                number::SCHED_GETAFFINITY,
                [0, size_of_val(&mask), mask.as_mut_ptr() as usize, 0, 0, 0],
            )
        };
        if failed(bytes) {
            return 1;
        }
        let filled = mask.iter().take(bytes as usize / size_of::<u64>());
        // SAFETY: the kernel says how many bytes it has filled, a multiple of a word's.
        filled.map(|word| unsafe { word.assume_init() }.count_ones() as usize).sum::<usize>().max(1)
    }

    fn thread_nanoseconds(&self) -> u64 {
        let [seconds, nanoseconds] = time(CLOCK_THREAD_CPUTIME_ID);
        seconds * 1_000_000_000 + nanoseconds
    }

    fn milliseconds(&self) -> u64 {
        let [seconds, nanoseconds] = time(CLOCK_MONOTONIC_COARSE);
        seconds * 1000 + nanoseconds / 1_000_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_size_is_what_the_c_library_says() {
        let text = std::process::Command::new("getconf").arg("PAGESIZE").output().unwrap().stdout;
        let expected: usize = std::str::from_utf8(&text).unwrap().trim().parse().unwrap();
        assert_eq!(Linux::new().page_size(), expected);
    }

    #[test]
    fn reservations_are_aligned_and_can_be_committed_and_purged() {
        let system = Linux::new();
        let bytes = 4 << 20;
        let at = system.reserve(bytes, 2 << 20).unwrap();
        assert_eq!(at % (2 << 20), 0);
        let cell = at as *mut u64;
        // SAFETY: the range is this test's own, committed before it is touched.
        unsafe {
            assert!(system.commit(at, bytes));
            cell.write(7);
            assert!(system.purge(at, bytes));
            assert_eq!(cell.read(), 0);
            system.unmap(at, bytes);
        }
    }

    #[test]
    fn memory_that_the_program_has_locked_is_purged_as_well() {
        unsafe extern "C" {
            /// `mlock(2)`.
            fn mlock(at: *const u8, bytes: usize) -> core::ffi::c_int;
        }
        let system = Linux::new();
        let page = system.page_size();
        let at = system.map(page).unwrap();
        let cell = at as *mut u64;
        // SAFETY: the page is this test's own.
        unsafe {
            cell.write(7);
            if mlock(at as *const u8, page) != 0 {
                std::eprintln!("skipped: this user may lock no memory");
            } else if failed(syscall::call(number::MADVISE, [at, 0, 24, 0, 0, 0])) {
                std::eprintln!("skipped: before Linux 5.18 what is locked stays");
            } else {
                assert!(system.purge(at, page));
                assert_eq!(system.resident(at, page), Some(0));
                assert_eq!(cell.read(), 0);
            }
            system.unmap(at, page);
        }
    }

    #[test]
    fn what_was_written_to_is_resident_and_nothing_else() {
        let system = Linux::new();
        let page = system.page_size();
        let at = system.reserve(513 * page, page).unwrap();
        // SAFETY: the reservation just made, which nobody else uses.
        unsafe {
            assert!(system.commit(at, 513 * page));
            system.forbid_huge_pages(at, 513 * page);
            assert_eq!(system.resident(at, 512 * page), Some(0));
            for n in [0, 7, 511] {
                (at as *mut u8).add(n * page).write(1);
            }
            assert_eq!(system.resident(at, 512 * page), Some(3 * page));
            assert_eq!(system.resident(at + page, 6 * page), Some(0));
            assert_eq!(system.resident(at, 513 * page), None, "more than there is room for");
            system.unmap(at, 513 * page);
        }
    }

    #[test]
    fn when_there_are_huge_pages_is_found_as_the_kernel_tells_it() {
        const HUGE: usize = 2 << 20;
        let system = Linux::new();
        let told = huge_pages_setting();
        assert_eq!(system.huge_pages(), HugePages::OnRequest, "nothing is known yet");
        let at = system.reserve(2 * HUGE, HUGE).unwrap();
        // SAFETY: the reservation just made, which nobody else uses.
        unsafe {
            assert!(system.commit(at, 2 * HUGE));
            system.find_huge_pages(at, HUGE);
            let bytes = core::slice::from_raw_parts(at as *const u8, HUGE);
            assert!(bytes.iter().all(|&byte| byte == 0));
            system.unmap(at, 2 * HUGE);
        }
        // What nobody is given on request looks the same, unless it was read in the file.
        let on_request = HugePages::OnRequest;
        let found = system.huge_pages();
        assert!(found == told || (told, found) == (HugePages::Never, on_request), "{found:?}");
        std::eprintln!("told {told:?}, found {found:?}");
    }

    #[test]
    fn a_byte_is_read_where_there_is_one_and_nothing_where_there_is_none() {
        let system = Linux::new();
        let at = system.reserve(2 << 20, 4096).unwrap();
        // SAFETY: the range is this test's own.
        unsafe {
            assert!(system.commit(at, 4096));
            (at as *mut u8).write(7);
        }
        if system.peek(at).is_none() {
            std::eprintln!("skipped: no process_vm_readv(2) here");
            return;
        }
        assert_eq!(
            (system.peek(at), system.peek(at + (1 << 20)), system.peek(0)),
            (Some(7), None, None)
        );
    }

    #[test]
    fn processors_agree_with_the_standard_library() {
        let expected = std::thread::available_parallelism().unwrap().get();
        assert!(Linux::new().processors() >= expected);
    }
}
