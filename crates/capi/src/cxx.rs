//! The C++ operators `new` and `delete`, under their mangled names (Itanium C++ ABI, 64-bit).
//!
//! When there is no memory, the throwing forms call the program's new-handler until there is some,
//! and throw `std::bad_alloc` when there is no handler; the C++ library does both, and is found
//! when it is needed. The forms that do not throw return null, after asking the handler likewise.

use core::ffi::c_void;
use freehold_rt::slow;

type Handler = unsafe extern "C-unwind" fn();

freehold_sys::weak_function! {
    /// `std::get_new_handler`, in programs with C++.
    fn get_new_handler() -> Option<unsafe extern "C-unwind" fn() -> Option<Handler>> =
        "_ZSt15get_new_handlerv" in "freehold_get_new_handler";
}

freehold_sys::weak_function! {
    /// `std::__throw_bad_alloc`, in programs with C++.
    fn throw_bad_alloc() -> Option<unsafe extern "C-unwind" fn() -> !> =
        "_ZSt17__throw_bad_allocv" in "freehold_throw_bad_alloc";
}

/// `new` when the fast path had nothing: asks the handler until there is memory, and throws if it
/// must.
#[cold]
#[inline(never)]
extern "C-unwind" fn new_slow(size: usize, align: usize) -> *mut c_void {
    let object = new_or_null(size, align);
    if !object.is_null() {
        return object;
    }
    if let Some(throw) = throw_bad_alloc() {
        // SAFETY: it throws through frames that can be unwound.
        unsafe { throw() };
    }
    freehold_sys::process::abort()
}

/// `new` that returns null when there is no memory and no handler that provides some.
#[cold]
#[inline(never)]
extern "C-unwind" fn new_or_null(size: usize, align: usize) -> *mut c_void {
    loop {
        let object = slow::allocate_aligned(size, align);
        if !object.is_null() {
            return object.cast();
        }
        // SAFETY: it takes nothing, and may be called at any time.
        let Some(handler) = get_new_handler().and_then(|get| unsafe { get() }) else {
            return core::ptr::null_mut();
        };
        // SAFETY: the program set it to be called like this.
        unsafe { handler() };
    }
}

const USUAL_ALIGN: usize = 16;

/// [`new_slow`] for the usual alignment.
#[cold]
#[inline(never)]
extern "C-unwind" fn new_slow_usual(size: usize) -> *mut c_void {
    new_slow(size, USUAL_ALIGN)
}

/// Defines the forms of `new` that are used most.
macro_rules! usual_forms_of_new {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $(
            $(#[$doc])*
            #[cfg(target_arch = "x86_64")]
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub extern "C-unwind" fn $name(size: usize) -> *mut c_void {
                freehold_rt::naked_allocate!(new_slow_usual)
            }

            $(#[$doc])*
            #[cfg(not(target_arch = "x86_64"))]
            #[unsafe(no_mangle)]
            pub extern "C-unwind" fn $name(size: usize) -> *mut c_void {
                match freehold_rt::try_allocate(size) {
                    Some(object) => object.as_ptr().cast(),
                    None => new_slow_usual(size),
                }
            }
        )*
    };
}

/// Defines the other forms of `new`: mangled name, arguments, how to get the memory.
macro_rules! forms_of_new {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) = $body:expr;)*) => {
        $(
            $(#[$doc])*
            #[unsafe(no_mangle)]
            pub extern "C-unwind" fn $name($($argument: $type),*) -> *mut c_void {
                $body
            }
        )*
    };
}

/// Defines the forms of `delete`: mangled name, and arguments after the first, which are not relied
/// upon.
macro_rules! forms_of_delete {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*);)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// `object` is null, or an object that nobody uses any longer.
            #[unsafe(no_mangle)]
            pub unsafe extern "C-unwind" fn $name(object: *mut c_void, $($argument: $type),*) {
                // SAFETY: the caller's promise.
                unsafe { freehold_rt::deallocate(object.cast()) }
            }
        )*
    };
}

usual_forms_of_new! {
    /// `operator new(size_t)`
    _Znwm;
    /// `operator new[](size_t)`
    _Znam;
}

forms_of_new! {
    /// `operator new(size_t, nothrow)`
    _ZnwmRKSt9nothrow_t(size: usize, _nothrow: *const c_void) = new_or_null(size, USUAL_ALIGN);
    /// `operator new[](size_t, nothrow)`
    _ZnamRKSt9nothrow_t(size: usize, _nothrow: *const c_void) = new_or_null(size, USUAL_ALIGN);
    /// `operator new(size_t, align_val_t)`
    _ZnwmSt11align_val_t(size: usize, align: usize) = new_slow(size, align);
    /// `operator new[](size_t, align_val_t)`
    _ZnamSt11align_val_t(size: usize, align: usize) = new_slow(size, align);
    /// `operator new(size_t, align_val_t, nothrow)`
    _ZnwmSt11align_val_tRKSt9nothrow_t(size: usize, align: usize, _nothrow: *const c_void)
        = new_or_null(size, align);
    /// `operator new[](size_t, align_val_t, nothrow)`
    _ZnamSt11align_val_tRKSt9nothrow_t(size: usize, align: usize, _nothrow: *const c_void)
        = new_or_null(size, align);
}

forms_of_delete! {
    /// `operator delete(void*)`
    _ZdlPv();
    /// `operator delete[](void*)`
    _ZdaPv();
    /// `operator delete(void*, nothrow)`
    _ZdlPvRKSt9nothrow_t(_nothrow: *const c_void);
    /// `operator delete[](void*, nothrow)`
    _ZdaPvRKSt9nothrow_t(_nothrow: *const c_void);
    /// `operator delete(void*, size_t)`
    _ZdlPvm(_size: usize);
    /// `operator delete[](void*, size_t)`
    _ZdaPvm(_size: usize);
    /// `operator delete(void*, align_val_t)`
    _ZdlPvSt11align_val_t(_align: usize);
    /// `operator delete[](void*, align_val_t)`
    _ZdaPvSt11align_val_t(_align: usize);
    /// `operator delete(void*, size_t, align_val_t)`
    _ZdlPvmSt11align_val_t(_size: usize, _align: usize);
    /// `operator delete[](void*, size_t, align_val_t)`
    _ZdaPvmSt11align_val_t(_size: usize, _align: usize);
    /// `operator delete(void*, align_val_t, nothrow)`
    _ZdlPvSt11align_val_tRKSt9nothrow_t(_align: usize, _nothrow: *const c_void);
    /// `operator delete[](void*, align_val_t, nothrow)`
    _ZdaPvSt11align_val_tRKSt9nothrow_t(_align: usize, _nothrow: *const c_void);
}
