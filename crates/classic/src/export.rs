//! The malloc family over a model, and the macro that makes a library of one. Errors are those of
//! the manual pages `malloc(3)` and `posix_memalign(3)`.

use crate::Model;
use crate::block::{Header, Kind, LARGEST, UNIT, header_of, usable};
use crate::{segment, thread};
use core::ffi::{c_int, c_void};
use core::panic::PanicInfo;
use core::ptr;
use freehold_sync::lock::Lock;

/// A function that the C library calls around a fork.
pub type ForkHandler = unsafe extern "C" fn();

const ENOMEM: c_int = 12;
const EINVAL: c_int = 22;

#[link(name = "c")]
unsafe extern "C" {
    fn __errno_location() -> *mut c_int;
    /// What `pthread_atfork` calls, which itself is linked statically.
    fn __register_atfork(
        before: Option<ForkHandler>,
        in_parent: Option<ForkHandler>,
        in_child: Option<ForkHandler>,
        library: *mut c_void,
    ) -> c_int;
}

#[cold]
fn failed(error: c_int) -> *mut c_void {
    // SAFETY: the C library gives the address of the calling thread's errno.
    unsafe { __errno_location().write(error) };
    ptr::null_mut()
}

fn checked(block: *mut u8) -> *mut c_void {
    if block.is_null() { failed(ENOMEM) } else { block.cast() }
}

/// `malloc(3)`.
pub fn malloc(model: &impl Model, size: usize) -> *mut c_void {
    checked(model.allocate(size))
}

/// `calloc(3)`.
pub fn calloc(model: &impl Model, count: usize, size: usize) -> *mut c_void {
    let Some(bytes) = count.checked_mul(size) else { return failed(ENOMEM) };
    let block = malloc(model, bytes);
    if !block.is_null() {
        // SAFETY: the block has at least so many bytes.
        unsafe { ptr::write_bytes(block.cast::<u8>(), 0, bytes) };
    }
    block
}

/// `free(3)`.
///
/// # Safety
/// Null, or a block of this model's that nobody uses any longer.
pub unsafe fn free(model: &impl Model, block: *mut c_void) {
    let block = block.cast::<u8>();
    if block.is_null() {
        return;
    }
    // SAFETY: the caller's promise; an aligned place lies within a block of the model's.
    unsafe {
        let own = header_of(block);
        let whole = match own.kind() {
            Kind::Aligned => crate::block::at(own.owner),
            _ => block,
        };
        model.deallocate(whole);
    }
}

/// `realloc(3)`.
///
/// # Safety
/// Null, or a block of this model's in use by the caller.
pub unsafe fn realloc(model: &impl Model, block: *mut c_void, size: usize) -> *mut c_void {
    if block.is_null() {
        return malloc(model, size);
    }
    // SAFETY: the caller's promise; the blocks are different ones.
    unsafe {
        if size == 0 {
            free(model, block);
            return ptr::null_mut();
        }
        let room = usable(block.cast());
        // A block that would be left more than half empty is worth moving.
        if size <= room && size > room / 2 - UNIT.min(room / 2) {
            return block;
        }
        let moved = malloc(model, size);
        if !moved.is_null() {
            ptr::copy_nonoverlapping(block.cast::<u8>(), moved.cast(), room.min(size));
            free(model, block);
        }
        moved
    }
}

/// `malloc_usable_size(3)`.
///
/// # Safety
/// Null, or a block of this model's in use by the caller.
pub unsafe fn malloc_usable_size(block: *mut c_void) -> usize {
    // SAFETY: the caller's promise.
    if block.is_null() { 0 } else { unsafe { usable(block.cast()) } }
}

/// A block at a multiple of `align`, a power of two; null if there is no memory.
fn aligned(model: &impl Model, align: usize, size: usize) -> *mut u8 {
    if align <= UNIT {
        return model.allocate(size);
    }
    let Some(bytes) = size.checked_add(align).filter(|bytes| *bytes <= LARGEST) else {
        return ptr::null_mut();
    };
    let whole = model.allocate(bytes);
    let before = whole.addr().next_multiple_of(align) - whole.addr();
    if whole.is_null() || before == 0 {
        return whole;
    }
    // SAFETY: blocks and places lie at multiples of a unit, so that there is one before this place
    // at least, and behind it are at least `size` bytes.
    unsafe {
        let place = whole.add(before);
        *header_of(place) = Header::new(whole.expose_provenance(), 0, Kind::Aligned);
        place
    }
}

/// `memalign(3)`, and `aligned_alloc(3)`, whose size need not be a multiple here.
pub fn memalign(model: &impl Model, align: usize, size: usize) -> *mut c_void {
    if align.is_power_of_two() { checked(aligned(model, align, size)) } else { failed(EINVAL) }
}

/// `posix_memalign(3)`.
///
/// # Safety
/// `result` can be written to.
pub unsafe fn posix_memalign(
    model: &impl Model,
    result: *mut *mut c_void,
    align: usize,
    size: usize,
) -> c_int {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<usize>()) {
        return EINVAL;
    }
    let block = aligned(model, align, size);
    if block.is_null() {
        return ENOMEM;
    }
    // SAFETY: the caller's promise.
    unsafe { result.write(block.cast()) };
    0
}

/// `valloc(3)`.
pub fn valloc(model: &impl Model, size: usize) -> *mut c_void {
    memalign(model, segment::page_size(), size)
}

/// `pvalloc(3)`.
pub fn pvalloc(model: &impl Model, size: usize) -> *mut c_void {
    let page = segment::page_size();
    match size.checked_next_multiple_of(page) {
        Some(bytes) => memalign(model, page, bytes.max(page)),
        None => failed(ENOMEM),
    }
}

/// Has these functions called around every fork.
pub fn arrange_forks(before: ForkHandler, in_parent: ForkHandler, in_child: ForkHandler) {
    // SAFETY: the functions are those of a library that is never unloaded.
    unsafe { __register_atfork(Some(before), Some(in_parent), Some(in_child), ptr::null_mut()) };
}

/// Before a fork: takes the locks.
pub fn before_fork(model: &impl Model) {
    model.each_lock(&mut Lock::acquire_among_peers);
}

/// After a fork, in the parent: gives the locks back.
pub fn after_fork_in_parent(model: &impl Model) {
    model.each_lock(&mut Lock::release);
}

/// After a fork, in the child, where nobody sleeps at any lock: makes them free.
pub fn after_fork_in_child(model: &impl Model) {
    model.after_fork();
    model.each_lock(&mut Lock::reset);
    thread::after_fork();
}

/// Says what went wrong within a model, and ends the process.
pub fn end(panic: &PanicInfo<'_>) -> ! {
    freehold_sys::process::panicked("freehold's model of a classic allocator", panic)
}

/// Makes the crate a library that serves malloc by a model. The symbol is what it is recognised by;
/// behind it is a text with the version.
#[macro_export]
macro_rules! export {
    ($symbol:literal, $type:ty) => {
        use core::ffi::{c_int, c_void};
        use $crate::export as family;

        static MODEL: $type = <$type>::new();

        /// What the library is.
        #[unsafe(export_name = $symbol)]
        pub static TEXT: &str = concat!("freehold model ", env!("CARGO_PKG_VERSION"), "\0");

        /// `malloc(3)`.
        #[unsafe(no_mangle)]
        pub extern "C" fn malloc(size: usize) -> *mut c_void {
            family::malloc(&MODEL, size)
        }

        /// `calloc(3)`.
        #[unsafe(no_mangle)]
        pub extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
            family::calloc(&MODEL, count, size)
        }

        /// `realloc(3)`.
        ///
        /// # Safety
        /// Null, or a block in use by the caller.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
            // SAFETY: the caller's promise.
            unsafe { family::realloc(&MODEL, block, size) }
        }

        /// `free(3)`.
        ///
        /// # Safety
        /// Null, or a block that nobody uses any longer.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn free(block: *mut c_void) {
            // SAFETY: the caller's promise.
            unsafe { family::free(&MODEL, block) }
        }

        /// C23's `free_sized`: the size is not relied upon.
        ///
        /// # Safety
        /// As for [`free`].
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn free_sized(block: *mut c_void, _: usize) {
            // SAFETY: the caller's promise.
            unsafe { family::free(&MODEL, block) }
        }

        /// C23's `free_aligned_sized`: alignment and size are not relied upon.
        ///
        /// # Safety
        /// As for [`free`].
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn free_aligned_sized(block: *mut c_void, _: usize, _: usize) {
            // SAFETY: the caller's promise.
            unsafe { family::free(&MODEL, block) }
        }

        /// An old name for `free`.
        ///
        /// # Safety
        /// As for [`free`].
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn cfree(block: *mut c_void) {
            // SAFETY: the caller's promise.
            unsafe { family::free(&MODEL, block) }
        }

        /// `malloc_usable_size(3)`.
        ///
        /// # Safety
        /// Null, or a block in use by the caller.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> usize {
            // SAFETY: the caller's promise.
            unsafe { family::malloc_usable_size(block) }
        }

        /// `aligned_alloc(3)`.
        #[unsafe(no_mangle)]
        pub extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
            family::memalign(&MODEL, align, size)
        }

        /// `memalign(3)`.
        #[unsafe(no_mangle)]
        pub extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
            family::memalign(&MODEL, align, size)
        }

        /// `posix_memalign(3)`.
        ///
        /// # Safety
        /// `result` can be written to.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn posix_memalign(
            result: *mut *mut c_void,
            align: usize,
            size: usize,
        ) -> c_int {
            // SAFETY: the caller's promise.
            unsafe { family::posix_memalign(&MODEL, result, align, size) }
        }

        /// `valloc(3)`.
        #[unsafe(no_mangle)]
        pub extern "C" fn valloc(size: usize) -> *mut c_void {
            family::valloc(&MODEL, size)
        }

        /// `pvalloc(3)`.
        #[unsafe(no_mangle)]
        pub extern "C" fn pvalloc(size: usize) -> *mut c_void {
            family::pvalloc(&MODEL, size)
        }

        unsafe extern "C" fn before_fork() {
            family::before_fork(&MODEL);
        }

        unsafe extern "C" fn after_fork_in_parent() {
            family::after_fork_in_parent(&MODEL);
        }

        unsafe extern "C" fn after_fork_in_child() {
            family::after_fork_in_child(&MODEL);
        }

        /// Runs when the library is loaded.
        #[used]
        #[unsafe(link_section = ".init_array")]
        static AT_START: extern "C" fn() = {
            extern "C" fn start() {
                family::arrange_forks(before_fork, after_fork_in_parent, after_fork_in_child);
            }
            start
        };

        $crate::pass_exceptions!();

        #[panic_handler]
        fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
            family::end(info)
        }
    };
}
