//! Writing records: what each call costs.
//!
//! A record is written from its end: the first byte comes last, so that a program that is killed in
//! between leaves a zero byte there, which ends the chunk.

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicU8, Ordering, compiler_fence};
use freehold_trace::file::is_sampled;
use freehold_trace::packed::{Before, Packed, is_usual_address, is_usual_size, low_bits};
use freehold_trace::record::{CODE_BITS, Function, Note, code, code_of, has_size};

use crate::process::{self, COUNTED, MANY, OFF, SAMPLED, SINGLE};
use crate::thread::{NONE_SEEN, Thread};
use crate::{clock, counting, libc};

/// How much a thread writes before it looks at the time again: what takes it about so many
/// nanoseconds, and at most so many bytes. A thread that calls rarely looks at each call.
const LOOK_EVERY: u64 = 1000;
const LONGEST_STRIDE: u64 = 256;

/// What is to be written of a call: the first byte of its record, but for lengths, and the size if
/// it allocates. Two numbers, which are passed on in registers.
#[derive(Clone, Copy)]
pub(crate) struct What {
    head: u8,
    size: u64,
}

impl What {
    #[inline(always)]
    fn allocated(code: u8, size: u64) -> Self {
        Self { head: code, size }
    }

    /// `variant` tells the forms of a function apart, 0 or 1.
    #[inline(always)]
    fn released(code: u8, variant: u8) -> Self {
        Self { head: code | variant << CODE_BITS, size: 0 }
    }

    #[inline(always)]
    fn code(self) -> u8 {
        code_of(self.head)
    }

    #[inline(always)]
    fn allocates(self) -> bool {
        has_size(self.code())
    }

    #[inline(always)]
    fn variant(self) -> u8 {
        self.head >> CODE_BITS
    }

    /// Whether a record of it can be a usual one, with a usual address.
    #[inline(always)]
    fn is_usual(self) -> bool {
        is_usual_size(self.size)
    }

    #[inline(always)]
    fn packed_as_usual(self, before: &mut Before, address: u64) -> Packed {
        if self.allocates() {
            Packed::usual_sized(self.code(), self.size, before, address)
        } else {
            Packed::usual_unsized(self.code(), self.variant(), before, address)
        }
    }

    fn packed(self, before: &mut Before, address: u64) -> Packed {
        if self.allocates() {
            Packed::sized(self.code(), self.size, before, address)
        } else {
            Packed::unsized_record(self.code(), self.variant(), before, address)
        }
    }
}

/// Records an allocation that was made.
///
/// # Safety
/// `thread` is the calling thread's, and inside.
#[inline(always)]
pub(crate) unsafe fn allocated(thread: *mut Thread, code: u8, object: *mut c_void, size: usize) {
    // SAFETY: the caller's promise.
    unsafe { write(&mut *thread, What::allocated(code, size as u64), object) }
}

/// Records that an object is about to be given up.
///
/// # Safety
/// `thread` is the calling thread's, and inside.
#[inline(always)]
pub(crate) unsafe fn released(thread: *mut Thread, code: u8, variant: u8, object: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe { write(&mut *thread, What::released(code, variant), object) }
}

#[inline(always)]
fn write(thread: &mut Thread, what: What, object: *mut c_void) {
    let address = object.addr() as u64;
    let is_usual = what.is_usual() && is_usual_address(address);
    if thread.next >= thread.pause || !is_usual || !will_do(thread, address) {
        return write_slowly(thread, what, address, None);
    }
    thread.clock += 1;
    let packed = what.packed_as_usual(&mut thread.before, address);
    // SAFETY: short of `pause`, which is not beyond `end`, there is room.
    unsafe { put(thread, packed) };
}

/// Whether the thread's clock will do for a call that concerns a usual address: nobody can have
/// been concerned with it since the thread itself was, and the clock is not behind what was
/// published.
#[inline(always)]
fn will_do(thread: &Thread, address: u64) -> bool {
    if process::published().time() == thread.seen {
        clock::is_last(thread.badge, address)
    } else {
        process::mode() == SINGLE && libc::is_single_threaded()
    }
}

/// Remembers what was published, if the clock is not behind it.
fn see(thread: &mut Thread) {
    thread.seen = process::published().see(thread.clock, MANY).unwrap_or(NONE_SEEN);
}

/// Sets the clock to the time, if it is behind.
#[inline(never)]
fn look_at_the_time(thread: &mut Thread) {
    let time = clock::publish(process::time());
    if time > thread.clock {
        // SAFETY: called with room for a record and its notes.
        unsafe { put_note(thread, &Note::clock(time - thread.clock)) };
        thread.clock = time;
    }
}

/// Writes a record of a call with an address.
///
/// # Safety
/// There is room.
#[inline(always)]
unsafe fn put(thread: &mut Thread, packed: Packed) {
    let place = thread.next;
    // SAFETY: there is room for the longest record. What is written beyond this one is zero, and
    // is written over by the next.
    unsafe {
        place.add(1).cast::<u64>().write_unaligned(packed.size.to_le());
        place.add(1 + packed.size_bytes).cast::<u64>().write_unaligned(packed.distance.to_le());
        finish(thread, packed.head, packed.len());
    }
}

/// Writes a note.
///
/// # Safety
/// There is room.
#[inline(always)]
unsafe fn put_note(thread: &mut Thread, note: &Note) {
    let [head, rest @ ..] = note.to_bytes();
    // SAFETY: there is room for the longest note. What is written beyond this one is zero, and is
    // written over by the next record.
    unsafe {
        thread.next.add(1).cast::<[u8; 15]>().write(rest);
        finish(thread, head, note.len());
    }
}

/// Writes the first byte of a record whose other bytes are there.
///
/// # Safety
/// As for the record.
#[inline(always)]
unsafe fn finish(thread: &mut Thread, head: u8, len: usize) {
    // Release: for who reads the file while the program runs, and after it was killed.
    // SAFETY: the byte is the thread's to write.
    unsafe { AtomicU8::from_ptr(thread.next) }.store(head, Ordering::Release);
    thread.next = thread.next.wrapping_add(len);
}

/// The way of a call that is anything but usual: the first of a thread, one after which the time
/// is due, one with an object that another thread had, one with an alignment, one of a process that
/// records a share.
#[cold]
#[inline(never)]
fn write_slowly(thread: &mut Thread, what: What, address: u64, before: Option<&Note>) {
    if process::mode() == COUNTED {
        return count(thread, what, address);
    }
    if !make_room(thread) {
        // The first call of a process finds out what is to be done.
        if process::mode() == COUNTED {
            count(thread, what, address);
        }
        return;
    }
    if !is_sampled(address, thread.level) && !is_second_half(thread, what) {
        return;
    }
    if matches!(process::mode(), MANY | SAMPLED) && !will_do_slowly(thread, address) {
        clock::concern(thread.badge, address);
        look_at_the_time(thread);
    }
    see(thread);
    thread.clock += 1;
    // SAFETY: there is room for a record and its notes.
    unsafe {
        if let Some(note) = before {
            put_note(thread, note);
        }
        if low_bits(address) != 0 {
            put_note(thread, &Note::low_bits(low_bits(address)));
        }
        let packed = what.packed(&mut thread.before, address);
        put(thread, packed);
    }
    if !is_usual_address(thread.before.address) {
        // The next record is not a usual one either.
        thread.pause = thread.next;
    }
}

/// Whether a record is the second of a `realloc` whose first is there: without it, the object would
/// seem to live on.
fn is_second_half(thread: &Thread, what: What) -> bool {
    let old = thread.resized;
    what.code() == code::REALLOC_TO && old != 0 && is_sampled(old, thread.level)
}

/// [`will_do`] for any address, where there is a table.
fn will_do_slowly(thread: &Thread, address: u64) -> bool {
    process::published().time() <= thread.clock
        && clock::can_be_told(thread.badge, address)
        && clock::is_last(thread.badge, address)
}

/// Counts a call rather than recording it.
fn count(thread: &mut Thread, what: What, address: u64) {
    let object = ptr::with_exposed_provenance_mut(address as usize);
    if what.allocates() {
        counting::allocated(thread, object, what.size);
    } else {
        counting::released(thread, object);
    }
}

/// An object of which it was counted that it is about to be given up is still there.
///
/// # Safety
/// `thread` is the calling thread's, and inside.
pub(crate) unsafe fn kept(thread: *mut Thread, object: *mut c_void) {
    if process::mode() == COUNTED {
        // SAFETY: the caller's promise.
        counting::allocated(unsafe { &mut *thread }, object, 0);
    }
}

/// Makes sure that there is room for a record and its notes, that the clock is not behind by much,
/// and that it is written down which share is recorded. `false` if nothing is.
fn make_room(thread: &mut Thread) -> bool {
    if !process::enter(thread) {
        return false;
    }
    if thread.next >= thread.end && !process::next_chunk(thread) {
        process::count_lost();
        return false;
    }
    if process::mode() == OFF {
        return false;
    }
    if thread.next >= thread.pause {
        look_at_the_time(thread);
        let longest = LONGEST_STRIDE.min(4 * thread.stride + 4);
        let elapsed = (thread.clock - thread.looked).max(1);
        thread.stride = (thread.stride.max(1) * LOOK_EVERY / elapsed).min(longest);
        thread.looked = thread.clock;
        thread.seen = NONE_SEEN;
        thread.pause = thread.next.wrapping_add(thread.stride as usize).min(thread.end);
    }
    let level = process::level();
    if level != thread.level {
        thread.level = level;
        // SAFETY: there is room.
        unsafe { put_note(thread, &Note::level(level)) };
    }
    true
}

/// Records an allocation with an alignment.
///
/// # Safety
/// `thread` is the calling thread's, and inside.
pub(crate) unsafe fn allocated_aligned(
    thread: *mut Thread,
    function: Function,
    object: *mut c_void,
    size: usize,
    align: usize,
) {
    let what = What::allocated(code::MALLOC, size as u64);
    let note = Note::aligned(function, align.max(1).trailing_zeros());
    // SAFETY: the caller's promise.
    write_slowly(unsafe { &mut *thread }, what, object.addr() as u64, Some(&note));
}

/// Records a note that stands for a call.
///
/// # Safety
/// `thread` is the calling thread's, and inside.
pub(crate) unsafe fn noted(thread: *mut Thread, note: &Note, ticks: bool) {
    // SAFETY: the caller's promise.
    let thread = unsafe { &mut *thread };
    if make_room(thread) {
        thread.clock += u64::from(ticks);
        // SAFETY: there is room.
        unsafe { put_note(thread, note) };
    }
}

/// Records that the thread is about to end.
///
/// # Safety
/// `thread` is the calling thread's.
pub(crate) unsafe fn exit(thread: *mut Thread) {
    // SAFETY: the caller's promise.
    unsafe {
        if !(*thread).is_inside.swap(true, Ordering::Relaxed) {
            // Its time of day is worth knowing.
            (*thread).pause = (*thread).next;
            (*thread).own.is_ending = true;
            counting::add(&mut (*thread).own);
            noted(thread, &Note::exit(), false);
            leave(thread);
        }
    }
}

/// The call is over: the next one is recorded again.
///
/// # Safety
/// `thread` is the calling thread's.
#[inline(always)]
pub(crate) unsafe fn leave(thread: *mut Thread) {
    // A handler of a signal that comes now must find the record whole.
    compiler_fence(Ordering::Release);
    // SAFETY: the caller's promise.
    unsafe { (*thread).is_inside.store(false, Ordering::Relaxed) };
}
