//! The thread's cache in thread-local storage, and the fast path on it.
//!
//! The storage is of the initial-exec kind (`freehold_sys::tls`): all zero before anybody has
//! written to it, which is a valid, empty cache. At less than 1 KiB it fits the room that the C
//! library sets aside, so that the library can also be loaded by `dlopen`.
//!
//! The functions that end the fast path are written so that each statement is one or two
//! instructions on x86-64: see `docs/design.md` for the listing and the count.

use crate::guarded::sample::Countdown;
#[cfg(target_arch = "x86_64")]
use core::arch::asm;
use core::mem::offset_of;
use core::ptr::NonNull;
use freehold_heap::cache::ThreadCache;
use freehold_heap::class::Class;
use freehold_heap::hardened::Thread;
#[cfg(target_arch = "x86_64")]
use freehold_heap::layout::at;
#[cfg(target_arch = "x86_64")]
use freehold_heap::magazine::{EMPTY, SLOT};
use freehold_sync::atomic::AtomicBool;

/// What a thread has here.
#[repr(C, align(64))]
pub(crate) struct Local {
    pub(crate) cache: ThreadCache,
    /// Objects freed by a signal handler while the thread was inside a slow path.
    pub(crate) deferred: *mut u8,
    /// What the thread has at hand in hardened mode, or null.
    pub(crate) hardened: *mut Thread,
    /// Whether the thread's exit handler is set.
    pub(crate) will_exit: bool,
    /// Whether that has been run, in a mode.
    pub(crate) has_ended: bool,
    /// Whether the thread is asking the loader where its files are.
    pub(crate) asks_loader: AtomicBool,
    /// When the thread gets its next guarded object.
    pub(crate) countdown: Countdown,
}

const _: () = assert!(size_of::<Local>() <= 1024, "dlopen needs small thread-local storage");

/// The name of the symbol. With the version in it, two versions can be linked into one program.
#[doc(hidden)]
#[macro_export]
macro_rules! local_symbol {
    () => {
        concat!(
            "freehold_local_",
            env!("CARGO_PKG_VERSION_MAJOR"),
            "_",
            env!("CARGO_PKG_VERSION_MINOR"),
            "_",
            env!("CARGO_PKG_VERSION_PATCH")
        )
    };
}

freehold_sys::thread_storage! {
    /// The calling thread's storage.
    pub(crate) fn local() -> *mut Local = local_symbol!();
}

/// Where the magazines' places are, for [`naked_allocate`](crate::naked_allocate), and what
/// [`naked_deallocate`](crate::naked_deallocate) needs.
#[doc(hidden)]
pub const TOPS: usize = offset_of!(Local, cache.tops);
#[doc(hidden)]
pub const MAGIC: usize = offset_of!(Local, cache.magic);
#[doc(hidden)]
pub const LIMIT: usize = offset_of!(Local, cache.limit);
#[doc(hidden)]
pub const MAP: usize = offset_of!(Local, cache.map);

/// The body of a naked function `extern "C" fn(size: usize) -> *mut c_void`: [`crate::allocate`]'s
/// fast path in eleven instructions, which jumps to one of two functions of the same kind: to
/// `$large` when the size has no magazine, and to `$empty` when that is empty, or there is none.
/// Taking from the magazine and looking whether it was empty is one subtraction: compilers do not
/// find it. It stands in one line of the cache of instructions.
#[cfg(target_arch = "x86_64")]
#[macro_export]
macro_rules! naked_allocate {
    ($large:path, $empty:path) => {
        core::arch::naked_asm!(
            "cmp rdi, {small_max}",
            "ja {large}",
            "lea rax, [rip + {classes}]",
            "movzx esi, byte ptr [rax + rdi]",
            concat!("mov rdx, qword ptr [rip + ", $crate::local_symbol!(), "@GOTTPOFF]"),
            "mov rcx, qword ptr fs:[rdx + rsi * 8 + {tops}]",
            "sub cl, {slot}",
            // Below or equal: the magazine is empty, or there is none.
            "jbe {empty}",
            // The object first: a signal handler that finds the magazine empty fills it, and would
            // write to the slot.
            "mov rax, qword ptr [rcx]",
            "mov qword ptr fs:[rdx + rsi * 8 + {tops}], rcx",
            "ret",
            // A function has a section of its own, whose start is aligned by this as well.
            ".balign 64",
            small_max = const $crate::SMALL_MAX,
            classes = sym $crate::SMALL_CLASS,
            tops = const $crate::TOPS,
            slot = const core::mem::size_of::<usize>(),
            large = sym $large,
            empty = sym $empty,
        )
    };
}

/// The body of a naked function `unsafe extern "C" fn(object: *mut c_void)`: the fast path of
/// [`crate::deallocate`] in nineteen instructions, as [`ThreadCache::keep`] has it. It jumps to
/// what takes back all other objects, but for null, or to `$other` with those that no heap of the
/// thread's can have; and to what takes back one whose magazine is full, which is noticed by a push
/// into the last slot that leaves the place as it was. The object is fetched into the cache, since
/// it is what is given out next: that takes time of its own, and nobody waits for it here.
#[cfg(target_arch = "x86_64")]
#[macro_export]
macro_rules! naked_deallocate {
    () => {
        $crate::naked_deallocate!($crate::free::deallocate)
    };
    ($other:path) => {
        core::arch::naked_asm!(
            concat!("mov rax, qword ptr [rip + ", $crate::local_symbol!(), "@GOTTPOFF]"),
            "mov rcx, rdi",
            "sub rcx, qword ptr [rip + {region}]",
            "shr rcx, {shift}", // the granule
            "cmp rcx, qword ptr fs:[rax + {limit}]",
            "jae 2f",
            "mov rdx, qword ptr fs:[rax + {map}]",
            "movzx esi, byte ptr [rdx + rcx]", // the class
            "imul edx, edi, {factor}", // the offset, as the region begins with a multiple of that
            "imul rdx, qword ptr fs:[rax + rsi * 8 + {magic}]",
            "cmp rdx, qword ptr fs:[rax + rsi * 8 + {magic}]",
            "jae {mapped}",
            "prefetcht0 byte ptr [rdi]",
            "mov rdx, qword ptr fs:[rax + rsi * 8 + {tops}]",
            "mov qword ptr [rdx], rdi",
            "add dl, {slot}",
            "jz {full}",
            "mov qword ptr fs:[rax + rsi * 8 + {tops}], rdx",
            "ret",
            "2:",
            "test rdi, rdi",
            "jnz {other}",
            "ret",
            ".balign 64",
            region = sym $crate::REGION,
            shift = const $crate::GRANULE.ilog2(),
            factor = const $crate::GRANULE_FACTOR,
            limit = const $crate::LIMIT,
            map = const $crate::MAP,
            magic = const $crate::MAGIC,
            tops = const $crate::TOPS,
            slot = const core::mem::size_of::<usize>(),
            full = sym $crate::free::deallocate_in_full,
            mapped = sym $crate::free::deallocate_mapped,
            other = sym $other,
        )
    };
}

/// What the thread has at hand in hardened mode, or null.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn hardened() -> *mut Thread {
    let thread: usize;
    // SAFETY: reads the thread's own storage.
    unsafe {
        asm!(
            "mov {0}, qword ptr fs:[{1} + {hardened}]",
            out(reg) thread,
            in(reg) distance(),
            hardened = const offset_of!(Local, hardened),
            options(readonly, nostack, preserves_flags),
        );
    }
    at(thread)
}

/// What the thread has at hand in hardened mode, or null.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(crate) fn hardened() -> *mut Thread {
    // SAFETY: the thread's own storage.
    unsafe { (*local()).hardened }
}

/// Takes an object out of the magazine of `class`, if there is one.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn pop(class: Class) -> Option<NonNull<u8>> {
    let distance = distance();
    let index = usize::from(class.0);
    let top: usize;
    // SAFETY: reads the place of this thread's magazine.
    unsafe {
        asm!(
            "mov {0}, qword ptr fs:[{1} + {2} * 8 + {tops}]",
            out(reg) top,
            in(reg) distance,
            in(reg) index,
            tops = const offset_of!(Local, cache.tops),
            options(readonly, nostack, preserves_flags),
        );
    }
    if top as u8 <= EMPTY {
        return None;
    }
    let slot = top - SLOT;
    // SAFETY: the slot below the place has an object, and objects are not null. The object is read
    // before the place is set, which the assembly keeps apart, for the reason given in
    // `naked_allocate`.
    unsafe {
        let object = at::<usize>(slot).read();
        asm!(
            "mov qword ptr fs:[{0} + {1} * 8 + {tops}], {2}",
            in(reg) distance,
            in(reg) index,
            in(reg) slot,
            tops = const offset_of!(Local, cache.tops),
            options(nostack, preserves_flags),
        );
        Some(NonNull::new_unchecked(at(object)))
    }
}

/// Takes an object out of the magazine of `class`, if there is one.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(crate) fn pop(class: Class) -> Option<NonNull<u8>> {
    // SAFETY: the thread's own storage; nothing else refers to it during the call.
    NonNull::new(unsafe { (*local()).cache.pop(class) })
}
