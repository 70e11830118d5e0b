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
use freehold_heap::class::{Class, SMALL_CLASS, SMALL_MAX};
use freehold_heap::hardened::Thread;
#[cfg(target_arch = "x86_64")]
use freehold_heap::layout::{GRANULE, GRANULE_SHIFT, at};
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

/// The class of each small size, where assembly can name it.
#[doc(hidden)]
pub static CLASSES: [u8; SMALL_MAX + 1] = SMALL_CLASS;
/// Where the magazines' places are, for [`naked_allocate`](crate::naked_allocate).
#[doc(hidden)]
pub const TOPS: usize = offset_of!(Local, cache.tops);

/// The body of a naked function `extern "C" fn(size: usize) -> *mut c_void`: [`crate::allocate`]'s
/// fast path in eleven instructions, which jumps to `$slow`, a function of the same kind, when the
/// size has no magazine or that is empty. Taking from the magazine and looking whether it was empty
/// is one subtraction: compilers do not find it.
#[cfg(target_arch = "x86_64")]
#[macro_export]
macro_rules! naked_allocate {
    ($slow:path) => {
        core::arch::naked_asm!(
            "cmp rdi, {small_max}",
            "ja {slow}",
            "lea rax, [rip + {classes}]",
            "movzx esi, byte ptr [rax + rdi]",
            concat!("mov rdx, qword ptr [rip + ", $crate::local_symbol!(), "@GOTTPOFF]"),
            "mov rcx, qword ptr fs:[rdx + rsi * 8 + {tops}]",
            "sub cl, {slot}",
            // Below or equal: the magazine is empty, or there is none.
            "jbe {slow}",
            // The object first: a signal handler that finds the magazine empty fills it, and would
            // write to the slot.
            "mov rax, qword ptr [rcx]",
            "mov qword ptr fs:[rdx + rsi * 8 + {tops}], rcx",
            "ret",
            small_max = const $crate::SMALL_MAX,
            classes = sym $crate::CLASSES,
            tops = const $crate::TOPS,
            slot = const core::mem::size_of::<usize>(),
            slow = sym $slow,
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

/// Keeps a freed object, if it is the start of a small object that the thread keeps and there is
/// room: [`ThreadCache::keep`] in the fewest instructions.
///
/// # Safety
/// As for [`ThreadCache::keep`].
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) unsafe fn keep(address: usize) -> bool {
    // SAFETY: the same steps, on the same fields, as `ThreadCache::keep` takes; the map is asked
    // below the limit only, and the magazine is written to only when the map says that there is
    // one. A push into its last slot writes there, and leaves the place as it was.
    unsafe {
        asm!(
            "sub {granule}, qword ptr [rip + {region}]",
            "mov {in_granule:e}, {granule:e}",
            "shr {granule}, {shift}",
            "cmp {granule}, qword ptr fs:[{local} + {limit}]",
            "jae {slow}",
            "mov {next}, qword ptr fs:[{local} + {map}]",
            "movzx {granule:e}, byte ptr [{next} + {granule}]", // from here on the class
            "and {in_granule:e}, {mask}",
            "imul {in_granule:e}, dword ptr fs:[{local} + {granule} * 4 + {magic}]",
            "cmp {in_granule:e}, dword ptr fs:[{local} + {granule} * 4 + {magic}]",
            "jae {slow}",
            "mov {next}, qword ptr fs:[{local} + {granule} * 8 + {tops}]",
            "mov qword ptr [{next}], {object}",
            "add {next:l}, {slot}",
            "jz {slow}",
            "mov qword ptr fs:[{local} + {granule} * 8 + {tops}], {next}",
            granule = inout(reg) address => _,
            in_granule = out(reg) _,
            next = out(reg) _,
            local = in(reg) distance(),
            object = in(reg) address,
            region = sym crate::process::REGION,
            shift = const GRANULE_SHIFT,
            mask = const GRANULE - 1,
            limit = const offset_of!(Local, cache.limit),
            map = const offset_of!(Local, cache.map),
            magic = const offset_of!(Local, cache.magic),
            tops = const offset_of!(Local, cache.tops),
            slot = const SLOT,
            slow = label { return false },
            options(nostack),
        );
    }
    true
}

/// Takes an object out of the magazine of `class`, if there is one.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(crate) fn pop(class: Class) -> Option<NonNull<u8>> {
    // SAFETY: the thread's own storage; nothing else refers to it during the call.
    NonNull::new(unsafe { (*local()).cache.pop(class) })
}

/// Keeps a freed object, if it is the start of a small object that the thread keeps and there is
/// room.
///
/// # Safety
/// As for [`ThreadCache::keep`].
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(crate) unsafe fn keep(address: usize) -> bool {
    // SAFETY: the thread's own storage; the rest is the caller's promise.
    unsafe { (*local()).cache.keep(crate::process::region(), address) }
}
