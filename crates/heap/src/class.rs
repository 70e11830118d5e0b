//! Size classes.
//!
//! Small classes (16 B to 2 KiB) live in slabs of one granule and are handed out through a thread's
//! magazines. Medium classes (to 32 KiB) live in slabs of at most [`MEDIUM_CAPACITY`] objects, one
//! bit each. Eight classes to a doubling up to 2 KiB and five beyond keep the mean waste near 5 %
//! and 10 %. Of the five one is an eighth larger than a power of two, for what is asked for most:
//! a page, or several, and a header. Every object starts at a multiple of its size from the start
//! of its slab, so that a class whose size is a multiple of an alignment provides it.

use crate::layout::{GRANULE, GRANULE_SHIFT, UNIT};
use crate::magazine::ROUNDS;
use crate::policy::retain;

/// The largest small size in bytes.
pub const SMALL_MAX: usize = 2048;
/// The largest medium size in bytes. Larger requests get runs of granules.
pub const MEDIUM_MAX: usize = 32 * 1024;
/// The number of small classes, with [`Class::EMPTY`].
pub const SMALL_CLASSES: usize = 41;
/// The number of medium classes.
pub const MEDIUM_CLASSES: usize = 4 * MEDIUM_EIGHTHS.len();
/// For how many [`Class::medium_index`] can name: what has one for each medium class has so many.
pub(crate) const MEDIUM_PLACES: usize = MEDIUM_CLASSES.next_power_of_two();
/// The first medium class.
const FIRST_MEDIUM: u8 = 1 + SMALL_CLASSES as u8;
/// The number of classes, with the one that stands for "none".
pub const CLASSES: usize = 1 + SMALL_CLASSES + MEDIUM_CLASSES;
/// The most objects that a medium slab has: one bit each beside the state of its word.
pub const MEDIUM_CAPACITY: usize = 56;
/// Medium sizes are multiples of this many bytes.
const MEDIUM_STEP: usize = 128;

/// A size class; 0 stands for "none".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Class(pub u8);

/// What is the same for all slabs of a class.
pub struct Info {
    /// Bytes in an object.
    pub size: u32,
    /// `ceil(2^32 / size)`: an offset in a slab times this, divided by 2^32, is the number of the
    /// object there, and what is left is below the magic if and only if the offset is a multiple of
    /// the size (`divides_by_magic`).
    pub magic: u32,
    /// Bytes that the objects of a slab take up.
    pub span: u32,
    /// Objects in a slab.
    pub capacity: u16,
    /// Granules in a slab.
    pub granules: u8,
    /// Words of 64 bits for one bit an object.
    pub words: u8,
    /// Free objects at which a detached slab is worth taking from again.
    pub wake: u16,
    /// Objects a thread takes at once from a heap it shares.
    pub shared_batch: u16,
    /// Full magazines of small objects that a heap sets aside.
    pub depot: u8,
}

impl Info {
    /// How many objects fit into so many bytes of a slab.
    #[inline]
    pub(crate) fn objects_in(&self, bytes: usize) -> usize {
        ((u64::from(self.magic) * bytes as u64) >> 32) as usize
    }
}

impl Class {
    /// No class.
    pub const NONE: Self = Self(0);

    /// That of requests for nothing: its objects are addresses, each a different one, and its slabs
    /// are inaccessible.
    pub const EMPTY: Self = Self(1);

    /// The class of a small request.
    #[inline]
    pub fn of_small(size: usize) -> Self {
        debug_assert!(size <= SMALL_MAX);
        Self(SMALL_CLASS[size])
    }

    /// The class of objects of so many units, up to those that are a unit apart.
    #[inline]
    pub(crate) fn of_units(units: usize) -> Self {
        debug_assert!((1..=EVEN).contains(&units));
        Self((units + FIRST - 1) as u8)
    }

    /// The class of a medium request: more than [`SMALL_MAX`] and at most [`MEDIUM_MAX`] bytes.
    #[inline]
    pub fn of_medium(size: usize) -> Self {
        debug_assert!(size > SMALL_MAX && size <= MEDIUM_MAX);
        let n = MEDIUM_INDEX[size.div_ceil(MEDIUM_STEP)];
        // SAFETY: the table has no others.
        unsafe { core::hint::assert_unchecked(usize::from(n) < MEDIUM_CLASSES) };
        Self(FIRST_MEDIUM + n)
    }

    /// The smallest class for `size` bytes at a multiple of `align` (a power of two); `None` when
    /// only a run will do.
    pub fn of_aligned(size: usize, align: usize) -> Option<Self> {
        if size == 0 && align <= UNIT {
            return Some(Self::EMPTY);
        }
        if size > MEDIUM_MAX || align > MEDIUM_MAX {
            return None;
        }
        let size = size.next_multiple_of(align).max(UNIT);
        if size > MEDIUM_MAX {
            return None;
        }
        let first = if size <= SMALL_MAX { Self::of_small(size) } else { Self::of_medium(size) };
        (first.0..CLASSES as u8).map(Self).find(|class| class.size().is_multiple_of(align))
    }

    /// What is the same for all its slabs.
    #[inline]
    pub fn info(self) -> &'static Info {
        &INFO[usize::from(self.0)]
    }

    /// Bytes from one object to the next.
    #[inline]
    pub fn size(self) -> usize {
        self.info().size as usize
    }

    /// Bytes of an object that can be used.
    pub fn usable(self) -> usize {
        if self == Self::EMPTY { 0 } else { self.size() }
    }

    /// Whether it is one of the small classes.
    #[inline]
    pub fn is_small(self) -> bool {
        (1..=SMALL_CLASSES as u8).contains(&self.0)
    }

    /// Whether it is one of the medium classes.
    #[inline]
    pub fn is_medium(self) -> bool {
        (1 + SMALL_CLASSES as u8..CLASSES as u8).contains(&self.0)
    }

    /// Its number among the medium classes, for a medium class.
    #[inline]
    pub fn medium_index(self) -> usize {
        debug_assert!(self.is_medium());
        // The remainder changes nothing, and says to the compiler that no index is too large.
        usize::from(self.0.wrapping_sub(FIRST_MEDIUM)) % MEDIUM_PLACES
    }

    /// Whether a small object of the class starts `offset` bytes into a slab.
    #[inline]
    pub fn starts_at(self, offset: u32) -> bool {
        let magic = self.info().magic;
        offset.wrapping_mul(magic) < magic
    }

    /// As [`Info::magic`], of 64 bits: for [`starts_by_granule_magic`].
    #[inline]
    pub(crate) fn granule_magic(self) -> u64 {
        // 2^64 by as many as are a size's of what `GRANULE_FACTOR` makes.
        (1_u64 << (u64::BITS - GRANULE_FACTOR.ilog2())).div_ceil(self.info().size.into())
    }

    /// The number of the object at `offset` bytes from the start of a slab, if one starts there.
    #[inline]
    pub fn object_at(self, offset: usize) -> Option<usize> {
        self.starts().object_at(offset)
    }

    /// Where in a slab its objects start.
    #[inline]
    pub(crate) fn starts(self) -> Starts {
        let info = self.info();
        Starts { magic: info.magic, capacity: info.capacity.into() }
    }
}

/// By which multiplication the fast path makes of an address the 32 bits that begin with its offset
/// in a granule: one instruction, where a copy and a mask are two.
pub const GRANULE_FACTOR: u32 = 1 << (u32::BITS - GRANULE_SHIFT);

/// Whether a small object of the class whose [`Class::granule_magic`] this is starts at an address,
/// of which only the bits within its granule count.
#[inline]
pub(crate) fn starts_by_granule_magic(address: usize, magic: u64) -> bool {
    let offset = (address as u32).wrapping_mul(GRANULE_FACTOR);
    u64::from(offset).wrapping_mul(magic) < magic
}

/// Where in a slab the objects of a class start: what [`Info`] says of it, for who wants to have it
/// nearer.
#[derive(Clone, Copy)]
pub(crate) struct Starts {
    magic: u32,
    capacity: u32,
}

impl Starts {
    /// The number of the object at `offset` bytes from the start of a slab, if one starts there.
    #[inline]
    pub(crate) fn object_at(self, offset: usize) -> Option<usize> {
        let product = u64::from(self.magic) * offset as u64;
        let starts = (product as u32) < self.magic;
        let number = (product >> 32) as usize;
        (starts && number < self.capacity as usize).then_some(number)
    }
}

/// The number of the first class whose objects have bytes.
const FIRST: usize = 2;

/// Classes that are a unit apart.
const EVEN: usize = 8;
/// Those and the ones of which there are eight to a doubling, for four doublings.
const DENSE: usize = EVEN + 4 * 8;
/// The sizes of the classes of a doubling after those, in eighths of where it starts.
const MEDIUM_EIGHTHS: [usize; 5] = [9, 10, 12, 14, 16];

/// The size of class `n` of `CLASSES`.
const fn size_of_class(n: usize) -> usize {
    if n < FIRST {
        return UNIT;
    }
    let n = n - (FIRST - 1);
    if n <= EVEN {
        return n * UNIT;
    }
    if n <= DENSE {
        let (doubling, step) = ((n - EVEN - 1) / 8, (n - EVEN - 1) % 8);
        (128 << doubling) / 8 * (9 + step)
    } else {
        let n = n - DENSE - 1;
        let (doubling, step) = (n / MEDIUM_EIGHTHS.len(), n % MEDIUM_EIGHTHS.len());
        (SMALL_MAX << doubling) / 8 * MEDIUM_EIGHTHS[step]
    }
}

/// Granules for a medium slab: the fewest that hold eight objects and waste less than one part in
/// 32, or else the least wasteful of up to eight.
const fn medium_granules(size: usize) -> usize {
    let (mut best, mut best_waste, mut granules) = (0, usize::MAX, 1);
    while granules <= 8 {
        let bytes = granules * GRANULE;
        let fit = bytes / size;
        let capacity = if fit > MEDIUM_CAPACITY { MEDIUM_CAPACITY } else { fit };
        let waste = (bytes - capacity * size) * 1024 / bytes;
        if capacity >= 8 {
            if waste < 32 {
                return granules;
            }
            if waste < best_waste {
                (best, best_waste) = (granules, waste);
            }
        }
        granules += 1;
    }
    best
}

pub(crate) const fn info(n: usize) -> Info {
    if n == 0 {
        return Info {
            size: 0,
            magic: 0,
            span: 0,
            capacity: 0,
            granules: 0,
            words: 0,
            wake: 0,
            shared_batch: 0,
            depot: 0,
        };
    }
    let size = size_of_class(n);
    let granules = if n <= SMALL_CLASSES { 1 } else { medium_granules(size) };
    let fit = granules * GRANULE / size;
    let small = n <= SMALL_CLASSES;
    let capacity = if !small && fit > MEDIUM_CAPACITY { MEDIUM_CAPACITY } else { fit };
    Info {
        size: size as u32,
        magic: (1_u64 << 32).div_ceil(size as u64) as u32,
        span: (capacity * size) as u32,
        capacity: capacity as u16,
        granules: granules as u8,
        words: capacity.div_ceil(64) as u8,
        wake: retain::wake(capacity, small) as u16,
        shared_batch: retain::shared_batch(size) as u16,
        depot: if small { retain::depot(size, ROUNDS) as u8 } else { 0 },
    }
}

/// Whether [`Info::magic`] tells what it is to of all offsets in so many granules. Of `n` objects
/// and `rest` bytes more the product is `n` times 2^32, and `n * error + rest * magic`: which has
/// to be less than 2^32 for each rest, and less than the magic where there is none.
const fn divides_by_magic(size: usize, granules: usize) -> bool {
    let magic = (1_u64 << 32).div_ceil(size as u64);
    let error = magic * size as u64 - (1 << 32);
    let most = (granules * GRANULE / size) as u64;
    (most + 1) * error < magic
}

/// For as many classes as a byte can name, so that none is out of bounds: those that there are not
/// have objects nowhere.
static INFO: [Info; 1 << u8::BITS] = {
    let mut all = [const { info(0) }; 1 << u8::BITS];
    let mut n = 1;
    while n < CLASSES {
        all[n] = info(n);
        assert!(divides_by_magic(all[n].size as usize, all[n].granules as usize));
        n += 1;
    }
    all
};

/// Bytes from one object to the next in each class, for as many as a byte can name: so that none is
/// out of bounds.
pub(crate) static SIZES: [u32; 1 << u8::BITS] = {
    let mut all = [0; 1 << u8::BITS];
    let mut n = 0;
    while n < CLASSES {
        all[n] = info(n).size;
        n += 1;
    }
    all
};

/// The class of each small size, indexed by the size itself: one load, no arithmetic.
pub static SMALL_CLASS: [u8; SMALL_MAX + 1] = {
    let mut table = [Class::EMPTY.0; SMALL_MAX + 1];
    let (mut size, mut class) = (1, FIRST);
    while size <= SMALL_MAX {
        if size > size_of_class(class) {
            class += 1;
        }
        table[size] = class as u8;
        size += 1;
    }
    table
};

/// The number among the medium classes of that of each medium size, indexed by the steps that it
/// takes; for less than any the first.
static MEDIUM_INDEX: [u8; MEDIUM_MAX / MEDIUM_STEP + 1] = {
    let mut table = [0_u8; MEDIUM_MAX / MEDIUM_STEP + 1];
    let (mut i, mut class) = (0, 1 + SMALL_CLASSES);
    while i < table.len() {
        while size_of_class(class) < i * MEDIUM_STEP {
            class += 1;
        }
        table[i] = (class - FIRST_MEDIUM as usize) as u8;
        i += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> impl Iterator<Item = Class> {
        (FIRST as u8..CLASSES as u8).map(Class)
    }

    #[test]
    fn sizes_rise_and_end_where_the_next_kind_begins() {
        assert_eq!(Class(FIRST as u8).size(), 16);
        assert_eq!(Class(SMALL_CLASSES as u8).size(), SMALL_MAX);
        assert_eq!(Class(CLASSES as u8 - 1).size(), MEDIUM_MAX);
        for class in all().skip(1) {
            assert!(class.size() > Class(class.0 - 1).size());
            assert!(class.size() % UNIT == 0);
        }
    }

    #[test]
    fn every_size_gets_the_smallest_class_that_holds_it() {
        for size in 0..=MEDIUM_MAX {
            let class =
                if size <= SMALL_MAX { Class::of_small(size) } else { Class::of_medium(size) };
            assert!(class.usable() >= size);
            assert!(size <= UNIT || Class(class.0 - 1).size() < size, "size {size}");
            assert_eq!(class == Class::EMPTY, size == 0);
            assert_eq!(class.is_small(), size <= SMALL_MAX);
        }
    }

    #[test]
    fn waste_within_an_object_is_at_most_an_eighth_and_from_2_kib_a_sixth() {
        for size in 129..=MEDIUM_MAX {
            let class =
                if size <= SMALL_MAX { Class::of_small(size) } else { Class::of_medium(size) };
            let waste = class.size() - size;
            let most = if size <= 2048 { class.size() / 9 } else { class.size() / 6 };
            assert!(waste <= most, "size {size} in {}", class.size());
        }
    }

    #[test]
    fn slabs_hold_enough_objects_and_waste_little() {
        for class in all() {
            let info = class.info();
            let bytes = usize::from(info.granules) * GRANULE;
            let used = usize::from(info.capacity) * class.size();
            assert!(used <= bytes);
            assert!((bytes - used) * 20 <= bytes, "class {} wastes {}", class.size(), bytes - used);
            assert!(info.capacity >= 8);
            assert!(class.is_small() || usize::from(info.capacity) <= MEDIUM_CAPACITY);
            assert!(info.wake >= 1 && info.wake < info.capacity);
        }
    }

    #[test]
    fn magic_tells_starts_of_objects_from_every_other_offset() {
        for class in all().filter(|class| class.is_small()) {
            let info = class.info();
            for offset in 0..GRANULE as u32 {
                let starts = offset.wrapping_mul(info.magic) < info.magic;
                assert_eq!(starts, offset % info.size == 0, "{} at {offset}", info.size);
                let address = 0x7654_3210_0000 + 7 * GRANULE + offset as usize;
                let fast = starts_by_granule_magic(address, class.granule_magic());
                assert_eq!(fast, starts, "{} at {offset}", info.size);
                assert!(!starts_by_granule_magic(address, 0), "nothing is kept at {offset}");
            }
        }
    }

    #[test]
    fn aligned_classes_are_multiples_of_the_alignment_and_large_enough() {
        for shift in 0..=15 {
            let align = 1 << shift;
            for size in (0..=MEDIUM_MAX).step_by(13) {
                let class = Class::of_aligned(size, align).unwrap();
                assert!(class.size() >= size && class.size().is_multiple_of(align));
            }
        }
        assert_eq!(Class::of_aligned(1, 2 * MEDIUM_MAX), None);
        assert_eq!(Class::of_aligned(MEDIUM_MAX + 1, 16), None);
    }

    #[test]
    fn objects_are_found_at_their_starts_only() {
        let class = Class::of_small(48);
        assert_eq!(class.object_at(0), Some(0));
        assert_eq!(class.object_at(96), Some(2));
        assert_eq!(class.object_at(16), None);
        let beyond = usize::from(class.info().capacity) * 48;
        assert_eq!(class.object_at(beyond), None);
    }

    #[test]
    fn object_numbers_are_those_that_division_gives() {
        for class in all() {
            let info = class.info();
            for offset in 0..usize::from(info.granules) * GRANULE {
                let index = offset / class.size();
                let exact = offset % class.size() == 0 && index < usize::from(info.capacity);
                assert_eq!(class.object_at(offset), exact.then_some(index));
            }
        }
    }
}
