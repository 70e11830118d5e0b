//! Which code is this library's own.
//!
//! Owns nothing. The address of an exported function does not tell: it is that of another library's
//! where that comes first. Where a file begins and ends in memory is known to its linker.

core::arch::global_asm!(
    // Weak, since who links the archive may leave the file's header out of memory: then all that
    // is below the end counts as own.
    ".weak __ehdr_start",
    ".hidden __ehdr_start",
    ".pushsection .data.rel.ro.freehold_own, \"aw\", @progbits",
    ".balign 8",
    ".globl freehold_own_start",
    ".hidden freehold_own_start",
    "freehold_own_start: .quad __ehdr_start",
    ".globl freehold_own_end",
    ".hidden freehold_own_end",
    "freehold_own_end: .quad _end",
    ".popsection",
);

/// Whether a function is in the same file as this one: this library's, or the program's that it is
/// linked into.
#[inline]
pub fn is_own(function: *const ()) -> bool {
    unsafe extern "C" {
        #[link_name = "freehold_own_start"]
        static START: usize;
        #[link_name = "freehold_own_end"]
        static END: usize;
    }
    // SAFETY: words that are set before any code of this library runs, and then only read.
    let (start, end) = unsafe { (START, END) };
    function.addr().wrapping_sub(start) < end.wrapping_sub(start)
}
