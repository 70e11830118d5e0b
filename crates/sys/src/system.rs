//! The contract between the allocator and the operating system.
//!
//! Addresses and lengths are in bytes and multiples of [`System::page_size`], and no range is
//! empty, unless a method says otherwise. No method blocks for longer than the kernel needs to
//! change a mapping.

/// When the system backs memory with huge pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HugePages {
    /// Not at all.
    Never,
    /// Where [`System::allow_huge_pages`] was called, or not even there.
    OnRequest,
    /// Wherever [`System::forbid_huge_pages`] was not called.
    Always,
}

/// What the allocator needs from the operating system.
///
/// The heap is generic over this trait so that tests can count the calls and make any of them fail.
pub trait System: Sync {
    /// The size of a page in bytes: a power of two from 4 KiB to 64 KiB, the same for the whole
    /// run.
    fn page_size(&self) -> usize;

    /// Reserves `bytes` of address space aligned to `align` (a power of two), without any right to
    /// touch it. Costs no memory and is not counted against overcommit limits.
    fn reserve(&self, bytes: usize, align: usize) -> Option<usize>;

    /// Gives back address space obtained from [`System::reserve`] or [`System::map`].
    ///
    /// # Safety
    /// The range belongs to the caller and nothing refers to it any longer.
    unsafe fn unmap(&self, at: usize, bytes: usize);

    /// Makes reserved space readable and writable; its bytes are zero. Returns whether it
    /// succeeded.
    ///
    /// # Safety
    /// The range lies inside a reservation of the caller's.
    unsafe fn commit(&self, at: usize, bytes: usize) -> bool;

    /// Returns the memory behind a committed range to the system at once. Afterwards the bytes are
    /// zero and the range can be used again without a further call. Returns whether it succeeded:
    /// locked memory, for instance, keeps its contents before Linux 5.18.
    ///
    /// # Safety
    /// The range is committed and nobody reads or writes it during the call.
    unsafe fn purge(&self, at: usize, bytes: usize) -> bool;

    /// Drops the contents of a committed range, which are zero when it is accessible again, and
    /// makes it inaccessible if that can be had. Returns whether it could.
    ///
    /// # Safety
    /// The range is accessible, and the caller's.
    unsafe fn guard(&self, at: usize, bytes: usize) -> bool;

    /// Makes a range accessible that [`System::guard`] was told of, or a part of one. Returns
    /// whether it is.
    ///
    /// # Safety
    /// The range is the caller's.
    unsafe fn unguard(&self, at: usize, bytes: usize) -> bool;

    /// Makes a range inaccessible, and keeps what is in it. Returns whether it is: of ranges of
    /// either kind there can be so many only.
    ///
    /// # Safety
    /// The range is accessible, of whole pages, and nobody uses it.
    unsafe fn hide(&self, at: usize, bytes: usize) -> bool;

    /// Makes a range accessible that [`System::hide`] was told of, with what was in it. Returns
    /// whether it is.
    ///
    /// # Safety
    /// The range was hidden, and is the caller's.
    unsafe fn reveal(&self, at: usize, bytes: usize) -> bool;

    /// Asks that a range never be backed by huge pages.
    ///
    /// # Safety
    /// The range lies inside a reservation or mapping of the caller's.
    unsafe fn forbid_huge_pages(&self, at: usize, bytes: usize);

    /// Finds out when the system backs memory with huge pages, by a range that holds zeros
    /// afterwards as before. To be done early: it may open a file, for which a filter of system
    /// calls may end the process later.
    ///
    /// # Safety
    /// The range is committed, nobody has touched it, and it is the caller's. It begins at a
    /// multiple of its length, which is a power of two.
    unsafe fn find_huge_pages(&self, at: usize, bytes: usize);

    /// What [`System::find_huge_pages`] has found; before that, on request.
    fn huge_pages(&self) -> HugePages;

    /// Allows that a range be backed by huge pages. Returns whether the system knows of such.
    ///
    /// # Safety
    /// The range lies inside a reservation or mapping of the caller's.
    unsafe fn allow_huge_pages(&self, at: usize, bytes: usize) -> bool;

    /// Makes the memory of a committed range resident; its contents stay. Returns whether it
    /// succeeded: if not, part of it may be resident.
    ///
    /// # Safety
    /// The range is committed, and the caller's.
    unsafe fn populate(&self, at: usize, bytes: usize) -> bool;

    /// How many bytes of a committed range, of 512 pages at most, are resident. `None` if that
    /// cannot be had, or cannot be asked for without danger.
    fn resident(&self, at: usize, bytes: usize) -> Option<usize>;

    /// Maps `bytes` of zeroed, readable and writable memory outside any reservation.
    fn map(&self, bytes: usize) -> Option<usize>;

    /// Resizes a mapping made by [`System::map`], moving it if it has to. The contents up to the
    /// smaller size are kept; bytes beyond the old size are zero. On failure the old one stands.
    ///
    /// # Safety
    /// The range is a whole mapping made by [`System::map`], in use by nobody but the caller.
    unsafe fn remap(&self, at: usize, old_bytes: usize, new_bytes: usize) -> Option<usize>;

    /// Moves the pages of one committed range to another without copying them, as far as it can be
    /// done: the target then has the contents, and what the source has is undefined. Returns
    /// `false`, with nothing changed, where the kernel can move none.
    ///
    /// # Safety
    /// Both ranges are committed, do not overlap, and are in use by nobody but the caller.
    unsafe fn move_pages(&self, from: usize, to: usize, bytes: usize) -> bool;

    /// Makes every thread of the process that runs pass a barrier: what each did before it is done
    /// before what each does afterwards. Returns `false` where that cannot be had, or cannot be
    /// asked for without danger.
    fn barrier(&self) -> bool;

    /// The byte at an address, whatever is there. `None` if nothing is, or if that cannot be had.
    fn peek(&self, at: usize) -> Option<u8>;

    /// Bytes of address space the process may still map (`usize::MAX` when there is no limit).
    fn address_space_left(&self) -> usize;

    /// The number of processors this process may run on, at least 1.
    fn processors(&self) -> usize;

    /// The number of the processor that the thread is running on, if that can be told without a
    /// system call. It may be another one at the next instruction.
    fn processor(&self) -> Option<usize>;

    /// The processor time of the calling thread in nanoseconds, as precise as the system knows it.
    fn thread_nanoseconds(&self) -> u64;

    /// A monotonic clock in milliseconds, with the coarse precision that costs least.
    fn milliseconds(&self) -> u64;
}
