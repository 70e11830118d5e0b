//! Every function that gives out, resizes or takes back memory, as the process finds it.

use std::ffi::{CStr, c_void};
use std::mem::transmute_copy;
use std::ptr;

use crate::complain::fail;
use crate::rng::Rng;

type Pointer = *mut c_void;

/// A request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) call: Call,
    pub(crate) size: usize,
    /// What the memory must be a multiple of. Of the request only where the call takes one.
    pub(crate) align: usize,
}

/// The ways to get memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Call {
    Malloc,
    Calloc,
    Realloc,
    Reallocarray,
    AlignedAlloc,
    PosixMemalign,
    Memalign,
    Valloc,
    Pvalloc,
    New,
    NewArray,
    NewNothrow,
    NewArrayNothrow,
    NewAligned,
    NewArrayAligned,
    NewAlignedNothrow,
    NewArrayAlignedNothrow,
}

use Call::{
    AlignedAlloc, Calloc, Malloc, Memalign, New, NewAligned, NewAlignedNothrow, NewArray,
    NewArrayAligned, NewArrayAlignedNothrow, NewArrayNothrow, NewNothrow, PosixMemalign, Pvalloc,
    Realloc, Reallocarray, Valloc,
};

/// How many there are.
pub(crate) const CALLS: usize = NewArrayAlignedNothrow as usize + 1;

/// The usual ones more often than the rare ones.
const ALLOCATING: [Call; 24] = [
    Malloc,
    Malloc,
    Malloc,
    Malloc,
    Malloc,
    Malloc,
    Calloc,
    Calloc,
    Realloc,
    Reallocarray,
    AlignedAlloc,
    PosixMemalign,
    Memalign,
    Valloc,
    Pvalloc,
    New,
    New,
    NewArray,
    NewNothrow,
    NewArrayNothrow,
    NewAligned,
    NewArrayAligned,
    NewAlignedNothrow,
    NewArrayAlignedNothrow,
];

/// Every block starts at a multiple of this.
pub(crate) const USUAL_ALIGN: usize = 16;

impl Call {
    /// Any of them.
    pub(crate) fn any(rng: &mut Rng) -> Self {
        ALLOCATING[rng.below(ALLOCATING.len())]
    }

    /// Whether it takes an alignment.
    pub(crate) fn takes_alignment(self) -> bool {
        matches!(
            self,
            AlignedAlloc
                | PosixMemalign
                | Memalign
                | NewAligned
                | NewArrayAligned
                | NewAlignedNothrow
                | NewArrayAlignedNothrow
        )
    }

    /// Whether it is one of C's, and not of C++.
    pub(crate) fn is_of_c(self) -> bool {
        (self as u8) < New as u8
    }
}

/// The functions. Those that the C library of this system may not have, and those of C++, are
/// looked up by name.
pub(crate) struct Calls {
    page: usize,
    usable_size: unsafe extern "C" fn(Pointer) -> usize,
    pvalloc: unsafe extern "C" fn(usize) -> Pointer,
    valloc: unsafe extern "C" fn(usize) -> Pointer,
    cfree: unsafe extern "C" fn(Pointer),
    free_sized: unsafe extern "C" fn(Pointer, usize),
    free_aligned_sized: unsafe extern "C" fn(Pointer, usize, usize),
    news: [unsafe extern "C" fn(usize) -> Pointer; 2],
    news_nothrow: [unsafe extern "C" fn(usize, Pointer) -> Pointer; 2],
    news_aligned: [unsafe extern "C" fn(usize, usize) -> Pointer; 2],
    news_aligned_nothrow: [unsafe extern "C" fn(usize, usize, Pointer) -> Pointer; 2],
    deletes: [unsafe extern "C" fn(Pointer); 2],
    deletes_sized: [unsafe extern "C" fn(Pointer, usize); 2],
    deletes_nothrow: [unsafe extern "C" fn(Pointer, Pointer); 2],
    deletes_aligned: [unsafe extern "C" fn(Pointer, usize); 2],
    deletes_sized_aligned: [unsafe extern "C" fn(Pointer, usize, usize); 2],
    deletes_aligned_nothrow: [unsafe extern "C" fn(Pointer, usize, Pointer); 2],
}

/// Finds a function by its name.
///
/// # Safety
/// `F` is the type of a pointer to that function.
pub(crate) unsafe fn find<F>(name: &CStr) -> F {
    const { assert!(size_of::<F>() == size_of::<Pointer>()) };
    // SAFETY: the name is a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if found.is_null() {
        fail(format_args!("nothing provides {}", name.to_string_lossy()));
    }
    // SAFETY: a function of that type, as the caller promises.
    unsafe { transmute_copy(&found) }
}

impl Calls {
    /// Finds all of them.
    pub(crate) fn new() -> Self {
        // SAFETY: the types are those of the manual pages, of C23, and of the C++ ABI.
        unsafe {
            Self {
                page: libc::sysconf(libc::_SC_PAGESIZE) as usize,
                usable_size: find(c"malloc_usable_size"),
                pvalloc: find(c"pvalloc"),
                valloc: find(c"valloc"),
                cfree: find(c"cfree"),
                free_sized: find(c"free_sized"),
                free_aligned_sized: find(c"free_aligned_sized"),
                news: [find(c"_Znwm"), find(c"_Znam")],
                news_nothrow: [find(c"_ZnwmRKSt9nothrow_t"), find(c"_ZnamRKSt9nothrow_t")],
                news_aligned: [find(c"_ZnwmSt11align_val_t"), find(c"_ZnamSt11align_val_t")],
                news_aligned_nothrow: [
                    find(c"_ZnwmSt11align_val_tRKSt9nothrow_t"),
                    find(c"_ZnamSt11align_val_tRKSt9nothrow_t"),
                ],
                deletes: [find(c"_ZdlPv"), find(c"_ZdaPv")],
                deletes_sized: [find(c"_ZdlPvm"), find(c"_ZdaPvm")],
                deletes_nothrow: [find(c"_ZdlPvRKSt9nothrow_t"), find(c"_ZdaPvRKSt9nothrow_t")],
                deletes_aligned: [find(c"_ZdlPvSt11align_val_t"), find(c"_ZdaPvSt11align_val_t")],
                deletes_sized_aligned: [
                    find(c"_ZdlPvmSt11align_val_t"),
                    find(c"_ZdaPvmSt11align_val_t"),
                ],
                deletes_aligned_nothrow: [
                    find(c"_ZdlPvSt11align_val_tRKSt9nothrow_t"),
                    find(c"_ZdaPvSt11align_val_tRKSt9nothrow_t"),
                ],
            }
        }
    }

    /// What memory of this request must be a multiple of.
    pub(crate) fn promised_align(&self, request: Request) -> usize {
        match request.call {
            Valloc | Pvalloc => self.page,
            call if call.takes_alignment() => request.align.max(USUAL_ALIGN),
            _ => USUAL_ALIGN,
        }
    }

    /// Asks for memory. Null when there is none.
    pub(crate) fn allocate(&self, request: Request, rng: &mut Rng) -> Pointer {
        let Request { call, size, align } = request;
        let null = ptr::null_mut();
        // SAFETY: all of these may be called with any numbers; the alignments are powers of two.
        unsafe {
            match call {
                Malloc => libc::malloc(size),
                Calloc => {
                    let (count, each) = factors(size, rng);
                    libc::calloc(count, each)
                }
                Realloc => libc::realloc(null, size),
                Reallocarray => {
                    let (count, each) = factors(size, rng);
                    libc::reallocarray(null, count, each)
                }
                AlignedAlloc => libc::aligned_alloc(align, size),
                PosixMemalign => {
                    let mut result = null;
                    let align = align.max(size_of::<Pointer>());
                    match libc::posix_memalign(&raw mut result, align, size) {
                        0 => result,
                        _ => null,
                    }
                }
                Memalign => libc::memalign(align, size),
                Valloc => (self.valloc)(size),
                Pvalloc => (self.pvalloc)(size),
                New => (self.news[0])(size),
                NewArray => (self.news[1])(size),
                NewNothrow => (self.news_nothrow[0])(size, null),
                NewArrayNothrow => (self.news_nothrow[1])(size, null),
                NewAligned => (self.news_aligned[0])(size, align),
                NewArrayAligned => (self.news_aligned[1])(size, align),
                NewAlignedNothrow => (self.news_aligned_nothrow[0])(size, align, null),
                NewArrayAlignedNothrow => (self.news_aligned_nothrow[1])(size, align, null),
            }
        }
    }

    /// The bytes that can be used.
    ///
    /// # Safety
    /// `object` is one of malloc's, in use by the caller.
    pub(crate) unsafe fn usable_size(&self, object: Pointer) -> usize {
        // SAFETY: the caller's promise.
        unsafe { (self.usable_size)(object) }
    }

    /// Gives an object back, by one of the functions that belong to the one that gave it out.
    ///
    /// # Safety
    /// `object` answers that request, and nobody uses it any longer.
    pub(crate) unsafe fn free(&self, object: Pointer, request: Request, rng: &mut Rng) {
        let Request { call, size, align } = request;
        if call.is_of_c() {
            // SAFETY: the caller's promise.
            return unsafe { self.free_of_c(object, request, rng) };
        }
        let array = usize::from(matches!(
            call,
            NewArray | NewArrayNothrow | NewArrayAligned | NewArrayAlignedNothrow
        ));
        let any = rng.below(3);
        let null = ptr::null_mut();
        // SAFETY: the caller's promise.
        unsafe {
            match (call.takes_alignment(), any) {
                (false, 0) => (self.deletes[array])(object),
                (false, 1) => (self.deletes_sized[array])(object, size),
                (false, _) => (self.deletes_nothrow[array])(object, null),
                (true, 0) => (self.deletes_aligned[array])(object, align),
                (true, 1) => (self.deletes_sized_aligned[array])(object, size, align),
                (true, _) => (self.deletes_aligned_nothrow[array])(object, align, null),
            }
        }
    }

    unsafe fn free_of_c(&self, object: Pointer, request: Request, rng: &mut Rng) {
        let Request { call, size, align } = request;
        // SAFETY: the caller's promise.
        unsafe {
            match call {
                Malloc | Calloc | Realloc | Reallocarray if rng.one_in(4) => {
                    (self.free_sized)(object, size);
                }
                AlignedAlloc if rng.one_in(2) => (self.free_aligned_sized)(object, align, size),
                _ if rng.one_in(16) => (self.cfree)(object),
                _ => libc::free(object),
            }
        }
    }
}

/// Resizes an object that C's functions gave out, to at least one byte.
///
/// # Safety
/// `object` is one of malloc's, in use by the caller alone, and only what is returned is used
/// afterwards.
pub(crate) unsafe fn resize(object: Pointer, size: usize, rng: &mut Rng) -> Pointer {
    // SAFETY: the caller's promise.
    unsafe {
        if rng.one_in(2) {
            return libc::realloc(object, size);
        }
        let (count, each) = factors(size, rng);
        libc::reallocarray(object, count, each)
    }
}

/// Two numbers whose product is `size`.
fn factors(size: usize, rng: &mut Rng) -> (usize, usize) {
    let each = [1, 2, 3, 8, 24][rng.below(5)];
    if size.is_multiple_of(each) { (size / each, each) } else { (1, size) }
}
