//! What a library without the standard library needs so that exceptions can pass through it.

/// Defines the personality of this library's frames.
///
/// The unwinder asks for the personality of each frame that an exception passes. There is nothing
/// to clean up, so it says to go on. Weak and hidden: a program's own takes its place when the
/// library is linked into it as an archive.
#[macro_export]
macro_rules! pass_exceptions {
    () => {
        core::arch::global_asm!(
            ".weak rust_eh_personality",
            ".hidden rust_eh_personality",
            ".pushsection .text.rust_eh_personality, \"ax\", @progbits",
            ".type rust_eh_personality, @function",
            "rust_eh_personality:",
            #[cfg(target_arch = "x86_64")]
            "mov eax, {go_on}",
            #[cfg(target_arch = "aarch64")]
            "mov w0, {go_on}",
            "ret",
            ".size rust_eh_personality, . - rust_eh_personality",
            ".popsection",
            // `_URC_CONTINUE_UNWIND` of the unwinding ABI.
            go_on = const 8,
        );
    };
}
