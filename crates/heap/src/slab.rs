//! A slab of small objects, as its holder sees it: giving objects out and taking them back.
//!
//! Free objects are used in this order: those that came back, by address, and only then memory that
//! was never given out, from low to high. So a slab's untouched part stays untouched as long as
//! possible. Objects are only ever named, never touched.

use crate::class::Info;
use crate::tables::{Bits, KeptAs, NEAR_WORDS, OWN_WORDS, RunBin, SlabLocal};
use freehold_sync::atomic::{AtomicBool, AtomicU64, Ordering};
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

/// Whether the holder's own bits of a slab of a class stand beside those of others, and not in the
/// local part.
#[inline(always)]
pub(crate) fn own_is_far(info: &Info) -> bool {
    usize::from(info.words) > OWN_WORDS
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
            kept_as: KeptAs::by_none(),
            unkept: 0,
            has_far_own: AtomicBool::new(false),
            own: [const { AtomicU64::new(0) }; OWN_WORDS],
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
            let own = self.own_word(info, bits, n);
            let collected = freed::collect(bits.word(n), own, before, |bit, count| {
                fill_backwards(&mut taken[left - count..left], first + bit * size, size);
                left -= count;
            });
            if own & collected != 0 {
                self.set_own_word(info, bits, n, own & !collected);
            }
            self.balance -= (before - left) as i16;
        }
        if left > 0 && self.balance > 0 {
            // Two threads have freed an object at once, and both have counted it.
            self.balance = 0;
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

    /// Takes objects back for the holder, by their bits in word `n`. Returns whether none of them
    /// was free already.
    #[inline(always)]
    pub(crate) fn take_back(
        &mut self,
        info: &Info,
        bits: Bits,
        n: usize,
        (mask, count): (u64, u16),
    ) -> bool {
        let own = self.own_word(info, bits, n);
        let is_first = (freed::look(bits.word(n)) | own) & mask == 0
            && self.add(info, bits, n, (own | mask, mask));
        if is_first {
            self.took_back(n, count);
        }
        is_first
    }

    /// Takes one object back, for the heap that keeps the slab: what others have freed of it before
    /// is among the holder's own bits, and who takes from it next looks for them from the first
    /// word on. `FAR` says whether [those are far](own_is_far). Returns whether all objects that
    /// were ever given out are back, or `None` if this one was free already.
    #[inline(always)]
    pub(crate) fn take_back_kept<'a, const FAR: bool>(
        &mut self,
        info: &Info,
        bits: impl Fn() -> Bits<'a>,
        index: usize,
    ) -> Option<bool> {
        let (n, bit) = (index / 64, 1 << (index % 64));
        let own = if FAR { bits().own(info, n) } else { self.own.get(n) };
        match own {
            Some(own) => {
                let word = own.load(Ordering::Relaxed);
                if word & bit != 0 {
                    return None;
                }
                own.store(word | bit, Ordering::Relaxed);
            }
            None if freed::add(bits().word(n), bit) != 0 => return None,
            None => {}
        }
        self.balance += 1;
        Some(self.balance == self.carved as i16)
    }

    /// Makes the bits of objects that others have freed the holder's own, where there is room. From
    /// then on there may be more of these.
    pub(crate) fn take_over_bits(&self, info: &Info, bits: Bits) {
        for n in 0..info.words.into() {
            let Some(own) = self.own(info, bits, n) else { continue };
            let theirs = freed::take(bits.word(n));
            if theirs != 0 {
                own.store(own.load(Ordering::Relaxed) | theirs, Ordering::Relaxed);
            }
        }
        self.note_own(info);
    }

    /// Makes the holder's own bits those of objects that others have freed, before the slab is
    /// anybody's. Returns how many were among these already: of objects that were freed twice at
    /// once.
    pub(crate) fn give_up_bits(&self, info: &Info, bits: Bits) -> i32 {
        let mut twice = 0;
        for n in 0..info.words.into() {
            let own = self.own_word(info, bits, n);
            if own != 0 {
                twice += freed::add(bits.word(n), own).count_ones();
                self.set_own_word(info, bits, n, 0);
            }
        }
        twice as i32
    }

    /// Adds bits to word `n` of the holder's own, which are `all` then; or, where there is no room
    /// for that word, to the others'. Returns false if they were among those.
    #[inline(always)]
    fn add(&self, info: &Info, bits: Bits, n: usize, (all, added): (u64, u64)) -> bool {
        self.set_own_word(info, bits, n, all) || freed::add(bits.word(n), added) == 0
    }

    /// Word `n` of the bits of objects that the holder has taken back itself.
    #[inline(always)]
    pub(crate) fn own_word(&self, info: &Info, bits: Bits, n: usize) -> u64 {
        // SAFETY: a reference is a place that is there.
        unsafe { Self::look_at_own_word(self, info, bits, n) }
    }

    /// Likewise, for others, who want to know whether what they free is free already.
    ///
    /// # Safety
    /// The place is the local part of a committed granule.
    #[inline(always)]
    pub(crate) unsafe fn look_at_own_word(
        local: *const Self,
        info: &Info,
        bits: Bits,
        n: usize,
    ) -> u64 {
        // SAFETY: the caller's promise; of all that is there only these are looked at, and they are
        // atomic.
        let (own, has_far) = unsafe { (&(*local).own, &(*local).has_far_own) };
        let own = if own_is_far(info) {
            bits.own(info, n).filter(|_| has_far.load(Ordering::Relaxed))
        } else {
            own.get(n)
        };
        own.map_or(0, |own| own.load(Ordering::Relaxed))
    }

    /// Changes it. Returns whether there is room for it.
    #[inline(always)]
    fn set_own_word(&self, info: &Info, bits: Bits, n: usize, word: u64) -> bool {
        let own = self.own(info, bits, n);
        own.is_some_and(|own| {
            self.note_own(info);
            own.store(word, Ordering::Relaxed);
            true
        })
    }

    /// Where it stands, if there is room for it.
    #[inline(always)]
    fn own<'a>(&'a self, info: &Info, bits: Bits<'a>, n: usize) -> Option<&'a AtomicU64> {
        if own_is_far(info) { bits.own(info, n) } else { self.own.get(n) }
    }

    /// Notes that there may be bits of the holder's own.
    #[inline(always)]
    fn note_own(&self, info: &Info) {
        if own_is_far(info) {
            self.has_far_own.store(true, Ordering::Relaxed);
        }
    }

    /// Clears what of it stands beside the bits of objects that others have freed: when every
    /// object is back.
    pub(crate) fn clear_far_own(&self, info: &Info, bits: Bits) {
        if self.has_far_own.load(Ordering::Relaxed) {
            let own = (0..info.words.into()).filter_map(|n| bits.own(info, n));
            own.for_each(|own| own.store(0, Ordering::Relaxed));
        }
    }

    /// Counts objects as taken back whose bits, in word `n`, the holder has set.
    #[inline(always)]
    fn took_back(&mut self, n: usize, count: u16) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::Class;
    use crate::tables::{FarBits, Remote};
    use core::ptr;
    use std::vec::Vec;

    fn with_slab(size: usize, f: impl Fn(SlabLocal, &Info, Bits)) {
        // SAFETY: zeros are valid for each of their fields.
        let (near, far) = unsafe { core::mem::zeroed::<(Remote, FarBits)>() };
        let info = Class::of_small(size).info();
        let mut local = SlabLocal::untouched();
        local.carved = info.capacity;
        f(local, info, Bits { near: &near, far: &far });
    }

    fn take_back_kept(
        local: &mut SlabLocal,
        info: &Info,
        bits: Bits,
        index: usize,
    ) -> Option<bool> {
        if own_is_far(info) {
            local.take_back_kept::<true>(info, || bits, index)
        } else {
            local.take_back_kept::<false>(info, || bits, index)
        }
    }

    #[test]
    fn there_is_room_for_the_holders_own_bits_from_32_bytes_on_and_apart_from_others() {
        for size in (16..=2048).step_by(16) {
            with_slab(size, |local, info, bits| {
                let words = || 0..usize::from(info.words);
                let own: Vec<_> = words().filter_map(|n| local.own(info, bits, n)).collect();
                assert!(size < 32 || own.len() == words().len(), "size {size}");
                for (n, &word) in own.iter().enumerate() {
                    let others = words().map(|n| bits.word(n)).chain(own[..n].iter().copied());
                    assert!(others.into_iter().all(|other| !ptr::eq(word, other)), "size {size}");
                }
            });
        }
    }

    #[test]
    fn the_last_object_to_come_back_is_told() {
        for size in [16, 32, 64, 256, 2048] {
            with_slab(size, |mut local, info, bits| {
                local.take_over_bits(info, bits);
                local.carved = 5;
                let told = [3, 0, 4, 1, 2].map(|n| take_back_kept(&mut local, info, bits, n));
                assert_eq!(told, [false, false, false, false, true].map(Some), "size {size}");
                assert_eq!(local.free_count(info), info.capacity.into());
            });
        }
    }

    #[test]
    fn the_holders_own_bits_become_anybodys_and_what_is_in_both_is_told() {
        for size in [16, 32, 64, 256, 2048] {
            with_slab(size, |mut local, info, bits| {
                let last = usize::from(info.capacity) - 1;
                local.take_over_bits(info, bits);
                for index in [0, last / 2, last] {
                    assert_eq!(take_back_kept(&mut local, info, bits, index), Some(false));
                    assert_eq!(take_back_kept(&mut local, info, bits, index), None, "{size}");
                }
                // Another thread has freed one of them, too.
                let has_own = local.own_word(info, bits, 0) != 0;
                freed::add(bits.word(0), 1);
                assert_eq!(local.give_up_bits(info, bits), i32::from(has_own));
                let ones = |n| bits.word(n).load(Ordering::Relaxed).count_ones();
                assert_eq!((0..info.words.into()).map(ones).sum::<u32>(), 3, "size {size}");
                assert_eq!(local.give_up_bits(info, bits), 0);
                local.take_over_bits(info, bits);
                assert_eq!(take_back_kept(&mut local, info, bits, last), None, "{size}");
            });
        }
    }

    #[test]
    fn a_slab_with_fewer_bits_than_were_counted_is_exhausted_in_the_end() {
        with_slab(256, |mut local, info, bits| {
            assert_eq!(take_back_kept(&mut local, info, bits, 5), Some(false));
            local.drained(Count(1));
            let mut taken = [0; 8];
            assert_eq!(local.take(0, info, bits, &mut taken), 1);
            assert_eq!(taken[7], 5 * 256);
            assert!(local.is_exhausted(info));
        });
    }
}
