//! Hot objects: the medium objects of a class that a thread freed last, for it to take again first.
//!
//! A slab of medium objects is nobody's once a thread has taken its free bits, so each free of one
//! would go home to a word that others may be at. A program whose working set of a size comes and
//! goes by a few objects finds them here instead, in its cache, at the price of a small object.
//! When a class has as many as the policy allows, further objects go home; and a thread that only
//! frees objects of a class, because others allocate them, keeps none.
//!
//! Invariants: hot objects are out as far as their slabs know, and in use by nobody; there are at
//! most [`HOT_MOST`].

/// The most hot objects of a class: all that a heap has at hand of one fills two cache lines.
pub(crate) const HOT_MOST: usize = 11;

/// The hot objects of a class, the one freed last at the end.
pub(crate) struct Hot {
    /// A bit for each object. No two have the same, so what has none is not here.
    filter: u64,
    count: u16,
    /// How many there may be: none before the heap has wanted one.
    most: u16,
    objects: [usize; HOT_MOST],
}

/// The number of an object's bit in the filter.
// The upper bits of the product depend on all of the lower ones of the address, and are two
// instructions.
#[inline]
fn bit(object: usize) -> u32 {
    (object as u32).wrapping_mul(0x9e37_79b9) >> (u32::BITS - u64::BITS.ilog2())
}

impl Hot {
    /// None yet.
    pub(crate) const NONE: Self = Self { filter: 0, count: 0, most: 0, objects: [0; HOT_MOST] };

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.count.into()
    }

    /// Lets so many be kept from now on.
    pub(crate) fn allow(&mut self, most: usize) {
        self.most = most.min(HOT_MOST) as u16;
    }

    /// Keeps an object, if there is room, and none with the same bit is here already.
    #[inline]
    pub(crate) fn keep(&mut self, object: usize) -> bool {
        let filter = self.filter | 1 << bit(object);
        if self.is_full() || filter == self.filter {
            return false;
        }
        self.filter = filter;
        // SAFETY: there is room, so that the count is below what there may be, which is no more
        // than there are places. A check would be one instruction in ten of what is done here.
        unsafe { *self.objects.get_unchecked_mut(usize::from(self.count)) = object };
        self.count += 1;
        true
    }

    /// Whether an object may be here; if not it certainly is not.
    #[inline]
    pub(crate) fn may_have(&self, object: usize) -> bool {
        self.filter >> bit(object) & 1 != 0
    }

    /// Whether there are as many as there may be.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.count >= self.most
    }

    /// The object freed last.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<usize> {
        self.count = self.count.checked_sub(1)?;
        // SAFETY: it was put there, in a place that there is: the count was at most as many.
        let object = unsafe { *self.objects.get_unchecked(usize::from(self.count)) };
        self.filter &= !(1 << bit(object));
        Some(object)
    }

    /// The object that [`Hot::pop`] would give.
    #[inline]
    pub(crate) fn last(&self) -> Option<usize> {
        let n = usize::from(self.count).checked_sub(1)?;
        self.objects.get(n).copied()
    }

    /// Whether an object is here.
    #[cold]
    pub(crate) fn has(&self, object: usize) -> bool {
        self.objects[..usize::from(self.count).min(HOT_MOST)].contains(&object)
    }

    /// Takes out those that `out` is true for.
    pub(crate) fn remove(&mut self, mut out: impl FnMut(usize) -> bool) {
        let mut left = 0;
        for n in 0..usize::from(self.count).min(HOT_MOST) {
            let object = self.objects[n];
            if out(object) {
                self.filter &= !(1 << bit(object));
            } else {
                self.objects[left] = object;
                left += 1;
            }
        }
        self.count = left as u16;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn up_to(most: usize) -> Hot {
        let mut hot = Hot::NONE;
        hot.allow(most);
        hot
    }

    #[test]
    fn the_object_freed_last_is_taken_first() {
        let mut hot = up_to(8);
        for object in [0x1000, 0x2000, 0x3000] {
            assert!(hot.keep(object));
        }
        let taken = core::array::from_fn(|_| hot.pop());
        assert_eq!(taken, [Some(0x3000), Some(0x2000), Some(0x1000), None]);
    }

    #[test]
    fn an_object_that_is_kept_is_not_kept_twice() {
        let mut hot = up_to(HOT_MOST);
        for object in 1..HOT_MOST {
            assert!(hot.keep(object << 12));
        }
        for object in 1..HOT_MOST {
            assert!(!hot.keep(object << 12));
            assert!(hot.may_have(object << 12) && hot.has(object << 12));
        }
        // What was taken is not known any more.
        assert_eq!(hot.pop(), Some((HOT_MOST - 1) << 12));
        assert!(!hot.has((HOT_MOST - 1) << 12) && hot.keep((HOT_MOST - 1) << 12));
    }

    #[test]
    fn no_more_are_kept_than_may_be() {
        for most in 0..=HOT_MOST {
            let mut hot = up_to(most);
            let kept = (1..40).filter(|n| hot.keep(n << 12));
            assert_eq!(kept.count(), most);
            assert!(hot.is_full());
        }
    }

    #[test]
    fn whatever_comes_and_goes_each_object_that_is_kept_is_known() {
        let (mut hot, mut seed) = (up_to(HOT_MOST), 1_usize);
        let mut kept = std::vec::Vec::new();
        let mut refused = 0;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let object = ((seed >> 33) % 200) << 7;
            match seed >> 60 {
                0..9 if !kept.contains(&object) && hot.keep(object) => kept.push(object),
                0..9 => refused += 1,
                9 => {
                    hot.remove(|other| other == object);
                    kept.retain(|&other| other != object);
                }
                _ => assert_eq!(hot.pop(), kept.pop()),
            }
            assert!(kept.iter().all(|&object| hot.may_have(object) && hot.has(object)));
            assert_eq!(hot.count(), kept.len());
            assert_eq!(hot.filter.count_ones() as usize, kept.len());
        }
        assert!(refused > 100, "{refused} were refused");
    }

    #[test]
    fn what_is_removed_leaves_the_others_in_their_order() {
        let mut hot = up_to(8);
        for object in 1..=7 {
            assert!(hot.keep(object << 7));
        }
        let mut removed = std::vec::Vec::new();
        hot.remove(|object| {
            let third = (object >> 7) % 3 == 0;
            if third {
                removed.push(object >> 7);
            }
            third
        });
        assert_eq!(removed, [3, 6]);
        let left: std::vec::Vec<_> = core::iter::from_fn(|| hot.pop()).collect();
        assert_eq!(left, [7, 5, 4, 2, 1].map(|n| n << 7));
    }
}
