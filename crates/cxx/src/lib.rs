//! The C++ operators `new` and `delete`, under their mangled names (Itanium C++ ABI, 64-bit), for
//! libraries that replace `malloc`.
//!
//! When there is no memory, the throwing forms call the program's new-handler until there is some,
//! and throw `std::bad_alloc` when there is no handler; the C++ library is found when it is needed
//! for that. The forms that do not throw return null, after asking the handler likewise.
//!
//! A program may replace some forms and leave the others, which the standard defines by them: those
//! for arrays by those for single objects, `delete` with a size by that without, `new` that does
//! not throw by that which does. So all forms but four call others, whoever's these are.
//!
//! This crate must not know where memory comes from.
#![no_std]

mod library;
mod loaded;

use core::ffi::c_void;
use freehold_sys::own;
use library::Form;

#[doc(hidden)]
pub use freehold_sys::leave_to_first;

/// What an operator allocates with: size and alignment in, an object or null out.
pub type Allocate = extern "C" fn(size: usize, align: usize) -> *mut c_void;

/// The alignment of the operators that are not asked for one.
pub const USUAL_ALIGN: usize = 16;

type New = extern "C-unwind" fn(usize) -> *mut c_void;
type AlignedNew = extern "C-unwind" fn(usize, usize) -> *mut c_void;

freehold_sys::first_function! {
    /// Whoever's `operator new(size_t)` comes first in the process.
    fn first_new() -> New = "_Znwm" in "freehold_first_new";
}

freehold_sys::first_function! {
    /// Whoever's `operator new[](size_t)` comes first in the process.
    fn first_array_new() -> New = "_Znam" in "freehold_first_array_new";
}

freehold_sys::first_function! {
    /// Whoever's `operator new(size_t, align_val_t)` comes first in the process.
    fn first_aligned_new() -> AlignedNew =
        "_ZnwmSt11align_val_t" in "freehold_first_aligned_new";
}

freehold_sys::first_function! {
    /// Whoever's `operator new[](size_t, align_val_t)` comes first in the process.
    fn first_aligned_array_new() -> AlignedNew =
        "_ZnamSt11align_val_t" in "freehold_first_aligned_array_new";
}

freehold_sys::first_function! { "_ZdlPv" in "freehold_first_delete"; }
freehold_sys::first_function! { "_ZdaPv" in "freehold_first_array_delete"; }
freehold_sys::first_function! { "_ZdlPvSt11align_val_t" in "freehold_first_aligned_delete"; }
freehold_sys::first_function! { "_ZdaPvSt11align_val_t" in "freehold_first_aligned_array_delete"; }

/// `new`: asks the handler until there is memory, and throws if it must.
#[inline]
pub extern "C-unwind" fn new(size: usize, align: usize, allocate: Allocate) -> *mut c_void {
    loop {
        let object = allocate(size, align);
        if !object.is_null() {
            return object;
        }
        match library::handler() {
            // SAFETY: the program set it to be called like this.
            Some(handler) => unsafe { handler() },
            None => library::throw_bad_alloc(size),
        }
    }
}

/// `new` that returns null where the form that throws would throw.
#[inline]
pub extern "C-unwind" fn new_or_null(
    size: usize,
    nothrow: *const c_void,
    is_array: bool,
    allocate: Allocate,
) -> *mut c_void {
    type Type = extern "C-unwind" fn(usize, *const c_void) -> *mut c_void;
    static SINGLE: Form = Form::named(c"_ZnwmRKSt9nothrow_t");
    static ARRAY: Form = Form::named(c"_ZnamRKSt9nothrow_t");
    let (throwing, form) =
        if is_array { (first_array_new(), &ARRAY) } else { (first_new(), &SINGLE) };
    let is_ours = [throwing, first_new()].iter().all(|&it| own::is_own(it as *const ()));
    let other = |form| match form {
        // SAFETY: whatever bears that name is of that type.
        Some(form) => unsafe { core::mem::transmute::<*const (), Type>(form)(size, nothrow) },
        None => throwing(size),
    };
    without_throwing(form, is_ours, || allocate(size, USUAL_ALIGN), other)
}

/// `new` with an alignment that returns null where the form that throws would throw.
#[inline]
pub extern "C-unwind" fn aligned_new_or_null(
    size: usize,
    align: usize,
    nothrow: *const c_void,
    is_array: bool,
    allocate: Allocate,
) -> *mut c_void {
    type Type = extern "C-unwind" fn(usize, usize, *const c_void) -> *mut c_void;
    static SINGLE: Form = Form::named(c"_ZnwmSt11align_val_tRKSt9nothrow_t");
    static ARRAY: Form = Form::named(c"_ZnamSt11align_val_tRKSt9nothrow_t");
    let (throwing, form) =
        if is_array { (first_aligned_array_new(), &ARRAY) } else { (first_aligned_new(), &SINGLE) };
    let is_ours = [throwing, first_aligned_new()].iter().all(|&it| own::is_own(it as *const ()));
    let other = |form| match form {
        // SAFETY: whatever bears that name is of that type.
        Some(form) => unsafe {
            core::mem::transmute::<*const (), Type>(form)(size, align, nothrow)
        },
        None => throwing(size, align),
    };
    without_throwing(form, is_ours, || allocate(size, align), other)
}

/// Handlers and others' operators may throw, and nothing here can catch: the C++ library's form
/// does, which calls the one that throws. `other` calls that, or what throws if there is none.
#[inline(always)]
fn without_throwing(
    form: &Form,
    is_ours: bool,
    allocate: impl Fn() -> *mut c_void,
    other: impl FnOnce(Option<*const ()>) -> *mut c_void,
) -> *mut c_void {
    if !is_ours {
        return other(form.find());
    }
    let mut object = allocate();
    while object.is_null() {
        let Some(handler) = library::handler() else { break };
        let found = form.find();
        if found.is_some() {
            return other(found);
        }
        // SAFETY: the program set it to be called like this.
        unsafe { handler() };
        object = allocate();
    }
    object
}

/// Defines `operator new(size_t)` by calling an `extern "C-unwind" fn(size: usize) -> *mut c_void`,
/// and `operator delete(void*)` by calling an `unsafe fn(*mut c_void)`, which gets null as well. On
/// their own, since who wants them to be fast writes them.
#[macro_export]
macro_rules! usual_operators {
    ($new:path, $delete:path) => {
        /// `operator new(size_t)`
        #[unsafe(no_mangle)]
        pub extern "C-unwind" fn _Znwm(size: usize) -> *mut core::ffi::c_void {
            $new(size)
        }

        /// `operator delete(void*)`
        ///
        /// # Safety
        /// `object` is null, or an object that nobody uses any longer.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn _ZdlPv(object: *mut core::ffi::c_void) {
            // SAFETY: the caller's promise.
            unsafe { $delete(object) }
        }
    };
}

/// Defines all other operators: by calling an [`Allocate`], and an `unsafe fn(*mut c_void)`, which
/// gets null as well.
#[macro_export]
macro_rules! operators {
    ($allocate:path, $delete:path) => {
        /// `operator new(size_t, align_val_t)`
        #[unsafe(no_mangle)]
        pub extern "C-unwind" fn _ZnwmSt11align_val_t(
            size: usize,
            align: usize,
        ) -> *mut core::ffi::c_void {
            $crate::new(size, align, $allocate)
        }

        /// `operator delete(void*, align_val_t)`
        ///
        /// # Safety
        /// `object` is null, or an object that nobody uses any longer.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn _ZdlPvSt11align_val_t(
            object: *mut core::ffi::c_void,
            _align: usize,
        ) {
            // SAFETY: the caller's promise.
            unsafe { $delete(object) }
        }

        $crate::forms_that_do_not_throw! {
            $allocate:
            /// `operator new(size_t, nothrow)`
            _ZnwmRKSt9nothrow_t() = new_or_null(false);
            /// `operator new[](size_t, nothrow)`
            _ZnamRKSt9nothrow_t() = new_or_null(true);
            /// `operator new(size_t, align_val_t, nothrow)`
            _ZnwmSt11align_val_tRKSt9nothrow_t(align) = aligned_new_or_null(false);
            /// `operator new[](size_t, align_val_t, nothrow)`
            _ZnamSt11align_val_tRKSt9nothrow_t(align) = aligned_new_or_null(true);
        }
        $crate::forms_of_new! {
            /// `operator new[](size_t)`
            _Znam(size: usize) = "freehold_first_new";
            /// `operator new[](size_t, align_val_t)`
            _ZnamSt11align_val_t(size: usize, align: usize) = "freehold_first_aligned_new";
        }
        $crate::forms_of_delete! {
            /// `operator delete[](void*)`
            _ZdaPv() = "freehold_first_delete";
            /// `operator delete(void*, size_t)`
            _ZdlPvm(size: usize) = "freehold_first_delete";
            /// `operator delete[](void*, size_t)`
            _ZdaPvm(size: usize) = "freehold_first_array_delete";
            /// `operator delete(void*, nothrow)`
            _ZdlPvRKSt9nothrow_t(nothrow: *const core::ffi::c_void) = "freehold_first_delete";
            /// `operator delete[](void*, nothrow)`
            _ZdaPvRKSt9nothrow_t(nothrow: *const core::ffi::c_void) =
                "freehold_first_array_delete";
            /// `operator delete[](void*, align_val_t)`
            _ZdaPvSt11align_val_t(align: usize) = "freehold_first_aligned_delete";
            /// `operator delete(void*, size_t, align_val_t)`
            _ZdlPvmSt11align_val_t(size: usize, align: usize) =
                "freehold_first_aligned_delete" without size;
            /// `operator delete[](void*, size_t, align_val_t)`
            _ZdaPvmSt11align_val_t(size: usize, align: usize) =
                "freehold_first_aligned_array_delete" without size;
            /// `operator delete(void*, align_val_t, nothrow)`
            _ZdlPvSt11align_val_tRKSt9nothrow_t(
                align: usize, nothrow: *const core::ffi::c_void) =
                "freehold_first_aligned_delete";
            /// `operator delete[](void*, align_val_t, nothrow)`
            _ZdaPvSt11align_val_tRKSt9nothrow_t(
                align: usize, nothrow: *const core::ffi::c_void) =
                "freehold_first_aligned_array_delete";
        }
    };
}

/// Defines forms of `new` that do not throw: mangled name, alignment if any, which of this crate's
/// functions it is, and whether for arrays.
#[doc(hidden)]
#[macro_export]
macro_rules! forms_that_do_not_throw {
    ($allocate:path: $($(#[$doc:meta])*
        $name:ident($($align:ident)?) = $form:ident($is_array:literal);)*) => {
        $(
            $(#[$doc])*
            #[unsafe(no_mangle)]
            pub extern "C-unwind" fn $name(
                size: usize, $($align: usize,)? nothrow: *const core::ffi::c_void
            ) -> *mut core::ffi::c_void {
                $crate::$form(size, $($align,)? nothrow, $is_array, $allocate)
            }
        )*
    };
}

/// Defines forms of `new` that are another one: mangled name, arguments, and the word with the
/// address of the other.
#[doc(hidden)]
#[macro_export]
macro_rules! forms_of_new {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) = $slot:literal;)*) => {
        $(
            $(#[$doc])*
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub extern "C-unwind" fn $name($($argument: $type),*) -> *mut core::ffi::c_void {
                $crate::leave_to_first!($slot)
            }
        )*
    };
}

/// Defines forms of `delete` that are another one: mangled name, arguments after the first, and the
/// word with the address of the other, which has no use for the rest.
#[doc(hidden)]
#[macro_export]
macro_rules! forms_of_delete {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) =
        $slot:literal $(without $left_out:ident)?;)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// `object` is null, or an object that nobody uses any longer.
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub unsafe extern "C-unwind" fn $name(
                object: *mut core::ffi::c_void, $($argument: $type),*
            ) {
                $crate::leave_to_first!($slot $(without $left_out)?)
            }
        )*
    };
}
