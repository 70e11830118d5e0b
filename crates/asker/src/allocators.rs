//! The public functions by which allocators tell their figures. Sources: `mallinfo2(3)`,
//! `jemalloc(3)`, `gperftools/malloc_extension_c.h`. What each value means to a reader is not known
//! here.
//!
//! mimalloc is not asked: what its functions count in an ordinary build is what it has reserved,
//! not what is in use.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;
use freehold_trace::asked::{Answer, Value};

use crate::libc::{EVERYWHERE, address, function, gnu};

/// What all allocators that are there say.
pub(crate) fn ask() -> Answer {
    let mut answer = Answer::default();
    ask_library(&mut answer);
    ask_jemalloc(&mut answer);
    ask_tcmalloc(&mut answer);
    answer
}

/// The C library's `struct mallinfo2`.
#[repr(C)]
struct Information {
    arena: usize,
    free_blocks: usize,
    fast_blocks: usize,
    mapped_blocks: usize,
    mapped_bytes: usize,
    most_bytes: usize,
    fast_bytes: usize,
    used_bytes: usize,
    free_bytes: usize,
    top_bytes: usize,
}

/// The C library is asked where it is what serves `malloc`: elsewhere its allocator may not have
/// begun, and must not be made to.
fn ask_library(answer: &mut Answer) {
    let Some(library) = gnu() else { return };
    if address(library, c"malloc") != address(EVERYWHERE, c"malloc") {
        return;
    }
    // SAFETY: the C library's function of this name.
    let found = unsafe { function::<unsafe extern "C" fn() -> Information>(library, c"mallinfo2") };
    let Some(mallinfo2) = found else { return };
    // SAFETY: it may be called by any thread, outside of signal handlers.
    let told = unsafe { mallinfo2() };
    answer.set(Value::LibraryUsed, told.used_bytes as u64);
    answer.set(Value::LibraryMapped, told.mapped_bytes as u64);
    answer.set(Value::LibraryFast, told.fast_bytes as u64);
    answer.set(Value::LibraryFree, told.free_bytes as u64);
    answer.set(Value::LibraryArena, told.arena as u64);
}

type Mallctl =
    unsafe extern "C" fn(*const c_char, *mut c_void, *mut usize, *mut c_void, usize) -> c_int;

/// `mallctl`, by the names that builds of jemalloc give it.
const MALLCTL: [&CStr; 3] = [c"mallctl", c"je_mallctl", c"_rjem_mallctl"];

/// Of all arenas together: `MALLCTL_ARENAS_ALL` is 4096.
const JEMALLOC: [(Value, &CStr); 6] = [
    (Value::JemallocAllocated, c"stats.allocated"),
    (Value::JemallocActive, c"stats.active"),
    (Value::JemallocMetadata, c"stats.metadata"),
    (Value::JemallocResident, c"stats.resident"),
    (Value::JemallocCached, c"stats.arenas.4096.tcache_bytes"),
    (Value::JemallocInternal, c"stats.arenas.4096.internal"),
];

fn ask_jemalloc(answer: &mut Answer) {
    // SAFETY: jemalloc's function of these names, which nobody else uses.
    let mut found = MALLCTL.iter().map(|name| unsafe { function(EVERYWHERE, name) });
    let Some(mallctl): Option<Mallctl> = found.find_map(|found| found) else { return };
    // Figures are those of the moment when this was last written to.
    let mut epoch = 1_u64;
    let (new, bytes) = ((&raw mut epoch).cast(), size_of::<u64>());
    // SAFETY: as its manual says: a name, nothing to be read, and a number to be written.
    unsafe { mallctl(c"epoch".as_ptr(), ptr::null_mut(), ptr::null_mut(), new, bytes) };
    for (value, name) in JEMALLOC {
        let (mut told, mut bytes) = (0_usize, size_of::<usize>());
        let old = (&raw mut told).cast();
        // SAFETY: likewise: a name, a number to be read with its size, nothing to be written.
        let error = unsafe { mallctl(name.as_ptr(), old, &raw mut bytes, ptr::null_mut(), 0) };
        if error == 0 && bytes == size_of::<usize>() {
            answer.set(value, told as u64);
        }
    }
}

const TCMALLOC: [(Value, &CStr); 6] = [
    (Value::TcmallocAllocated, c"generic.current_allocated_bytes"),
    (Value::TcmallocPages, c"tcmalloc.pageheap_free_bytes"),
    (Value::TcmallocCentral, c"tcmalloc.central_cache_free_bytes"),
    (Value::TcmallocTransfer, c"tcmalloc.transfer_cache_free_bytes"),
    (Value::TcmallocCached, c"tcmalloc.current_total_thread_cache_bytes"),
    (Value::TcmallocPhysical, c"generic.total_physical_bytes"),
];

fn ask_tcmalloc(answer: &mut Answer) {
    type Property = unsafe extern "C" fn(*const c_char, *mut usize) -> c_int;
    let name = c"MallocExtension_GetNumericProperty";
    // SAFETY: tcmalloc's function of this name, which nobody else uses.
    let Some(property) = (unsafe { function::<Property>(EVERYWHERE, name) }) else { return };
    for (value, name) in TCMALLOC {
        let mut told = 0;
        // SAFETY: a name, and where the number is to be written.
        if unsafe { property(name.as_ptr(), &raw mut told) } != 0 {
            answer.set(value, told as u64);
        }
    }
}
