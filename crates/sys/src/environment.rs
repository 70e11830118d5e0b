//! The environment that the process was started with, without the C library's copy of it, which
//! may not be there yet or be changing.

use crate::process::File;
use core::ffi::CStr;

/// Calls `each` with every variable whose name starts with `prefix`, as `NAME=value`, cut to the
/// first [`MOST`] bytes. Source: `proc(5)`.
pub fn each_with_prefix(prefix: &[u8], mut each: impl FnMut(&[u8])) {
    let Some(file) = File::open(c"/proc/self/environ") else { return };
    let (mut buffer, mut line, mut used) = ([0; 512], [0; MOST], 0);
    loop {
        let n = file.read(&mut buffer);
        let ended = n == 0;
        for &byte in if ended { &[0][..] } else { &buffer[..n] } {
            if byte != 0 {
                if used < MOST {
                    line[used] = byte;
                    used += 1;
                }
                continue;
            }
            if line[..used].starts_with(prefix) {
                each(&line[..used]);
            }
            used = 0;
        }
        if ended {
            return;
        }
    }
}

/// The value of a variable, which names a file: at most 4096 bytes with the zero at its end.
pub fn file_named<'a>(name: &[u8], value: &'a mut [u8; 4096]) -> Option<&'a CStr> {
    let environment = File::open(c"/proc/self/environ")?;
    let mut buffer = [0; 1024];
    // How much of the name has been seen, while the entry may still be the one.
    let mut matched = Some(0);
    let mut used = 0;
    loop {
        let read = environment.read(&mut buffer);
        if read == 0 {
            return None;
        }
        for &byte in &buffer[..read] {
            match matched {
                Some(seen) if seen > name.len() => {
                    *value.get_mut(used)? = byte;
                    used += 1;
                    if byte == 0 {
                        return CStr::from_bytes_with_nul(&value[..used]).ok();
                    }
                }
                Some(seen) if name.get(seen).copied().unwrap_or(b'=') == byte => {
                    matched = Some(seen + 1);
                }
                _ => matched = (byte == 0).then_some(0),
            }
        }
    }
}

/// Whether the program was given rights as it was started, by a set-user-ID bit for instance: then
/// it must not do what the environment says if that can do harm. Source: `AT_SECURE` in
/// `getauxval(3)`.
pub fn is_privileged() -> bool {
    const AT_SECURE: u64 = 23;
    let mut vector = [0_u64; 64];
    let Some(file) = File::open(c"/proc/self/auxv") else { return true };
    // SAFETY: a u64 array may be viewed and written as bytes; the view ends with this statement.
    let read = file.read(unsafe {
        core::slice::from_raw_parts_mut(vector.as_mut_ptr().cast::<u8>(), size_of_val(&vector))
    });
    let mut pairs = vector[..read / 8].chunks_exact(2);
    pairs.find(|pair| pair[0] == AT_SECURE).is_none_or(|pair| pair[1] != 0)
}

/// The longest part of a variable that is looked at, with its name.
pub const MOST: usize = 256;

/// The value in `NAME=value`, if `name` is the name. Not taken apart by the compiler: names are
/// found in the library as they are.
#[inline(never)]
pub fn value_of<'a>(variable: &'a [u8], name: &CStr) -> Option<&'a [u8]> {
    variable.strip_prefix(name.to_bytes())?.strip_prefix(b"=")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_found_as_they_were_at_the_start() {
        for (name, value) in std::env::vars() {
            let line = std::format!("{name}={value}").into_bytes();
            let mut told = false;
            each_with_prefix(std::format!("{name}=").as_bytes(), |variable| {
                told |= variable == &line[..line.len().min(MOST)];
            });
            assert!(told, "{name}");
        }
        each_with_prefix(b"FREEHOLD_NO_SUCH_VARIABLE", |_| panic!("there is none"));
    }

    #[test]
    fn each_variable_of_a_prefix_is_told_with_its_value() {
        let mut told = std::vec::Vec::new();
        each_with_prefix(b"PATH=", |line| told.push(line.to_vec()));
        let path = std::env::var("PATH").unwrap();
        let expected = std::format!("PATH={path}").into_bytes();
        assert_eq!(told, [expected[..expected.len().min(MOST)].to_vec()]);
    }

    #[test]
    fn a_test_was_given_no_rights() {
        assert!(!is_privileged());
    }
}
