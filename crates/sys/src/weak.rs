//! Functions and variables that another library may provide: what is there or not, perhaps in a
//! version of our choice, or what comes before this library's own; and functions of ours that the
//! linker puts in the place of another library's.
//!
//! Owns nothing. A weak symbol must be declared weak in every object file that refers to it, which
//! the language cannot say; so only the assembly below refers to it, and Rust code reads the word
//! into which the dynamic loader puts the function's address, or null.

/// Defines `fn name() -> Option<type>`: the function that was found under a symbol, if any was.
///
/// The type must be that of an `extern` function pointer, and be true of whatever bears the symbol.
/// With `for "name@version"` the function of another library's that has that name and version is
/// found, and the symbol is just what it is called here.
#[macro_export]
macro_rules! weak_function {
    (
        $(#[$doc:meta])*
        fn $name:ident() -> Option<$type:ty> =
            $symbol:literal in $slot:literal $(, for $versioned:expr)?;
    ) => {
        core::arch::global_asm!(
            $(concat!(".symver ", $symbol, ", ", $versioned),)?
            concat!(".weak ", $symbol),
            ".pushsection .data.rel.ro.freehold_weak, \"aw\", @progbits",
            ".balign 8",
            concat!(".globl ", $slot),
            concat!(".hidden ", $slot),
            concat!($slot, ": .quad ", $symbol),
            ".popsection",
        );

        $(#[$doc])*
        fn $name() -> Option<$type> {
            unsafe extern "C" {
                #[link_name = $slot]
                static SLOT: Option<$type>;
            }
            // SAFETY: a word that is set before any code of this library runs, and then only read;
            // it is null, which is `None`, or the address of a function of the type.
            unsafe { SLOT }
        }
    };
}

/// Defines `fn name() -> *const type`: the address of another library's variable, or null.
#[macro_export]
macro_rules! weak_variable {
    ($(#[$doc:meta])* fn $name:ident() -> *const $type:ty = $symbol:literal in $slot:literal;) => {
        core::arch::global_asm!(
            concat!(".weak ", $symbol),
            ".pushsection .data.rel.ro.freehold_weak, \"aw\", @progbits",
            ".balign 8",
            concat!(".globl ", $slot),
            concat!(".hidden ", $slot),
            concat!($slot, ": .quad ", $symbol),
            ".popsection",
        );

        $(#[$doc])*
        #[inline(always)]
        fn $name() -> *const $type {
            unsafe extern "C" {
                #[link_name = $slot]
                static SLOT: *const $type;
            }
            // SAFETY: a word that is set before any code of this library runs, and then only read.
            unsafe { SLOT }
        }
    };
}

/// Defines `fn name() -> type`: the function that the process finds under a symbol, which this
/// library defines as well. It is another library's where that comes first.
///
/// The type must be that of an `extern` function pointer, and be true of whatever bears the symbol.
#[macro_export]
macro_rules! first_function {
    ($(#[$doc:meta])* $scope:vis fn $name:ident() -> $type:ty =
        $symbol:literal in $slot:literal;) => {
        $crate::first_function! { $symbol in $slot; }

        $(#[$doc])*
        #[inline(always)]
        $scope fn $name() -> $type {
            unsafe extern "C" {
                #[link_name = $slot]
                static SLOT: $type;
            }
            // SAFETY: a word that is set before any code of this library runs, and then only read;
            // it is the address of a function of the type.
            unsafe { SLOT }
        }
    };
    // The word alone, for assembly.
    ($symbol:literal in $slot:literal;) => {
        core::arch::global_asm!(
            ".pushsection .data.rel.ro.freehold_first, \"aw\", @progbits",
            ".balign 8",
            concat!(".globl ", $slot),
            concat!(".hidden ", $slot),
            concat!($slot, ": .quad ", $symbol),
            ".popsection",
        );
    };
}

/// The body of a naked function that is another one, whose address is in a word of
/// [`first_function`](crate::first_function): with the same arguments, or without the second of
/// three. On x86-64 that is one instruction.
#[macro_export]
macro_rules! leave_to_first {
    ($slot:literal $(without $second:ident)?) => {
        core::arch::naked_asm!(
            #[cfg(target_arch = "x86_64")]
            concat!(
                $("# without ", stringify!($second), "\nmov rsi, rdx\n",)?
                "jmp qword ptr [rip + ", $slot, "]",
            ),
            #[cfg(target_arch = "aarch64")]
            concat!(
                $("// without ", stringify!($second), "\nmov x1, x2\n",)?
                "adrp x16, ", $slot, "\nldr x16, [x16, :lo12:", $slot, "]\nbr x16",
            ),
        )
    };
}

/// Makes a function that of a symbol which other parts of this library refer to by way of the
/// linker's option `--wrap`, and shows that symbol to nobody else.
#[macro_export]
macro_rules! stand_in {
    ($symbol:literal = $function:path;) => {
        core::arch::global_asm!(
            concat!(".pushsection .text.", $symbol, ", \"ax\", @progbits"),
            concat!(".weak ", $symbol),
            concat!(".hidden ", $symbol),
            concat!(".type ", $symbol, ", @function"),
            concat!($symbol, ":"),
            #[cfg(target_arch = "x86_64")]
            "jmp {function}",
            #[cfg(target_arch = "aarch64")]
            "b {function}",
            ".popsection",
            function = sym $function,
        );
    };
}
