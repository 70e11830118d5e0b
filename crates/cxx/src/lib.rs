//! The C++ operators `new` and `delete`, under their mangled names (Itanium C++ ABI, 64-bit), for
//! libraries that replace `malloc`.
//!
//! When there is no memory, the throwing forms call the program's new-handler until there is some,
//! and throw `std::bad_alloc` when there is no handler; the C++ library is found when it is needed
//! for that. The forms that do not throw return null, after asking the handler likewise.
//!
//! This crate must not know where memory comes from.
#![no_std]

mod library;
mod loaded;

use core::ffi::c_void;

/// What an operator allocates with: size and alignment in, an object or null out.
pub type Allocate = extern "C" fn(size: usize, align: usize) -> *mut c_void;

/// The alignment of the operators that are not asked for one.
pub const USUAL_ALIGN: usize = 16;

/// `new`: asks the handler until there is memory, and throws if it must.
#[inline]
pub extern "C-unwind" fn new(size: usize, align: usize, allocate: Allocate) -> *mut c_void {
    let object = new_or_null(size, align, allocate);
    if object.is_null() {
        library::throw_bad_alloc(size);
    }
    object
}

/// `new` that returns null when there is no memory and no handler that provides some.
#[inline]
pub extern "C-unwind" fn new_or_null(size: usize, align: usize, allocate: Allocate) -> *mut c_void {
    loop {
        let object = allocate(size, align);
        if !object.is_null() {
            return object;
        }
        let Some(handler) = library::handler() else {
            return core::ptr::null_mut();
        };
        // SAFETY: the program set it to be called like this.
        unsafe { handler() };
    }
}

/// Defines the two forms of `new` that are used most, as
/// `extern "C-unwind" fn(size: usize) -> *mut c_void` in the place where this is called, by calling
/// a function of the same type.
#[macro_export]
macro_rules! usual_new {
    ($new:path) => {
        /// `operator new(size_t)`
        #[unsafe(no_mangle)]
        pub extern "C-unwind" fn _Znwm(size: usize) -> *mut core::ffi::c_void {
            $new(size)
        }

        /// `operator new[](size_t)`
        #[unsafe(no_mangle)]
        pub extern "C-unwind" fn _Znam(size: usize) -> *mut core::ffi::c_void {
            $new(size)
        }
    };
}

/// Defines the forms of `delete` that are used most by calling an `unsafe fn(*mut c_void)`, which
/// gets null as well: on their own for the reason that those of `new` are.
#[macro_export]
macro_rules! usual_delete {
    ($delete:path) => {
        $crate::forms_of_delete! {
            $delete:
            /// `operator delete(void*)`
            _ZdlPv();
            /// `operator delete[](void*)`
            _ZdaPv();
            /// `operator delete(void*, size_t)`
            _ZdlPvm(_size: usize);
            /// `operator delete[](void*, size_t)`
            _ZdaPvm(_size: usize);
        }
    };
}

/// Defines the other forms of `new` by calling an [`Allocate`], and those of `delete` by calling an
/// `unsafe fn(*mut c_void)`, which gets null as well.
#[macro_export]
macro_rules! operators {
    ($allocate:path, $delete:path) => {
        $crate::forms_of_new! {
            $allocate:
            /// `operator new(size_t, nothrow)`
            _ZnwmRKSt9nothrow_t(size, _nothrow: *const core::ffi::c_void) = new_or_null;
            /// `operator new[](size_t, nothrow)`
            _ZnamRKSt9nothrow_t(size, _nothrow: *const core::ffi::c_void) = new_or_null;
        }
        $crate::forms_of_aligned_new! {
            $allocate:
            /// `operator new(size_t, align_val_t)`
            _ZnwmSt11align_val_t(size, align) = new;
            /// `operator new[](size_t, align_val_t)`
            _ZnamSt11align_val_t(size, align) = new;
            /// `operator new(size_t, align_val_t, nothrow)`
            _ZnwmSt11align_val_tRKSt9nothrow_t(
                size, align, _nothrow: *const core::ffi::c_void) = new_or_null;
            /// `operator new[](size_t, align_val_t, nothrow)`
            _ZnamSt11align_val_tRKSt9nothrow_t(
                size, align, _nothrow: *const core::ffi::c_void) = new_or_null;
        }
        $crate::forms_of_delete! {
            $delete:
            /// `operator delete(void*, nothrow)`
            _ZdlPvRKSt9nothrow_t(_nothrow: *const core::ffi::c_void);
            /// `operator delete[](void*, nothrow)`
            _ZdaPvRKSt9nothrow_t(_nothrow: *const core::ffi::c_void);
            /// `operator delete(void*, align_val_t)`
            _ZdlPvSt11align_val_t(_align: usize);
            /// `operator delete[](void*, align_val_t)`
            _ZdaPvSt11align_val_t(_align: usize);
            /// `operator delete(void*, size_t, align_val_t)`
            _ZdlPvmSt11align_val_t(_size: usize, _align: usize);
            /// `operator delete[](void*, size_t, align_val_t)`
            _ZdaPvmSt11align_val_t(_size: usize, _align: usize);
            /// `operator delete(void*, align_val_t, nothrow)`
            _ZdlPvSt11align_val_tRKSt9nothrow_t(
                _align: usize, _nothrow: *const core::ffi::c_void);
            /// `operator delete[](void*, align_val_t, nothrow)`
            _ZdaPvSt11align_val_tRKSt9nothrow_t(
                _align: usize, _nothrow: *const core::ffi::c_void);
        }
    };
}

/// Defines forms of `new` without an alignment: mangled name, arguments, which of this crate's
/// functions it is.
#[doc(hidden)]
#[macro_export]
macro_rules! forms_of_new {
    ($allocate:path: $($(#[$doc:meta])*
        $name:ident($size:ident $(, $argument:ident: $type:ty)*) = $form:ident;)*) => {
        $(
            $(#[$doc])*
            #[unsafe(no_mangle)]
            pub extern "C-unwind" fn $name(
                $size: usize $(, $argument: $type)*
            ) -> *mut core::ffi::c_void {
                $crate::$form($size, $crate::USUAL_ALIGN, $allocate)
            }
        )*
    };
}

/// Defines forms of `new` with an alignment.
#[doc(hidden)]
#[macro_export]
macro_rules! forms_of_aligned_new {
    ($allocate:path: $($(#[$doc:meta])*
        $name:ident($size:ident, $align:ident $(, $argument:ident: $type:ty)*) = $form:ident;
    )*) => {
        $(
            $(#[$doc])*
            #[unsafe(no_mangle)]
            pub extern "C-unwind" fn $name(
                $size: usize, $align: usize $(, $argument: $type)*
            ) -> *mut core::ffi::c_void {
                $crate::$form($size, $align, $allocate)
            }
        )*
    };
}

/// Defines forms of `delete`: mangled name, and arguments after the first, which are not relied
/// upon.
#[doc(hidden)]
#[macro_export]
macro_rules! forms_of_delete {
    ($delete:path: $($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*);)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// `object` is null, or an object that nobody uses any longer.
            #[unsafe(no_mangle)]
            pub unsafe extern "C-unwind" fn $name(
                object: *mut core::ffi::c_void, $($argument: $type),*
            ) {
                // SAFETY: the caller's promise.
                unsafe { $delete(object) }
            }
        )*
    };
}
