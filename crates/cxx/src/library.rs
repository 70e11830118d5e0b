//! The C++ library: what is asked of it when there is no memory. It may be linked into the program,
//! loaded with it, or come later, with a plugin; or there is none.

use crate::loaded;
use core::ffi::{CStr, c_void};
use core::fmt::Write as _;
use core::sync::atomic::{AtomicPtr, Ordering};
use core::{mem, ptr};
use freehold_sys::{process, stderr};

pub(crate) type Handler = unsafe extern "C-unwind" fn();
type GetHandler = unsafe extern "C-unwind" fn() -> Option<Handler>;
type AllocateException = unsafe extern "C-unwind" fn(size: usize) -> *mut c_void;
type Destructor = unsafe extern "C-unwind" fn(*mut c_void);
type Type = *const c_void;
type Throw = unsafe extern "C-unwind" fn(*mut c_void, Type, Option<Destructor>) -> !;

const GET_HANDLER: &CStr = c"_ZSt15get_new_handlerv";

freehold_sys::weak_function! {
    /// `std::get_new_handler`.
    fn get_new_handler() -> Option<GetHandler> =
        "_ZSt15get_new_handlerv" in "freehold_get_new_handler";
}

freehold_sys::weak_function! {
    fn allocate_exception() -> Option<AllocateException> =
        "__cxa_allocate_exception" in "freehold_cxa_allocate_exception";
}

freehold_sys::weak_function! {
    fn throw() -> Option<Throw> = "__cxa_throw" in "freehold_cxa_throw";
}

freehold_sys::weak_variable! {
    /// The table of functions of `std::bad_alloc`.
    fn bad_alloc_vtable() -> *const *const c_void =
        "_ZTVSt9bad_alloc" in "freehold_bad_alloc_vtable";
}

/// The program's new-handler, if it has set one.
#[cold]
pub(crate) fn handler() -> Option<Handler> {
    let get = get_new_handler().or_else(|| {
        let [get] = loaded::find([GET_HANDLER])?;
        // SAFETY: whatever bears that name is of that type.
        Some(unsafe { mem::transmute::<*const (), GetHandler>(get) })
    })?;
    // SAFETY: it takes nothing, and may be called at any time.
    unsafe { get() }
}

/// A form of `new` as the C++ library has it.
pub(crate) struct Form {
    name: &'static CStr,
    found: AtomicPtr<()>,
}

impl Form {
    pub(crate) const fn named(name: &'static CStr) -> Self {
        Self { name, found: AtomicPtr::new(ptr::null_mut()) }
    }

    pub(crate) fn find(&self) -> Option<*const ()> {
        // Relaxed: what is there was there before.
        let found = self.found.load(Ordering::Relaxed);
        if !found.is_null() {
            return Some(found);
        }
        // Not another allocator's, whose objects would be its own.
        let [form, _] = loaded::find([self.name, GET_HANDLER])?;
        // A C++ library that came with a plugin may go with it.
        if get_new_handler().is_some() {
            self.found.store(form.cast_mut(), Ordering::Relaxed);
        }
        Some(form)
    }
}

/// What it takes to throw `std::bad_alloc`. Nothing of it is in a program that has its C++ library
/// within but what it uses: so it is not the library's function that does this, which is there only
/// where the library itself calls it, but what is there wherever `std::bad_alloc` is caught.
struct BadAlloc {
    allocate: AllocateException,
    throw: Throw,
    vtable: *const *const c_void,
}

impl BadAlloc {
    /// What was there when this library was loaded, or linked.
    fn bound() -> Option<Self> {
        let vtable = bad_alloc_vtable();
        let all = Self { allocate: allocate_exception()?, throw: throw()?, vtable };
        (!vtable.is_null()).then_some(all)
    }

    /// What has come since.
    fn found() -> Option<Self> {
        let [allocate, throw, vtable] =
            loaded::find([c"__cxa_allocate_exception", c"__cxa_throw", c"_ZTVSt9bad_alloc"])?;
        // SAFETY: whatever bears these names is of these types.
        let (allocate, throw) = unsafe {
            (
                mem::transmute::<*const (), AllocateException>(allocate),
                mem::transmute::<*const (), Throw>(throw),
            )
        };
        Some(Self { allocate, throw, vtable: vtable.cast() })
    }

    /// The table begins with two words, of which the second is the type, and objects point behind
    /// them (Itanium C++ ABI, 2.5.2). A pointer is all that an object of this class consists of, so
    /// that there is nothing to destroy.
    fn throw(self) -> ! {
        // SAFETY: the exception has room for the object, and is thrown with its type, through
        // frames that can be unwound.
        unsafe {
            let exception = (self.allocate)(size_of::<*const ()>());
            exception.cast::<*const *const c_void>().write(self.vtable.add(2));
            (self.throw)(exception, self.vtable.add(1).read(), None)
        }
    }
}

/// Throws `std::bad_alloc`, or says why it cannot and ends the process.
#[cold]
pub(crate) fn throw_bad_alloc(size: usize) -> ! {
    if let Some(it) = BadAlloc::bound().or_else(BadAlloc::found) {
        it.throw();
    }
    let mut message = stderr::Message::new();
    // Writing to a fixed buffer cannot fail.
    let _ = writeln!(
        message,
        "freehold: operator new: no memory for {size} bytes, and no C++ library to throw \
         std::bad_alloc; aborting"
    );
    drop(message);
    process::abort()
}
