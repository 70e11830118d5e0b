//! What can be asked of malloc besides memory, and requests that it must refuse: all of it while
//! other threads are at work.

use std::ffi::{c_int, c_void};
use std::ptr;

use crate::block::Block;
use crate::calls::find;
use crate::complain::fail;
use crate::rng::Rng;

type Pointer = *mut c_void;

/// More than there can ever be: no object is larger than half of the address space.
const TOO_MUCH: usize = isize::MAX as usize + 1;

/// The functions that the C library of this system may not have.
pub(crate) struct Questions {
    owns: Option<unsafe extern "C" fn(*const c_void) -> c_int>,
}

impl Questions {
    /// Finds the functions.
    pub(crate) fn new() -> Self {
        // SAFETY: the name is a C string.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"freehold_owns".as_ptr()) };
        let is_there = !found.is_null();
        Self {
            // SAFETY: the type is that in freehold.h.
            owns: is_there.then(|| unsafe { find(c"freehold_owns") }),
        }
    }

    /// Whether Freehold serves this process.
    pub(crate) fn is_freehold(&self) -> bool {
        let Some(owns) = self.owns else { return false };
        // SAFETY: an object of malloc's is asked about and freed.
        unsafe {
            let object = libc::malloc(1);
            let is = owns(object) == 1;
            libc::free(object);
            is
        }
    }

    /// Any one question; of those about a block, about this one.
    pub(crate) fn ask(&self, block: Option<&Block>, rng: &mut Rng) {
        match rng.below(8) {
            0 => trim(),
            1 => {
                in_use();
            }
            2 => free_nothing(),
            3 => tune(),
            4 => refuse_more_than_there_is(rng),
            _ => {
                if let Some(block) = block {
                    self.ask_about(block);
                }
            }
        }
    }

    fn ask_about(&self, block: &Block) {
        // SAFETY: asks without using the object; then asks for too much, so that it stays.
        unsafe {
            if self.owns.is_some_and(|owns| owns(block.address()) != 1) {
                fail(format_args!("{:?} is said to be nobody's", block.address()));
            }
            if block.may_be_resized() {
                refused("realloc", libc::realloc(block.address(), TOO_MUCH));
                refused("reallocarray", libc::reallocarray(block.address(), TOO_MUCH, 16));
            }
        }
    }
}

/// The bytes in use, as malloc counts them.
pub(crate) fn in_use() -> usize {
    // SAFETY: may be called at any time.
    let info = unsafe { libc::mallinfo2() };
    info.uordblks + info.hblkhd
}

/// Has malloc give back what is free; whether that was anything does not matter.
pub(crate) fn trim() {
    // SAFETY: may be called at any time.
    unsafe { libc::malloc_trim(0) };
}

/// Fails unless nothing was given out.
fn refused(call: &str, object: Pointer) {
    if !object.is_null() {
        fail(format_args!("{call} gave out more than there is, at {object:?}"));
    }
}

fn refuse_more_than_there_is(rng: &mut Rng) {
    let size = TOO_MUCH + rng.below(TOO_MUCH);
    // SAFETY: these may be called with any numbers, and give out nothing.
    unsafe {
        refused("malloc", libc::malloc(size));
        refused("calloc", libc::calloc(size, 1));
        refused("calloc", libc::calloc(size, 2));
        refused("realloc", libc::realloc(ptr::null_mut(), size));
        refused("memalign", libc::memalign(64, size));
        refused("aligned_alloc", libc::aligned_alloc(4096, size));
        let mut object = ptr::null_mut();
        if libc::posix_memalign(&raw mut object, 16, size) == 0 {
            refused("posix_memalign", object);
        }
    }
}

fn free_nothing() {
    // SAFETY: null may be freed.
    unsafe { libc::free(ptr::null_mut()) };
}

fn tune() {
    // SAFETY: the stream is open; a setting may be made at any time.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, 128 << 10);
        let stream = libc::fopen(c"/dev/null".as_ptr(), c"w".as_ptr());
        if stream.is_null() || libc::malloc_info(0, stream) != 0 {
            fail(format_args!("malloc_info fails"));
        }
        libc::fclose(stream);
    }
}
