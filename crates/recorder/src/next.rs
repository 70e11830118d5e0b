//! The allocator behind this library: what the dynamic loader finds after it.
//!
//! The functions are looked up together, by the first call of any of them. Calls that are made
//! meanwhile, by the search itself, are answered by the store.

use core::ffi::{CStr, c_int, c_void};
use core::mem;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use crate::{libc, store};

type Malloc = unsafe extern "C" fn(usize) -> *mut c_void;
type Calloc = unsafe extern "C" fn(usize, usize) -> *mut c_void;
type Realloc = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);
type Aligned = unsafe extern "C" fn(usize, usize) -> *mut c_void;
type UsableSize = unsafe extern "C" fn(*mut c_void) -> usize;
type PosixMemalign = unsafe extern "C" fn(*mut *mut c_void, usize, usize) -> c_int;

/// Whether somebody is looking, or has looked.
static BEGUN: AtomicBool = AtomicBool::new(false);

/// Defines a place for each function, and `fn name() -> Option<type>` to read it.
macro_rules! functions {
    ($($place:ident $name:ident: $type:ty = $symbol:literal;)*) => {
        $(
            static $place: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

            /// The next function of this name; `None` while it is being looked for.
            #[inline(always)]
            fn $name() -> Option<$type> {
                let mut address = $place.load(Ordering::Relaxed);
                if address.is_null() {
                    look();
                    address = $place.load(Ordering::Relaxed);
                }
                // SAFETY: null, which is `None`, or what the loader found under the name, which is
                // of this type in every allocator.
                unsafe { mem::transmute::<*mut c_void, Option<$type>>(address) }
            }
        )*

        /// Looks for all functions, unless somebody has begun to.
        #[cold]
        #[inline(never)]
        fn look() {
            if BEGUN.swap(true, Ordering::Relaxed) {
                return;
            }
            $($place.store(find($symbol), Ordering::Relaxed);)*
        }
    };
}

functions! {
    MALLOC malloc_behind: Malloc = c"malloc";
    CALLOC calloc_behind: Calloc = c"calloc";
    REALLOC realloc_behind: Realloc = c"realloc";
    FREE free_behind: Free = c"free";
    ALIGNED_ALLOC aligned_alloc_behind: Aligned = c"aligned_alloc";
    MEMALIGN memalign_behind: Aligned = c"memalign";
    POSIX_MEMALIGN posix_memalign_behind: PosixMemalign = c"posix_memalign";
    VALLOC valloc_behind: Malloc = c"valloc";
    PVALLOC pvalloc_behind: Malloc = c"pvalloc";
    USABLE_SIZE usable_size_behind: UsableSize = c"malloc_usable_size";
}

fn find(symbol: &CStr) -> *mut c_void {
    // SAFETY: the handle is the one for this purpose, the symbol a C string.
    unsafe { libc::dlsym(libc::RTLD_NEXT, symbol.as_ptr()) }
}

/// Does not ask for the sizes of objects if who answers is not the allocator behind: it must not be
/// asked about objects of another.
pub(crate) fn check_usable_size() {
    let file_of = |place: &AtomicPtr<c_void>| {
        let mut found = libc::Found::nothing();
        // SAFETY: any address may be asked about, and the answer is written to a local variable.
        let is_known = unsafe { libc::dladdr(place.load(Ordering::Relaxed), &raw mut found) } != 0;
        is_known.then_some(found.base)
    };
    let own = file_of(&MALLOC);
    if own.is_none() || own != file_of(&USABLE_SIZE) {
        USABLE_SIZE.store(tells_nothing as *mut c_void, Ordering::Relaxed);
    }
}

/// The size of an object whose allocator is not to be asked.
unsafe extern "C" fn tells_nothing(_: *mut c_void) -> usize {
    0
}

/// Whether all has been found that the functions below call.
pub(crate) fn is_ready() -> bool {
    malloc_behind().is_some() && free_behind().is_some() && usable_size_behind().is_some()
}

/// `malloc`, without a look at whether it has been found.
///
/// # Safety
/// [`is_ready`] was true before something that this thread has seen.
#[inline(always)]
pub(crate) unsafe fn ready_malloc(size: usize) -> *mut c_void {
    // SAFETY: the caller's promise: it is not null, and never is again.
    let malloc = unsafe { mem::transmute::<*mut c_void, Malloc>(MALLOC.load(Ordering::Relaxed)) };
    // SAFETY: it is called as it was called here.
    unsafe { malloc(size) }
}

/// `free` of what is not the store's, likewise.
///
/// # Safety
/// As for [`ready_malloc`] and `free(3)`.
#[inline(always)]
pub(crate) unsafe fn ready_free(object: *mut c_void) {
    // SAFETY: as in `ready_malloc`.
    let free = unsafe { mem::transmute::<*mut c_void, Free>(FREE.load(Ordering::Relaxed)) };
    // SAFETY: the caller's promise.
    unsafe { free(object) }
}

/// Bytes of an object that can be used, likewise; 0 where the allocator does not tell.
///
/// # Safety
/// As for [`ready_malloc`]; the object is the allocator's, and in use by the caller.
#[inline(always)]
pub(crate) unsafe fn ready_usable_size(object: *mut c_void) -> usize {
    let place = USABLE_SIZE.load(Ordering::Relaxed);
    // SAFETY: as in `ready_malloc`.
    let usable_size = unsafe { mem::transmute::<*mut c_void, UsableSize>(place) };
    // SAFETY: the caller's promise.
    unsafe { usable_size(object) }
}

/// Looks for the next allocator, if nobody has.
pub(crate) fn prepare() {
    malloc_behind();
}

/// The address of the next `malloc`, once it is known.
pub(crate) fn malloc_address() -> *const c_void {
    MALLOC.load(Ordering::Relaxed)
}

#[inline(always)]
pub(crate) fn malloc(size: usize) -> *mut c_void {
    match malloc_behind() {
        // SAFETY: it is called as it was called here.
        Some(malloc) => unsafe { malloc(size) },
        None => store::allocate(size, 1),
    }
}

#[inline(always)]
pub(crate) fn calloc(count: usize, size: usize) -> *mut c_void {
    match calloc_behind() {
        // SAFETY: it is called as it was called here.
        Some(calloc) => unsafe { calloc(count, size) },
        None => store::allocate(count.saturating_mul(size), 1),
    }
}

/// # Safety
/// As for `realloc(3)`.
#[inline(always)]
pub(crate) unsafe fn realloc(object: *mut c_void, size: usize) -> *mut c_void {
    match realloc_behind() {
        // SAFETY: it is called as it was called here.
        Some(realloc) if !store::owns(object) => unsafe { realloc(object, size) },
        // SAFETY: the caller's promise.
        _ => unsafe { leave_the_store(object, size) },
    }
}

/// `realloc` for an object of the store, or while there is nobody else.
#[cold]
unsafe fn leave_the_store(object: *mut c_void, size: usize) -> *mut c_void {
    let moved = malloc(size);
    if !moved.is_null() && store::owns(object) {
        // SAFETY: the object is the store's.
        let old = unsafe { store::size_of_object(object) };
        // SAFETY: both are at least that long, and the new one is another.
        unsafe { ptr::copy_nonoverlapping(object.cast::<u8>(), moved.cast(), old.min(size)) };
    }
    moved
}

/// # Safety
/// As for `free(3)`.
#[inline(always)]
pub(crate) unsafe fn free(object: *mut c_void) {
    // What the store has given out is not used again.
    if store::owns(object) {
        return;
    }
    if let Some(free) = free_behind() {
        // SAFETY: it is called as it was called here.
        unsafe { free(object) };
    }
}

pub(crate) fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    match aligned_alloc_behind() {
        // SAFETY: it is called as it was called here.
        Some(aligned_alloc) => unsafe { aligned_alloc(align, size) },
        None => store::allocate(size, align),
    }
}

pub(crate) fn memalign(align: usize, size: usize) -> *mut c_void {
    match memalign_behind() {
        // SAFETY: it is called as it was called here.
        Some(memalign) => unsafe { memalign(align, size) },
        None => store::allocate(size, align),
    }
}

/// # Safety
/// As for `posix_memalign(3)`.
pub(crate) unsafe fn posix_memalign(result: *mut *mut c_void, align: usize, size: usize) -> c_int {
    const ENOMEM: c_int = 12;
    if let Some(posix_memalign) = posix_memalign_behind() {
        // SAFETY: it is called as it was called here.
        return unsafe { posix_memalign(result, align, size) };
    }
    let object = store::allocate(size, align);
    if object.is_null() {
        return ENOMEM;
    }
    // SAFETY: the caller's promise.
    unsafe { result.write(object) };
    0
}

pub(crate) fn valloc(size: usize) -> *mut c_void {
    match valloc_behind() {
        // SAFETY: it is called as it was called here.
        Some(valloc) => unsafe { valloc(size) },
        None => store::allocate(size, PAGE),
    }
}

pub(crate) fn pvalloc(size: usize) -> *mut c_void {
    match pvalloc_behind() {
        // SAFETY: it is called as it was called here.
        Some(pvalloc) => unsafe { pvalloc(size) },
        None => store::allocate(size.next_multiple_of(PAGE), PAGE),
    }
}

/// For `valloc` while nobody else is there: more than this is never asked for so early.
const PAGE: usize = 4096;
