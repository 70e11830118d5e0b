//! Draining: a thread sends home what is in its magazines, where it is likely not to want it.
//!
//! What is in magazines is the fast path's, and nobody else can take it from a thread that sleeps
//! (`reclaim`). That may be 30 objects of each class, nearly each in a page of its own, which stays
//! resident for it: a megabyte or two. So a thread does it itself,
//!
//! * when objects of full magazines had to go home again and again, and it has fetched nothing
//!   meanwhile: threads often come to rest after they have freed all that they had. From then on
//!   all others are emptied each time that one overflows;
//! * and once for each time that it was asked to, instead of setting a full magazine aside. The
//!   background thread asks whenever it reclaims what threads have at hand, and who has hardly
//!   anything to do goes on with no more than that takes.
//!
//! Invariant: a thread that drains has overflowed before, and fetched nothing since. It may be in
//! a signal handler that has interrupted the fast path where that takes an object; if the object
//! went home it would be given out twice. But a handler that takes a few objects and frees no more
//! than those comes here only if it has fetched some.

use crate::arena::Arena;
use crate::cache::ThreadCache;
use crate::class::Class;
use crate::invalid::Invalid;
use crate::magazine::MAGAZINES;
use crate::policy::retain;
use freehold_sync::atomic::{AtomicU32, AtomicU64, Ordering};
use freehold_sys::System;

/// How often threads were asked to drain their magazines, and what came of it. Relaxed everywhere:
/// who finds that out later does it later.
#[derive(Default)]
pub(crate) struct Asks {
    count: AtomicU32,
    /// When one that had drained called the background thread back last, in milliseconds; 0 for
    /// never.
    called_back: AtomicU64,
    /// How often, with little time in between.
    times: AtomicU32,
}

impl Asks {
    /// Asks all threads, but for those that come later.
    pub(crate) fn ask(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    /// Whether a thread that has drained may call the background thread back at this time, which is
    /// noted then. The others that were asked with it drain while that is there, or on its way.
    fn may_call_back(&self, milliseconds: u64) -> bool {
        let before = self.called_back.load(Ordering::Relaxed);
        let since = if before == 0 { u64::MAX } else { milliseconds.saturating_sub(before) };
        let times = match since {
            0..retain::ON_ITS_WAY_MILLISECONDS => return false,
            retain::CALL_BACK_AFTER_MILLISECONDS.. => 0,
            _ => self.times.load(Ordering::Relaxed),
        };
        if times >= retain::CALLS_BACK {
            return false;
        }
        self.times.store(times + 1, Ordering::Relaxed);
        self.called_back.store(milliseconds.max(1), Ordering::Relaxed);
        true
    }
}

/// What a thread knows of whether it is to drain.
pub(crate) struct Drain {
    /// How often threads had been asked when it last did so for that, or when it began.
    asks: u32,
    /// Whether a magazine has overflowed since objects were fetched last.
    has_overflowed: bool,
    /// How often objects went home from a full magazine, or in its place, since then.
    gone_home: u8,
}

impl Drain {
    /// Of a thread that has not begun.
    pub(crate) const NONE: Self = Self { asks: 0, has_overflowed: false, gone_home: 0 };

    /// Of a thread that begins.
    pub(crate) fn begin(asks: &Asks) -> Self {
        Self { asks: asks.count(), ..Self::NONE }
    }

    /// Notes that objects were fetched.
    #[inline]
    pub(crate) fn note_fetched(&mut self) {
        (self.has_overflowed, self.gone_home) = (false, 0);
    }

    /// Notes that a magazine has overflowed, and tells whether the thread was asked to drain: once
    /// for all times that it was.
    fn note_overflow(&mut self, asks: &Asks) -> bool {
        let again = core::mem::replace(&mut self.has_overflowed, true);
        let asks = asks.count();
        again && core::mem::replace(&mut self.asks, asks) != asks
    }

    /// Notes that objects went home for want of room, and tells whether the thread only frees.
    fn note_gone_home(&mut self) -> bool {
        self.gone_home = self.gone_home.saturating_add(1);
        self.gone_home > retain::GONE_HOME_UNTIL_DRAINED
    }
}

impl ThreadCache {
    /// Notes that a magazine has overflowed, and empties all if the thread was asked to. Returns
    /// whether it was.
    pub(crate) fn drain_if_asked<S: System>(&mut self, arena: &Arena<S>) -> Result<bool, Invalid> {
        // Nobody asks in hardened mode, where objects wait elsewhere.
        if !self.drain.note_overflow(&arena.help.asks) {
            return Ok(false);
        }
        let drained = self.drain(arena, None)?;
        // The background thread has asked, and may have gone since.
        if drained >= retain::DRAINED_WORTH_A_THREAD
            && !arena.is_helped()
            && arena.help.asks.may_call_back(arena.system.milliseconds())
        {
            arena.want_help();
            self.wants_help |= arena.is_help_wanted();
        }
        Ok(true)
    }

    /// Notes that objects of a class went home for want of room, and empties the magazines of all
    /// others if the thread only frees.
    pub(crate) fn drain_if_only_freeing<S: System>(
        &mut self,
        arena: &Arena<S>,
        class: Class,
    ) -> Result<(), Invalid> {
        if self.drain.note_gone_home() && self.has_any_but_for(class) {
            self.drain(arena, Some(class))?;
        }
        Ok(())
    }

    /// Empties all magazines, or all but one. Returns how many objects were in them.
    #[cold]
    #[inline(never)]
    pub(crate) fn drain<S: System>(
        &mut self,
        arena: &Arena<S>,
        but_for: Option<Class>,
    ) -> Result<usize, Invalid> {
        let mut drained = 0;
        for class in (1..MAGAZINES as u8).map(Class) {
            if self.has_any(class) && but_for != Some(class) {
                let rounds = self.empty(class);
                self.give_back(arena, class, rounds.as_slice())?;
                drained += rounds.as_slice().len();
            }
        }
        Ok(drained)
    }
}
