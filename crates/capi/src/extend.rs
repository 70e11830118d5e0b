//! glibc's extensions: sizes, trimming, statistics, parameters.

use crate::errno::{EINVAL, set};
use core::ffi::{c_char, c_int, c_void};
use core::fmt::{self, Write};
use freehold_rt::{Usage, slow};
use freehold_sys::stderr::Message;

/// `malloc_usable_size(3)`: all of it may be used, and it stays the same while the object is in
/// use.
///
/// # Safety
/// `object` is null, or an object in use by the caller.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(object: *mut c_void) -> usize {
    // SAFETY: the caller's promise.
    unsafe { slow::usable_size(object.cast()) }
}

/// `malloc_trim(3)`: gives back all that is free and that this thread can reach; there is no top of
/// the heap to pad. Returns 1 if memory was given back.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_trim(_pad: usize) -> c_int {
    (slow::trim() > 0).into()
}

/// The parameters that `mallopt(3)` knows: `M_MXFAST`, `M_TRIM_THRESHOLD`, `M_TOP_PAD`,
/// `M_MMAP_THRESHOLD`, `M_MMAP_MAX`, `M_CHECK_ACTION`, `M_PERTURB`, `M_ARENA_TEST`, `M_ARENA_MAX`.
const PARAMETERS: [c_int; 9] = [1, -1, -2, -3, -4, -5, -6, -7, -8];

/// `mallopt(3)`: succeeds for the parameters of the manual page, which have no counterpart here and
/// change nothing.
#[unsafe(no_mangle)]
pub extern "C" fn mallopt(parameter: c_int, _value: c_int) -> c_int {
    PARAMETERS.contains(&parameter).into()
}

/// The result of `mallinfo2(3)`, in bytes.
#[repr(C)]
pub struct MallInfo2 {
    /// In slabs and runs, and free but dirty.
    arena: usize,
    /// Free objects in slabs.
    ordblks: usize,
    /// Not used.
    smblks: usize,
    /// Direct mappings.
    hblks: usize,
    /// Bytes in direct mappings.
    hblkhd: usize,
    /// Not used.
    usmblks: usize,
    /// Not used.
    fsmblks: usize,
    /// In use by the program, or in threads' bins.
    uordblks: usize,
    /// Free: in slabs, and dirty.
    fordblks: usize,
    /// What `malloc_trim` could give back.
    keepcost: usize,
}

/// The result of `mallinfo(3)`: the same in `int`, which does not hold more than 2 GiB.
#[repr(C)]
pub struct MallInfo {
    arena: c_int,
    ordblks: c_int,
    smblks: c_int,
    hblks: c_int,
    hblkhd: c_int,
    usmblks: c_int,
    fsmblks: c_int,
    uordblks: c_int,
    fordblks: c_int,
    keepcost: c_int,
}

/// `mallinfo2(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo2() -> MallInfo2 {
    let usage = slow::usage();
    MallInfo2 {
        arena: usage.claimed + usage.dirty,
        ordblks: usage.free_objects,
        smblks: 0,
        hblks: usage.direct_mappings,
        hblkhd: usage.direct,
        usmblks: 0,
        fsmblks: 0,
        uordblks: usage.in_use() - usage.direct,
        fordblks: usage.free_in_slabs + usage.dirty,
        keepcost: usage.dirty,
    }
}

/// `mallinfo(3)`. What does not fit is cut to the largest `int`.
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo() -> MallInfo {
    let info = mallinfo2();
    let cut = |bytes: usize| c_int::try_from(bytes).unwrap_or(c_int::MAX);
    MallInfo {
        arena: cut(info.arena),
        ordblks: cut(info.ordblks),
        smblks: cut(info.smblks),
        hblks: cut(info.hblks),
        hblkhd: cut(info.hblkhd),
        usmblks: cut(info.usmblks),
        fsmblks: cut(info.fsmblks),
        uordblks: cut(info.uordblks),
        fordblks: cut(info.fordblks),
        keepcost: cut(info.keepcost),
    }
}

/// `malloc_stats(3)`: a summary on standard error.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_stats() {
    let usage = slow::usage();
    let mut message = Message::new();
    // Writing to a fixed buffer cannot fail.
    let _ = write!(
        message,
        "Freehold {}\n\
         in use            {:>14} bytes\n\
         free in slabs     {:>14} bytes in {} objects\n\
         free and dirty    {:>14} bytes\n\
         direct mappings   {:>14} bytes in {}\n\
         purged so far     {:>14} bytes\n\
         heaps             {:>14}\n\
         waits for a lock  {:>14}\n",
        freehold_rt::VERSION,
        usage.in_use(),
        usage.free_in_slabs,
        usage.free_objects,
        usage.dirty,
        usage.direct,
        usage.direct_mappings,
        usage.purged,
        usage.heaps,
        usage.lock_waits,
    );
}

unsafe extern "C" {
    fn fputs(text: *const c_char, file: *mut c_void) -> c_int;
}

/// Text for `fputs`, built without allocating.
struct Text {
    bytes: [u8; 1024],
    used: usize,
}

impl Write for Text {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let end = self.used + s.len();
        // The last byte stays zero: it ends the string.
        let place = self.bytes[..1023].get_mut(self.used..end).ok_or(fmt::Error)?;
        place.copy_from_slice(s.as_bytes());
        self.used = end;
        Ok(())
    }
}

fn write_xml(text: &mut Text, usage: &Usage) -> fmt::Result {
    write!(
        text,
        "<malloc version=\"1\">\n\
         <heap nr=\"0\">\n\
         <sizes>\n</sizes>\n\
         <total type=\"fast\" count=\"0\" size=\"0\"/>\n\
         <total type=\"rest\" count=\"{}\" size=\"{}\"/>\n\
         <system type=\"current\" size=\"{}\"/>\n\
         <system type=\"max\" size=\"{}\"/>\n\
         <aspace type=\"total\" size=\"{}\"/>\n\
         <aspace type=\"mprotect\" size=\"{}\"/>\n\
         </heap>\n\
         <total type=\"fast\" count=\"0\" size=\"0\"/>\n\
         <total type=\"rest\" count=\"{}\" size=\"{}\"/>\n\
         <total type=\"mmap\" count=\"{}\" size=\"{}\"/>\n\
         <system type=\"current\" size=\"{}\"/>\n\
         <system type=\"max\" size=\"{}\"/>\n\
         <aspace type=\"total\" size=\"{}\"/>\n\
         <aspace type=\"mprotect\" size=\"{}\"/>\n\
         </malloc>\n",
        usage.free_objects,
        usage.free_in_slabs + usage.dirty,
        usage.claimed + usage.dirty,
        usage.committed,
        usage.committed,
        usage.committed,
        usage.free_objects,
        usage.free_in_slabs + usage.dirty,
        usage.direct_mappings,
        usage.direct,
        usage.claimed + usage.dirty,
        usage.committed,
        usage.committed,
        usage.committed,
    )
}

/// `malloc_info(3)`: the elements of glibc's document, with one heap that stands for all.
///
/// # Safety
/// `file` is an open stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_info(options: c_int, file: *mut c_void) -> c_int {
    if options != 0 {
        set(EINVAL);
        return -1;
    }
    let mut text = Text { bytes: [0; 1024], used: 0 };
    if write_xml(&mut text, &slow::usage()).is_err() {
        return -1;
    }
    // SAFETY: the text ends in a zero byte; the stream is the caller's.
    if unsafe { fputs(text.bytes.as_ptr().cast(), file) } < 0 { -1 } else { 0 }
}
