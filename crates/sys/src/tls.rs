//! Thread-local storage of the initial-exec kind: its place relative to the thread pointer is one
//! load away, never a call.
//!
//! Stable Rust cannot ask for that, so the symbol is defined and addressed in assembly. It lies in
//! `.tbss`: all zero before anybody has written to it; it may even be wiped again while the program
//! is being loaded.

/// Whether the calling thread has such storage: threads of the library's own
/// ([`thread`](crate::thread)) have none, and zero where their thread pointer points to. With some
/// C libraries on aarch64 others have zero there as well.
#[inline]
pub fn is_there() -> bool {
    let word: usize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every thread has a word at its thread pointer.
    unsafe {
        core::arch::asm!(
            "mov {0}, fs:[0]",
            out(reg) word,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        core::arch::asm!(
            "mrs {0}, tpidr_el0",
            "ldr {0}, [{0}]",
            out(reg) word,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    word != 0
}

/// Defines `fn name() -> *mut type`, the calling thread's storage under a symbol, which should have
/// the version in it, so that two versions can be linked into one program. On x86-64 there is also
/// `fn distance()`, the storage's distance from the thread pointer.
///
/// The type must be valid with all bytes zero, aligned to at most 64 bytes, and smaller than 1 KiB
/// where the library is to be loaded by `dlopen`.
#[macro_export]
macro_rules! thread_storage {
    ($(#[$doc:meta])* $visibility:vis fn $name:ident() -> *mut $type:ty = $symbol:expr;) => {
        core::arch::global_asm!(
            concat!(".pushsection .tbss.", $symbol, ",\"awT\",%nobits"),
            concat!(".globl ", $symbol),
            concat!(".hidden ", $symbol),
            concat!(".type ", $symbol, ",%object"),
            concat!(".size ", $symbol, ",{size}"),
            ".p2align 6",
            concat!($symbol, ":"),
            ".zero {size}",
            ".popsection",
            size = const size_of::<$type>(),
        );

        /// The storage's distance from the thread pointer: the same for all threads.
        #[cfg(target_arch = "x86_64")]
        #[inline(always)]
        fn distance() -> usize {
            let distance;
            // SAFETY: reads a constant that the loader has put into the table of offsets.
            unsafe {
                core::arch::asm!(
                    concat!("mov {0}, qword ptr [rip + ", $symbol, "@GOTTPOFF]"),
                    out(reg) distance,
                    options(pure, nomem, nostack, preserves_flags),
                );
            }
            distance
        }

        $(#[$doc])*
        #[cfg(target_arch = "x86_64")]
        #[inline]
        $visibility fn $name() -> *mut $type {
            let storage: usize;
            // SAFETY: on x86-64 the word at the thread pointer is the thread pointer itself, and
            // the loader has put the distance into the table of offsets. (The sum is made here: the
            // compiler would leave that to whoever uses it, each time.)
            unsafe {
                core::arch::asm!(
                    "mov {0}, fs:[0]",
                    concat!("add {0}, qword ptr [rip + ", $symbol, "@GOTTPOFF]"),
                    out(reg) storage,
                    options(pure, readonly, nostack),
                );
            }
            core::ptr::with_exposed_provenance_mut(storage)
        }

        $(#[$doc])*
        #[cfg(target_arch = "aarch64")]
        #[inline]
        $visibility fn $name() -> *mut $type {
            let (thread, distance): (usize, usize);
            // SAFETY: reads the thread pointer, and a constant that the loader has put into the
            // table of offsets.
            unsafe {
                core::arch::asm!(
                    "mrs {0}, tpidr_el0",
                    concat!("adrp {1}, :gottprel:", $symbol),
                    concat!("ldr {1}, [{1}, :gottprel_lo12:", $symbol, "]"),
                    out(reg) thread,
                    out(reg) distance,
                    options(pure, nomem, nostack, preserves_flags),
                );
            }
            core::ptr::with_exposed_provenance_mut(thread.wrapping_add(distance))
        }
    };
}
