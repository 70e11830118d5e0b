//! Modes: other ways to serve every call, chosen by the environment when the arena is made.
//!
//! Usually there is none, and nothing here costs anything: in a mode `process::existing_arena` has
//! none to give, so that every path that needs it fails where it may fail anyway, and only there is
//! asked for the mode; and the fast path, whose words in thread-local storage stay zero, fails as
//! in a thread that has not begun.
//!
//! To add a mode: a variant of [`Mode`], which [`Mode::named`] finds in the environment; a module
//! with the functions that the variants of [`hardened`] stand for here; and, if the mode needs one,
//! another kind of arena in [`Mode::create_arena`]. The mode's module keeps what a thread has in
//! `Local`, and marks the thread as busy while it is inside the mode, so that signal handlers find
//! it so (`slow`).

use crate::{background, debugging, guarded, hardened, settings};
use core::ptr::NonNull;
use freehold_heap::arena::Arena;
use freehold_heap::layout::UNIT;
use freehold_heap::usage::Usage;
use freehold_sync::atomic::{AtomicU8, Ordering};
use freehold_sys::Linux;

/// What is not the usual way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Mode {
    /// `FREEHOLD_HARDEN=1`: every object is looked at when it comes and goes.
    Hardened = 1,
    /// `FREEHOLD_DEBUG=…`: every object is remembered, surrounded and looked at.
    Debugging = 2,
}

/// The mode, or 0. Written before the arena is published, and never changed afterwards.
static MODE: AtomicU8 = AtomicU8::new(0);

/// Whether the process is debugged.
pub(crate) fn is_debugging() -> bool {
    current() == Some(Mode::Debugging)
}

/// The mode of the process, if it has one: known from the moment that it has an arena.
#[inline(always)]
pub(crate) fn current() -> Option<Mode> {
    // Relaxed: who finds no mode although there is one finds no arena either, or has seen it
    // published, which comes later.
    match MODE.load(Ordering::Relaxed) {
        1 => Some(Mode::Hardened),
        2 => Some(Mode::Debugging),
        _ => None,
    }
}

/// Chooses the mode that the environment asks for; lets others look at what else it asks for.
pub(crate) fn choose() -> Option<Mode> {
    let mut mode = None;
    settings::each(|variable| {
        mode = Mode::named(variable).max(mode);
        guarded::consider(variable);
        background::consider(variable);
    });
    MODE.store(mode.map_or(0, |mode| mode as u8), Ordering::Relaxed);
    mode
}

impl Mode {
    /// The mode that a variable asks for.
    fn named(variable: &[u8]) -> Option<Self> {
        if debugging::consider(variable) {
            return Some(Self::Debugging);
        }
        let is_on = settings::switch(variable, c"FREEHOLD_HARDEN")?;
        is_on.then_some(Self::Hardened)
    }

    /// Makes the arena of the process.
    pub(crate) fn create_arena(self) -> Option<NonNull<Arena<Linux>>> {
        match self {
            Self::Hardened => hardened::create_arena(),
            Self::Debugging => Arena::create(Linux::new()),
        }
    }

    /// Gives out `size` bytes at a multiple of `align`, a power of two; zero if `zeroed`. Null when
    /// there is no memory.
    #[inline]
    pub(crate) fn allocate(self, size: usize, align: usize, zeroed: bool) -> *mut u8 {
        match self {
            // What it gives out is zero in any case.
            Self::Hardened => {
                let _ = zeroed;
                hardened::allocate(size, align)
            }
            Self::Debugging => debugging::allocate(size, align, zeroed),
        }
    }

    /// As [`Mode::allocate`], for a medium object that need not be aligned in particular.
    #[inline]
    pub(crate) fn allocate_medium(self, size: usize) -> *mut u8 {
        match self {
            Self::Hardened => hardened::allocate_medium(size),
            Self::Debugging => debugging::allocate(size, UNIT, false),
        }
    }

    /// Takes an object back, which is not null.
    ///
    /// # Safety
    /// Nobody uses the object any longer.
    #[inline]
    pub(crate) unsafe fn deallocate(self, object: *mut u8) {
        match self {
            // SAFETY: the caller's promise.
            Self::Hardened => unsafe { hardened::deallocate(object) },
            // SAFETY: as above.
            Self::Debugging => unsafe { debugging::deallocate(object) },
        }
    }

    /// Changes the size of an object, which is not null, and may move. Null when there is no
    /// memory; the object is as before then.
    ///
    /// # Safety
    /// The object is in use by the caller alone.
    pub(crate) unsafe fn reallocate(self, object: *mut u8, size: usize) -> *mut u8 {
        match self {
            // SAFETY: the caller's promise.
            Self::Hardened => unsafe { hardened::reallocate(object, size) },
            // SAFETY: as above.
            Self::Debugging => unsafe { debugging::reallocate(object, size) },
        }
    }

    /// The bytes that can be used at `object`; if it is none, that is reported, in the name of
    /// `function`, and ends the process.
    pub(crate) fn usable_size(self, function: &str, object: *mut u8) -> usize {
        match self {
            Self::Hardened => hardened::usable_size(function, object),
            Self::Debugging => debugging::usable_size(function, object),
        }
    }

    /// Gives everything back that this thread has at hand and that is free. Returns the bytes given
    /// back to the system.
    pub(crate) fn trim(self) -> usize {
        match self {
            Self::Hardened => hardened::trim(),
            Self::Debugging => debugging::trim(),
        }
    }

    /// What the memory is used for at this moment.
    pub(crate) fn usage(self) -> Usage {
        match self {
            Self::Hardened => hardened::usage(),
            Self::Debugging => debugging::usage(),
        }
    }

    /// Gives back what the calling thread has, which is about to end. It is not busy.
    pub(crate) fn end_thread(self) {
        match self {
            Self::Hardened => hardened::end_thread(),
            Self::Debugging => debugging::end_thread(),
        }
    }

    /// Before a fork, and before the arena's locks are taken.
    pub(crate) fn lock(self) {
        if self == Self::Debugging {
            debugging::lock();
        }
    }

    /// After a fork, in the parent.
    pub(crate) fn unlock(self) {
        if self == Self::Debugging {
            debugging::unlock();
        }
    }

    /// In the child of a fork, by its only thread: takes up what those have left that do not exist
    /// there.
    pub(crate) fn after_fork_in_child(self, arena: &Arena<Linux>) {
        match self {
            Self::Hardened => hardened::after_fork_in_child(arena),
            Self::Debugging => debugging::after_fork_in_child(arena),
        }
    }
}
