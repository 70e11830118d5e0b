//! Which objects are guarded.
//!
//! Each thread counts down the objects that it fetches: a magazine that is filled, or a slab of
//! medium objects that is taken from, counts with all that it holds. When the count has come to its
//! end the object that the thread asks for is guarded, and the next interval is drawn at random,
//! between nothing and twice the mean, so that no pattern of the program's is in step with it. What
//! a thread frees and takes again is not counted, since the fast path does not count.

use super::pool::LARGEST;
use super::{ONE_IN, pool};
use freehold_sync::atomic::Ordering;
use freehold_sys::{Linux, System, process};

/// A thread's count. All zero until it is first used.
pub(crate) struct Countdown {
    /// Objects until one is guarded.
    left: u32,
    /// The state of the random numbers; 0 before there are any.
    random: u64,
}

impl Countdown {
    /// The next random number: xorshift.
    fn random(&mut self) -> u64 {
        if self.random == 0 {
            let time = Linux::new().thread_nanoseconds() ^ Linux::new().milliseconds() << 32;
            let thread = u64::from(process::thread_id());
            let place = core::ptr::from_ref(self).addr() as u64;
            // Not 0, and different for each thread.
            self.random = (time ^ place ^ thread << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        }
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    fn draw(&mut self) {
        // At least 1, although nothing is drawn while nothing is guarded.
        let most = u64::from(ONE_IN.load(Ordering::Relaxed)).max(1) * 2 - 1;
        // One to twice the mean less one.
        self.left = 1 + ((self.random() >> 32) % most) as u32;
    }

    /// Counts objects that the fast path will give out. At least 1 is left, which is for the one to
    /// be guarded.
    pub(crate) fn count(&mut self, objects: usize) {
        self.left = self.left.saturating_sub(objects as u32).max(1);
    }

    /// Counts an object; tells whether it is the one to be guarded.
    #[inline]
    pub(crate) fn is_due(&mut self) -> bool {
        if self.left <= 1 {
            return self.begin();
        }
        self.left -= 1;
        false
    }

    /// Begins the next interval. The first of a thread begins with nothing being due.
    #[cold]
    fn begin(&mut self) -> bool {
        let is_first = self.random == 0;
        self.draw();
        !is_first || self.left == 1
    }
}

/// Gives out a guarded object, if it can be had, and the size and the alignment can be served. For
/// a thread that is marked busy.
pub(crate) fn allocate(countdown: &mut Countdown, size: usize, align: usize) -> Option<usize> {
    let fits = size > 0 && size <= LARGEST;
    let random = countdown.random();
    pool().filter(|_| fits)?.allocate(size, align, random)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn about_one_in_so_many_is_due_whatever_is_counted_at_once() {
        const OBJECTS: usize = 4_000_000;
        const MEAN: usize = 1000;
        ONE_IN.store(MEAN as u32, Ordering::Relaxed);
        for at_once in [1, 15, 30] {
            let mut countdown = Countdown { left: 0, random: 0 };
            let mut due = 0;
            for _ in 0..OBJECTS / at_once {
                due += usize::from(countdown.is_due());
                countdown.count(at_once);
            }
            // Each step is one object, and those that are counted with it.
            let expected = OBJECTS / at_once * (1 + at_once) / MEAN;
            assert!((expected * 9 / 10..expected * 11 / 10).contains(&due), "{due} of {at_once}");
        }
        ONE_IN.store(0, Ordering::Relaxed);
    }
}
