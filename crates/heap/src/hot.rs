//! Hot objects: the medium objects of a class that a thread freed last, for it to take again first.
//!
//! A slab of medium objects is nobody's once a thread has taken its free bits, so each free of one
//! would go home to a word that others may be at. A program whose working set of a size comes and
//! goes by a few objects finds them here instead, in its cache, at the price of a small object.
//! When a class has as many as the policy allows, further objects go home; and a thread that only
//! frees objects of a class, because others allocate them, keeps none.
//!
//! Invariant: hot objects are out as far as their slabs know, and in use by nobody.

/// The most hot objects of a class: all that a heap has at hand of one fills two cache lines.
pub(crate) const HOT_MOST: usize = 11;

/// The hot objects of a class, the one freed last at the end.
pub(crate) struct Hot {
    /// A bit for each object, and for others that have gone: what has none is not here.
    filter: u64,
    count: u16,
    /// How many there may be: none before the heap has wanted one.
    most: u16,
    objects: [usize; HOT_MOST],
}

/// What became of an object offered to be kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Offered {
    /// It is kept.
    Kept,
    /// It was kept already: it is freed a second time.
    Twice,
    /// There are as many as there may be.
    Full,
}

/// The bit of the filter for an object. Objects are multiples of 128 bytes.
#[inline]
fn bit(object: usize) -> u64 {
    1_u64.wrapping_shl((object >> 7 ^ object >> 13) as u32)
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

    /// Keeps an object, if there is room, and it is plain to see that it is not here already.
    #[inline]
    pub(crate) fn keep(&mut self, object: usize) -> bool {
        let bit = bit(object);
        let room = self.count < self.most && self.filter & bit == 0;
        let Some(place) = self.objects.get_mut(usize::from(self.count)).filter(|_| room) else {
            return false;
        };
        *place = object;
        self.filter |= bit;
        self.count += 1;
        true
    }

    /// Whether an object would certainly be refused as one too many.
    #[inline]
    pub(crate) fn is_full_without(&self, object: usize) -> bool {
        self.count >= self.most && self.filter & bit(object) == 0
    }

    /// The object freed last.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<usize> {
        self.count = self.count.checked_sub(1)?;
        if self.count == 0 {
            self.filter = 0;
        }
        self.objects.get(usize::from(self.count)).copied()
    }

    /// Keeps an object, if there is room and it is not here already.
    #[cold]
    pub(crate) fn offer(&mut self, object: usize) -> Offered {
        let kept = &self.objects[..usize::from(self.count).min(HOT_MOST)];
        if kept.contains(&object) {
            return Offered::Twice;
        }
        // Forgets those that have gone.
        self.filter = kept.iter().fold(0, |all, &kept| all | bit(kept));
        let Some(place) = self.objects.get_mut(usize::from(self.count)) else {
            return Offered::Full;
        };
        if self.count >= self.most {
            return Offered::Full;
        }
        *place = object;
        self.filter |= bit(object);
        self.count += 1;
        Offered::Kept
    }

    /// Takes out those that `out` is true for.
    pub(crate) fn remove(&mut self, mut out: impl FnMut(usize) -> bool) {
        let mut left = 0;
        for n in 0..usize::from(self.count).min(HOT_MOST) {
            let object = self.objects[n];
            if !out(object) {
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
            assert_eq!(hot.offer(object), Offered::Kept);
        }
        let taken = core::array::from_fn(|_| hot.pop());
        assert_eq!(taken, [Some(0x3000), Some(0x2000), Some(0x1000), None]);
    }

    #[test]
    fn an_object_that_is_kept_is_not_kept_twice() {
        let mut hot = up_to(HOT_MOST);
        for object in 1..=HOT_MOST {
            assert_eq!(hot.offer(object << 12), Offered::Kept);
        }
        for object in 1..=HOT_MOST {
            assert_eq!(hot.offer(object << 12), Offered::Twice);
        }
        // What was taken is not known any more.
        hot.pop();
        assert_eq!(hot.offer(HOT_MOST << 12), Offered::Kept);
    }

    #[test]
    fn no_more_are_kept_than_may_be() {
        for most in 0..=HOT_MOST {
            let mut hot = up_to(most);
            let kept = (1..40).filter(|n| hot.offer(n << 12) == Offered::Kept);
            assert_eq!(kept.count(), most);
            for object in (1..40).map(|n| n << 12) {
                if hot.is_full_without(object) {
                    assert_eq!(hot.offer(object), Offered::Full, "{object:#x} of {most}");
                }
            }
        }
    }

    #[test]
    fn what_is_kept_is_found_after_any_number_have_come_and_gone() {
        let mut hot = up_to(3);
        for object in (1..1000).map(|n| n << 7) {
            assert_eq!(hot.offer(object), Offered::Kept);
            assert_eq!(hot.offer(object), Offered::Twice);
            if object % 3 != 0 {
                assert_eq!(hot.pop(), Some(object));
            } else if hot.count == 3 {
                assert!(!hot.is_full_without(object));
                hot.remove(|other| other == object);
            }
        }
    }

    #[test]
    fn what_is_removed_leaves_the_others_in_their_order() {
        let mut hot = up_to(8);
        for object in 1..=7 {
            hot.offer(object);
        }
        let mut removed = std::vec::Vec::new();
        hot.remove(|object| {
            if object % 3 == 0 {
                removed.push(object);
            }
            object % 3 == 0
        });
        assert_eq!(removed, [3, 6]);
        let left: std::vec::Vec<_> = core::iter::from_fn(|| hot.pop()).collect();
        assert_eq!(left, [7, 5, 4, 2, 1]);
    }
}
