//! What the kernel says about an address: the line of `/proc/self/maps` that contains it.

use core::fmt;
use core::ops::Range;
use freehold_sys::process::File;

/// A mapping of the process.
pub(crate) struct Mapping {
    /// Its line, without the newline, as far as there was room for it.
    line: [u8; 256],
    used: usize,
    /// Where the last file began that was seen to be mapped from its start, and a hash of its name.
    base: Option<(usize, u64)>,
}

impl Mapping {
    /// The mapping that contains `address`, if there is one and `/proc` can be read.
    pub(crate) fn containing(address: usize) -> Option<Self> {
        let file = File::open(c"/proc/self/maps")?;
        let mut buffer = [0_u8; 1024];
        let mut found = Self { line: [0; 256], used: 0, base: None };
        loop {
            let read = file.read(&mut buffer);
            if read == 0 {
                return None;
            }
            for &byte in &buffer[..read] {
                if byte != b'\n' {
                    if found.used < found.line.len() {
                        found.line[found.used] = byte;
                        found.used += 1;
                    }
                    continue;
                }
                found.note_base();
                if found.contains(address) {
                    return Some(found);
                }
                found.used = 0;
            }
        }
    }

    /// Remembers where a file begins.
    fn note_base(&mut self) {
        let field = |n: usize| self.text().split(' ').nth(n).unwrap_or("");
        let from_its_start = number(field(2)) == Some(0) && field(1).starts_with('r');
        if from_its_start && self.name().starts_with('/') {
            self.base = self.range().map(|range| (range.start, hash(self.name())));
        }
    }

    /// Where the start of the file is mapped that this is a mapping of, readably.
    pub(crate) fn base(&self) -> Option<usize> {
        let (base, name) = self.base?;
        (name == hash(self.name())).then_some(base)
    }

    fn text(&self) -> &str {
        core::str::from_utf8(&self.line[..self.used]).unwrap_or("")
    }

    fn contains(&self, address: usize) -> bool {
        self.range().is_some_and(|range| range.contains(&address))
    }

    /// The addresses that are mapped.
    pub(crate) fn range(&self) -> Option<Range<usize>> {
        let (from, to) = self.text().split(' ').next()?.split_once('-')?;
        Some(number(from)?..number(to)?)
    }

    /// Whether it can be read and written.
    pub(crate) fn is_writable(&self) -> bool {
        self.text().split(' ').nth(1).is_some_and(|rights| rights.starts_with("rw"))
    }

    /// The file or the kernel's name for it; empty for anonymous memory.
    pub(crate) fn name(&self) -> &str {
        self.text().split_ascii_whitespace().nth(5).unwrap_or("")
    }
}

/// A number that tells names apart: FNV-1a.
fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn number(hexadecimal: &str) -> Option<usize> {
    usize::from_str_radix(hexadecimal, 16).ok()
}

impl fmt::Display for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            "" => f.write_str("anonymous memory"),
            "[heap]" => f.write_str("the heap of the C library's own malloc"),
            "[stack]" => f.write_str("the stack of the first thread"),
            name => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_found_by_any_address_in_them() {
        let local = 1;
        let stack = core::ptr::from_ref(&local).addr();
        let mapping = Mapping::containing(stack).unwrap();
        assert!(mapping.is_writable() && mapping.range().unwrap().contains(&stack));
        let code = mappings_are_found_by_any_address_in_them as fn() as usize;
        let mapping = Mapping::containing(code).unwrap();
        assert!(mapping.name().contains("freehold_rt") && !mapping.is_writable());
        assert!(Mapping::containing(1).is_none());
    }
}
