//! The environment that the process was started with, without the C library's copy of it, which
//! may not be there yet or be changing.

use crate::process::File;
use core::ffi::CStr;

/// Whether the variable `name` was set to a value that starts with `value`. Source: `proc(5)`.
pub fn starts_with(name: &CStr, value: &[u8]) -> bool {
    let wanted = || name.to_bytes().iter().chain(b"=").chain(value);
    let Some(file) = File::open(c"/proc/self/environ") else { return false };
    let mut matching = Some(wanted());
    let mut buffer = [0; 512];
    loop {
        let n = file.read(&mut buffer);
        if n == 0 {
            return matching.is_some_and(|mut rest| rest.next().is_none());
        }
        for byte in &buffer[..n] {
            let next = matching.as_mut().map(Iterator::next);
            match next {
                Some(None) => return true,
                Some(Some(expected)) if expected != byte => matching = None,
                _ => {}
            }
            if *byte == 0 {
                matching = Some(wanted());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;

    #[test]
    fn variables_are_found_as_they_were_at_the_start() {
        for (name, value) in std::env::vars() {
            let name = CString::new(name).unwrap();
            assert!(starts_with(&name, value.as_bytes()), "{name:?}");
            let longer = std::format!("{value}x");
            assert!(!starts_with(&name, longer.as_bytes()), "{name:?}");
        }
        assert!(!starts_with(c"FREEHOLD_NO_SUCH_VARIABLE", b""));
    }
}
