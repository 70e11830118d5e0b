//! A slab of small objects, as its holder sees it: giving objects out and taking them back.
//!
//! Free objects are used in this order: those that came back, by address, and only then memory that
//! was never given out, from low to high. So a slab's untouched part stays untouched as long as
//! possible. Objects are only ever named, never touched.

use crate::class::Info;
use crate::tables::{Bits, NEAR_WORDS, RunBin, SlabLocal};
use freehold_sync::freed;
use freehold_sync::word::Count;

/// Objects whose bits stand with the slab's word.
const NEAR_OBJECTS: usize = NEAR_WORDS * 64;

/// Fills places with the addresses of objects in a row, the first into the last.
#[inline(always)]
fn fill_backwards(places: &mut [usize], first: usize, size: usize) {
    let mut next = first;
    for place in places.iter_mut().rev() {
        *place = next;
        next += size;
    }
}

impl SlabLocal {
    /// A slab all of whose objects are untouched.
    pub const fn untouched() -> Self {
        Self {
            carved: 0,
            balance: 0,
            next: 0,
            prev: 0,
            run: 0,
            zeroed: false,
            bin: RunBin::none(),
            lowest: 0,
            fresh: false,
            purged: 0,
            pooled_at: 0,
            whole: false,
        }
    }

    /// Objects that are free as far as the holder knows: what the word has to count when the slab
    /// is detached as it is. Below zero when bits were collected whose frees are not yet counted.
    pub fn free_count(&self, info: &Info) -> i32 {
        i32::from(info.capacity - self.carved) + i32::from(self.balance)
    }

    /// Whether there is nothing left to give out, unless more was freed from elsewhere meanwhile.
    pub fn is_exhausted(&self, info: &Info) -> bool {
        self.carved == info.capacity && self.balance <= 0
    }

    /// Takes objects out until there is one in every place of `taken` or there are no more, and
    /// returns how many: the one to be used first in the last place, the next one before it, and so
    /// on. Only for the holder of the slab that starts at `slab`, whose class `info` describes and
    /// whose bits are `bits`.
    pub fn take(&mut self, slab: usize, info: &Info, bits: Bits, taken: &mut [usize]) -> usize {
        let size = info.size as usize;
        self.purged = 0;
        let mut left = taken.len();
        let mut words = usize::from(self.lowest)..usize::from(info.words);
        while self.balance > 0
            && left > 0
            && let Some(n) = words.next()
        {
            self.lowest = n as u16;
            let (before, first) = (left, slab + n * 64 * size);
            freed::collect(bits.word(n), before, |bit, count| {
                fill_backwards(&mut taken[left - count..left], first + bit * size, size);
                left -= count;
            });
            self.balance -= (before - left) as i16;
        }
        let untouched = usize::from(info.capacity - self.carved).min(left);
        let next = slab + usize::from(self.carved) * size;
        fill_backwards(&mut taken[left - untouched..left], next, size);
        let before = usize::from(self.carved);
        self.carved += untouched as u16;
        if before <= NEAR_OBJECTS && usize::from(self.carved) > NEAR_OBJECTS {
            bits.touch_far(info.words.into());
        }
        taken.len() - left + untouched
    }

    /// Counts objects as taken back whose bits, in word `n`, the holder has set.
    pub(crate) fn took_back(&mut self, n: usize, count: u16) {
        self.balance += count as i16;
        self.lowest = self.lowest.min(n as u16);
    }

    /// Takes over a count of objects whose bits, wherever they are, others have set.
    pub(crate) fn drained(&mut self, count: Count) {
        self.balance += count.0 as i16;
        self.lowest = 0;
    }

    /// Takes over a slab whose word says that `all` are free.
    pub fn take_over(&mut self, all: i32, info: &Info) {
        self.drained(Count(all - self.free_count(info)));
    }
}
