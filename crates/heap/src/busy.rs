//! Whether a thread is inside a slow path: its signal handlers must know, and whoever reclaims.
//!
//! What a thread has at hand, but for its magazines, is used by who has marked it as busy: the
//! thread itself, or another in its place (`reclaim`). A signal handler that finds its own thread
//! so must not enter.

use crate::cache::ThreadCache;
use crate::reclaim::SUMMONS;
use core::mem::offset_of;
use freehold_sync::atomic::{Ordering, compiler_fence};
use freehold_sync::turn::Turn;

impl ThreadCache {
    /// Whether the thread is inside a slow path.
    pub fn is_busy(&self) -> bool {
        self.turn.is_in()
    }

    /// Marks the thread as inside a slow path, unless it is in one already, which a signal handler
    /// may have interrupted, or what some thread has at hand is being taken at the moment.
    #[inline(always)]
    #[must_use]
    pub fn try_set_busy(&mut self) -> bool {
        compiler_fence(Ordering::SeqCst);
        let base = core::ptr::from_mut(self).cast();
        // SAFETY: the turn is there. A cache is its thread's alone, and so is a handler's that
        // interrupts it.
        let begun = unsafe { Turn::try_begin_at::<{ offset_of!(Self, turn) }>(base, &SUMMONS) };
        compiler_fence(Ordering::SeqCst);
        begun
    }

    /// Marks the thread as inside a slow path or not; before it is, waits while another thread
    /// takes what this one has at hand (`reclaim`). The fences keep the compiler from moving work
    /// out of the marked part; a signal handler runs on the same thread and needs no more.
    #[inline(always)]
    pub fn set_busy(&mut self, busy: bool) {
        compiler_fence(Ordering::SeqCst);
        if busy {
            self.turn.begin(&SUMMONS);
        } else {
            self.turn.end();
        }
        compiler_fence(Ordering::SeqCst);
    }
}
