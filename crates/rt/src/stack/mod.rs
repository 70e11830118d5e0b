//! Who called: the return addresses on a thread's stack.
//!
//! Programs are mostly built without frame pointers, and the C library's and the compiler's own
//! unwinders allocate, load libraries and read whatever they are led to. So this one reads the
//! tables that each file brings along for exceptions (`table`, `rules`), finds the files by
//! `dl_iterate_phdr` (`image`), touches no part of the stack before it has asked the kernel whether
//! it can be read (`memory`), and keeps a fixed number of frames. Where code has no tables, as that
//! of just-in-time compilers, it follows the frame pointer. Nothing is allocated.
//!
//! Sources: the Linux Standard Base's "Exception Frames", DWARF 5 section 6.4, the processor
//! supplements of the System V ABI for both architectures.

pub(crate) mod image;
mod memory;
mod place;
mod registers;
mod rules;
mod table;
mod walk;

pub(crate) use place::Place;
pub(crate) use registers::Registers;

/// Frames that are kept.
pub(crate) const DEPTH: usize = 16;

/// The calls that led somewhere, the innermost first. Each is an address inside the instruction
/// that called; 0 after the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stack(pub(crate) [usize; DEPTH]);

impl Stack {
    /// The calls that led here, without those of this library, as far as it is a file of its own.
    #[inline(never)]
    pub(crate) fn here() -> Self {
        Self(walk::walk(Registers::here(), true))
    }

    /// The calls that led to where a thread was with these registers.
    pub(crate) fn of(registers: Registers) -> Self {
        Self(walk::walk(registers, false))
    }

    /// The addresses.
    pub(crate) fn frames(&self) -> impl Iterator<Item = usize> {
        self.0.iter().copied().take_while(|&it| it != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::hint::black_box;
    use freehold_heap::layout::at;
    use std::vec::Vec;

    #[inline(never)]
    fn outer(depth: usize) -> Stack {
        // Different sizes of frames, and something to do after the call.
        let filler = black_box([depth; 37]);
        let stack = if depth == 0 { Stack::here() } else { outer(depth - 1) };
        black_box(filler);
        stack
    }

    #[test]
    fn the_callers_are_found() {
        let start = outer as fn(usize) -> Stack as usize;
        let of_outer = |frame: &usize| (start..start + 1000).contains(frame);
        for depth in 0..8 {
            let frames: Vec<_> = outer(depth).frames().collect();
            let found = frames.iter().filter(|it| of_outer(it)).count();
            assert_eq!(found, depth + 1, "{frames:x?}");
            assert!(frames.len() > depth + 3, "{frames:x?}");
        }
        assert_eq!(outer(100).frames().count(), DEPTH);
    }

    #[test]
    fn the_callers_of_a_thread_end_where_it_began() {
        let frames = std::thread::spawn(|| outer(1).frames().count()).join().unwrap();
        assert!(frames < DEPTH, "{frames}");
    }

    #[test]
    fn registers_that_make_no_sense_lead_nowhere() {
        let mut registers = Registers::here();
        for value in [0, 1, 8, 0x7000_0000_0000, usize::MAX, usize::MAX - 7] {
            registers.set_stack_pointer(value);
            assert!(Stack::of(registers).frames().count() <= 2);
        }
        let data = [0x5555_5555_usize; 64];
        for word in data.iter().take(32) {
            registers.set_stack_pointer(core::ptr::from_ref(word).addr());
            Stack::of(registers);
        }
    }

    #[test]
    fn addresses_are_named_by_file_and_offset() {
        let code = outer as fn(usize) -> Stack as usize;
        let place = Place::of(code).unwrap();
        assert!(place.file().contains("freehold_rt"), "{}", place.file());
        // The same bytes are in the file, if a program's first part is mapped from its start.
        let bytes = std::fs::read("/proc/self/exe").unwrap();
        // SAFETY: code of this program.
        let here: [u8; 16] = unsafe { at::<[u8; 16]>(code).read() };
        assert!(bytes.windows(16).any(|it| it == here));
        assert!(place.offset() < code && place.offset() > 0);
        assert!(Place::of(1).is_none());
    }
}
