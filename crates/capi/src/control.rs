//! What `freehold.h` declares.

use core::ffi::{c_char, c_int, c_void};

/// The version, with the zero byte that ends a C string.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");

/// The version as text, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn freehold_version() -> *const c_char {
    VERSION.as_ptr().cast()
}

const fn number(text: &str) -> c_int {
    let (mut value, mut i) = (0, 0);
    while i < text.len() {
        value = value * 10 + (text.as_bytes()[i] - b'0') as c_int;
        i += 1;
    }
    value
}

/// The version as a number: major times 10000, plus minor times 100, plus patch.
#[unsafe(no_mangle)]
pub extern "C" fn freehold_version_number() -> c_int {
    const MAJOR: c_int = number(env!("CARGO_PKG_VERSION_MAJOR"));
    const MINOR: c_int = number(env!("CARGO_PKG_VERSION_MINOR"));
    const PATCH: c_int = number(env!("CARGO_PKG_VERSION_PATCH"));
    MAJOR * 10_000 + MINOR * 100 + PATCH
}

/// Looks at all objects of a process that is debugged, and returns how many are damaged; -1 if it
/// is not debugged.
#[unsafe(no_mangle)]
pub extern "C" fn freehold_check_heap() -> c_int {
    let damaged = freehold_rt::slow::check_heap();
    damaged.map_or(-1, |count| c_int::try_from(count).unwrap_or(c_int::MAX))
}

/// 1 if `object` points into memory of Freehold's, else 0.
#[unsafe(no_mangle)]
pub extern "C" fn freehold_owns(object: *const c_void) -> c_int {
    freehold_rt::slow::owns(object.cast()).into()
}
