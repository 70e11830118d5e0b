//! A mode and a time that all threads know of, and one word that says when either has changed.
//!
//! Who acts at every step on what both were looks at the time alone: every change of the mode
//! changes it as well. So a thread that has *seen* a time, in a mode of which it knows, may go on
//! as it did for as long as it finds that time.
//!
//! Two orders make that true. A mode is changed before the time, so who finds the time changed
//! finds the mode. And who wants to see reads the time before the mode: it may then see a new mode
//! with an old time, which it will not find again, but never an old mode with a new one.
//!
//! Invariants: the time never goes back; of a change of mode by [`Published::set_mode`] that comes
//! before a thread's look, the thread does not find the time that it had seen.

use crate::atomic::{AtomicU32, AtomicU64, Ordering};

/// The steps of [`Published::set_mode`], and of [`Published::see`].
#[derive(Clone, Copy)]
pub(crate) enum Step {
    /// The mode is changed, or read.
    Mode,
    /// The time is.
    Time,
}

/// The order of a change that is in force, so that the model can show what happens with another.
pub(crate) const CHANGE: [Step; 2] = [Step::Mode, Step::Time];
/// The order of a look that is in force.
pub(crate) const LOOK: [Step; 2] = [Step::Time, Step::Mode];

/// The mode and the time: both 0 at first, and where the memory was zeroed.
#[derive(Debug)]
pub struct Published {
    mode: AtomicU32,
    time: AtomicU64,
}

impl Published {
    /// Mode and time 0.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self { mode: AtomicU32::new(0), time: AtomicU64::new(0) }
    }

    /// Mode and time 0.
    #[cfg(loom)]
    pub fn new() -> Self {
        Self { mode: AtomicU32::new(0), time: AtomicU64::new(0) }
    }

    /// The mode.
    #[inline(always)]
    pub fn mode(&self) -> u32 {
        // Acquire pairs with the Release in `set_mode_by` and `turn`: what a mode relies on is
        // there.
        self.mode.load(Ordering::Acquire)
    }

    /// Changes the mode, and the time by as little as there is.
    pub fn set_mode(&self, mode: u32) {
        self.set_mode_by(CHANGE, mode);
    }

    /// [`Published::set_mode`] in an order that the model may break.
    pub(crate) fn set_mode_by(&self, order: [Step; 2], mode: u32) {
        for step in order {
            match step {
                // Release pairs with `mode`.
                Step::Mode => self.mode.store(mode, Ordering::Release),
                // Release pairs with `time`: who finds this time finds the mode.
                Step::Time => _ = self.time.fetch_add(1, Ordering::Release),
            }
        }
    }

    /// Changes the mode from one in which nobody has seen the time, so that it need not change.
    /// Does nothing in any other.
    pub fn turn(&self, from: u32, to: u32) {
        // Release pairs with `mode`. Relaxed: of a failure nothing follows.
        let _ = self.mode.compare_exchange(from, to, Ordering::Release, Ordering::Relaxed);
    }

    /// The time that was last published.
    #[inline(always)]
    pub fn time(&self) -> u64 {
        // Acquire pairs with the Release in `set_mode_by` and `publish`.
        self.time.load(Ordering::Acquire)
    }

    /// Publishes a time, unless a later one has been published.
    pub fn publish(&self, time: u64) {
        // Release pairs with `time`: what others found before they published this, a mode
        // included, is found with it.
        self.time.fetch_max(time, Ordering::Release);
    }

    /// The time, if it is at most `until`, is not 0, and the mode is `mode`.
    #[inline]
    pub fn see(&self, until: u64, mode: u32) -> Option<u64> {
        self.see_by(LOOK, until, mode)
    }

    /// [`Published::see`] in an order that the model may break.
    #[inline(always)]
    pub(crate) fn see_by(&self, order: [Step; 2], until: u64, mode: u32) -> Option<u64> {
        let (mut time, mut found) = (0, 0);
        for step in order {
            match step {
                Step::Time => time = self.time(),
                Step::Mode => found = self.mode(),
            }
        }
        (time != 0 && time <= until && found == mode).then_some(time)
    }
}

impl Default for Published {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_is_not_found_after_the_mode_or_the_time_has_changed() {
        let published = Published::new();
        published.turn(0, 3);
        published.publish(100);
        assert_eq!(published.see(100, 3), Some(100));
        published.set_mode(4);
        assert_ne!(published.time(), 100);
        published.publish(200);
        assert_eq!((published.time(), published.mode()), (200, 4));
    }

    #[test]
    fn a_time_that_is_ahead_and_another_mode_are_not_seen() {
        let published = Published::new();
        assert_eq!(published.see(7, 0), None);
        published.publish(5);
        assert_eq!(published.see(4, 0), None);
        assert_eq!(published.see(5, 1), None);
        assert_eq!(published.see(5, 0), Some(5));
        published.turn(1, 2);
        assert_eq!(published.mode(), 0);
    }
}
