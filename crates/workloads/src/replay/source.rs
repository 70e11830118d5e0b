//! The script, mapped from its file. It must not know how steps are performed.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::slice;

use freehold_trace::script::{self, HEADER, Header, SLICE, STEP, Step, Thread};

use super::Error;

/// A script.
pub(super) struct Source {
    start: NonNull<u8>,
    len: usize,
    header: Header,
}

// SAFETY: the mapping is only ever read.
unsafe impl Sync for Source {}

impl Source {
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let (start, len) = map(path).map_err(Error::Read)?;
        let mut source = Self { start, len, header: Header::default() };
        source.header = Header::read(source.bytes()).ok_or(Error::Damaged)?;
        let steps = source.header.steps;
        let is_sound = |thread: Thread| {
            thread.slice < source.header.slices
                && thread.first.checked_add(thread.steps).is_some_and(|end| end <= steps)
        };
        let are_sound = (0..source.threads()).all(|number| is_sound(source.thread(number)));
        if are_sound { Ok(source) } else { Err(Error::Damaged) }
    }

    pub(super) fn header(&self) -> &Header {
        &self.header
    }

    pub(super) fn threads(&self) -> usize {
        self.header.threads as usize
    }

    /// A thread; they are in the order of their first slices.
    pub(super) fn thread(&self, number: usize) -> Thread {
        let at = self.header.threads_at() as usize + number * script::THREAD;
        Thread::read(&self.bytes()[at..]).unwrap_or_default()
    }

    /// How many threads take part in a slice.
    pub(super) fn slice(&self, number: usize) -> u32 {
        let at = self.header.slices_at() as usize + number * SLICE;
        let count = self.bytes()[at..].first_chunk().copied();
        u32::from_le_bytes(count.unwrap_or_default())
    }

    /// The steps of a thread, as they are in the file.
    pub(super) fn steps(&self, thread: &Thread) -> &[[u8; STEP]] {
        let (steps, _) = self.bytes()[self.header.steps_at() as usize..].as_chunks();
        &steps[thread.first as usize..(thread.first + thread.steps) as usize]
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: mapped until `drop`; the file is ours, and nobody writes to it.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

fn map(path: &Path) -> io::Result<(NonNull<u8>, usize)> {
    let file = File::open(path)?;
    let len = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
    if len < HEADER {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    // SAFETY: a mapping at an address of the kernel's choice replaces nothing.
    let start = unsafe {
        libc::mmap(ptr::null_mut(), len, libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd(), 0)
    };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::InvalidData)?;
    Ok((start, len))
}

impl Drop for Source {
    fn drop(&mut self) {
        // SAFETY: the range is what was mapped, and no borrow of it outlives `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// Reads a step; `None` if it is damaged.
#[inline]
pub(super) fn read(bytes: &[u8; STEP]) -> Option<Step> {
    Step::read(bytes)
}
