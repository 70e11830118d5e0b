//! The settings: variables of the environment that are meant for this library.
//!
//! They are read as the arena is made, from the kernel, since the C library's list may not be there
//! yet, or be changing. That takes six system calls, a seventh of what a program that prints a line
//! pays for the library. So the constructor, to which glibc gives the list before anything of the
//! program has run, looks whether there is a setting at all. Mostly there is none, and nothing has
//! to be read. Where there is one, or no such list, or where the arena is made before, they are
//! read as ever.

use crate::words::line;
use core::ffi::{CStr, c_char, c_int};
use freehold_sync::atomic::{AtomicBool, Ordering};
use freehold_sys::environment;

/// What their names start with.
const PREFIX: &[u8] = b"FREEHOLD_";

/// Whether the program was started without any, for certain.
static NONE_GIVEN: AtomicBool = AtomicBool::new(false);

/// Calls `each` with every one, as `NAME=value`.
pub(crate) fn each(mut each: impl FnMut(&[u8])) {
    // Relaxed: whoever does not see it reads them, and finds none.
    if !NONE_GIVEN.load(Ordering::Relaxed) {
        read(&mut each);
    }
}

/// Reads them. (By a pointer, so that what is done with them does not stand among what every
/// process runs.)
#[cold]
#[inline(never)]
fn read(each: &mut dyn FnMut(&[u8])) {
    environment::each_with_prefix(PREFIX, each);
}

/// What a variable says that is a switch, if it is the one of this name: on, off, or nothing. What
/// is none of these is said.
pub(crate) fn switch(variable: &[u8], name: &CStr) -> Option<bool> {
    match environment::value_of(variable, name)? {
        b"" => None,
        b"0" | b"off" => Some(false),
        b"1" | b"on" => Some(true),
        _ => {
            let name = name.to_str().unwrap_or("a setting");
            line(format_args!("freehold: {name} is neither 0 nor 1, and is ignored"));
            None
        }
    }
}

type Strings = *const *const c_char;

/// Runs as the program starts, or when the library is loaded. Other C libraries than glibc call it
/// without arguments.
extern "C" fn look(count: c_int, arguments: Strings, list: Strings) {
    // SAFETY: glibc gives a constructor what the program is given, before that runs. If the library
    // is loaded later and the list is still that one, it stays a list of strings, whatever others
    // do.
    if cfg!(target_env = "gnu") && unsafe { has_none(count, arguments, list) } {
        NONE_GIVEN.store(true, Ordering::Relaxed);
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn(c_int, Strings, Strings) = look;

/// Whether this is the list that the kernel gave the program, which stands behind its arguments,
/// and there is no setting in it. It is another if a library is loaded after a variable was added.
///
/// # Safety
/// If `list` is right behind as many arguments and the null that ends them, it is a list of
/// strings, ended by null, and stays one meanwhile.
unsafe fn has_none(count: c_int, arguments: Strings, list: Strings) -> bool {
    let behind = arguments.wrapping_offset(count as isize + 1);
    if arguments.is_null() || count < 0 || behind != list {
        return false;
    }
    let mut at = list;
    // SAFETY: the caller's promise: a string is looked at to its end at most, and the list to its.
    unsafe {
        while !(*at).is_null() {
            let variable = *at;
            if (0..PREFIX.len()).all(|n| *variable.add(n) as u8 == PREFIX[n]) {
                return false;
            }
            at = at.add(1);
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `has_none` says of a program with one argument and these variables.
    fn says(variables: &[&core::ffi::CStr]) -> bool {
        let null = core::ptr::null();
        let mut all = std::vec![c"program".as_ptr(), null];
        all.extend(variables.iter().map(|variable| variable.as_ptr()));
        all.push(null);
        // SAFETY: the list is right behind, of strings, and ends with null.
        unsafe { has_none(1, all.as_ptr(), all[2..].as_ptr()) }
    }

    #[test]
    fn a_program_without_settings_is_told_from_one_with_any() {
        assert!(says(&[]));
        assert!(says(&[c"PATH=/bin", c"FREEHOLD", c"FREE", c"", c"XFREEHOLD_GUARD=on"]));
        assert!(!says(&[c"PATH=/bin", c"FREEHOLD_GUARD=on"]));
        assert!(!says(&[c"FREEHOLD_", c"PATH=/bin"]));
    }

    #[test]
    fn a_list_that_is_not_behind_the_arguments_is_not_looked_at() {
        let null = core::ptr::null();
        let all = [c"program".as_ptr(), null, null, null];
        // SAFETY: none of these is right behind so many arguments.
        unsafe {
            assert!(!has_none(1, all.as_ptr(), all[3..].as_ptr()));
            assert!(!has_none(0, all.as_ptr(), all[2..].as_ptr()));
            assert!(!has_none(-1, all[2..].as_ptr(), all[2..].as_ptr()));
            assert!(!has_none(1, null.cast(), core::ptr::null::<*const c_char>().wrapping_add(2)));
        }
    }
}
