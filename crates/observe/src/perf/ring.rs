//! The ring that the kernel writes records to, and we read them from.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys::bindings::perf_event_mmap_page;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::event::Event;
use super::record::{Record, parse};

/// Bytes of a record's header: its kind, what it is about, its size.
const HEADER: usize = 8;

/// A ring, mapped.
pub(crate) struct Ring {
    /// One page that says how far each side is, and then the records.
    memory: NonNull<u8>,
    page: usize,
    bytes: usize,
    /// A record, put together where it goes around the end.
    record: Vec<u8>,
}

impl Ring {
    /// Maps the ring of an event, of so many pages, which must be a power of two.
    pub(crate) fn map(event: &Event, pages: usize) -> io::Result<Self> {
        let page = rustix::param::page_size();
        let flags = ProtFlags::READ | ProtFlags::WRITE;
        let len = (1 + pages) * page;
        // SAFETY: a fresh mapping at an address that the kernel chooses changes nothing that is.
        let memory =
            unsafe { mmap(std::ptr::null_mut(), len, flags, MapFlags::SHARED, event.fd(), 0) }?;
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { memory, page, bytes: pages * page, record: Vec::new() })
    }

    /// Gives every record that has come to `take`.
    pub(crate) fn drain(&mut self, take: &mut dyn FnMut(Record<'_>)) {
        let head = {
            // Acquire pairs with the kernel's barrier between writing records and the head.
            self.end(std::mem::offset_of!(perf_event_mmap_page, data_head)).load(Ordering::Acquire)
        };
        let tail_at = std::mem::offset_of!(perf_event_mmap_page, data_tail);
        let mut tail = self.end(tail_at).load(Ordering::Relaxed);
        while head - tail >= HEADER as u64 {
            self.copy(tail, HEADER);
            let header: [u8; HEADER] = self.record[..].try_into().unwrap_or_default();
            let kind = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
            let size = usize::from(u16::from_ne_bytes([header[6], header[7]]));
            if size < HEADER || size as u64 > head - tail {
                break;
            }
            self.copy(tail + HEADER as u64, size - HEADER);
            if let Some(record) = parse(kind, &self.record) {
                take(record);
            }
            tail += size as u64;
        }
        // Release: the kernel may write over what has been read, and over no more.
        self.end(tail_at).store(tail, Ordering::Release);
    }

    /// How far a side is.
    fn end(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the first page of the mapping, which lives as long as `self`, has an aligned
        // 64-bit word there, and both sides use it as an atomic.
        unsafe { self.memory.byte_add(offset).cast::<AtomicU64>().as_ref() }
    }

    /// Copies bytes of the ring, which goes around its end.
    fn copy(&mut self, from: u64, len: usize) {
        self.record.clear();
        let mut at = from as usize % self.bytes;
        let mut left = len;
        while left > 0 {
            let part = left.min(self.bytes - at);
            // SAFETY: `at + part` is within the ring, which begins after the first page; the
            // kernel does not write between tail and head, where these bytes are.
            let bytes = unsafe {
                std::slice::from_raw_parts(self.memory.byte_add(self.page + at).as_ptr(), part)
            };
            self.record.extend_from_slice(bytes);
            at = 0;
            left -= part;
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that was made, and nothing that was read from it is left.
        let unmapped = unsafe { munmap(self.memory.as_ptr().cast(), self.page + self.bytes) };
        debug_assert!(unmapped.is_ok());
    }
}
