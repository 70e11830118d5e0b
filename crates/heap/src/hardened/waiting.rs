//! The small objects of its own heap that a thread has freed and must not be given out again yet:
//! the same as [`quarantine`](super::quarantine), for each class in a row of its own, so that one
//! look at a table and one exchange is all that there is to do.

use super::seal::TINY;
use crate::class::{CLASSES, Class, SMALL_CLASSES, SMALL_MAX, info};

/// The most objects of a class.
const MOST: usize = 32;

/// The fewest that there is room for.
const FEWEST: usize = 4;

/// Bytes of a class that wait, unless the fewest objects have more.
const BYTES: usize = 4 << 10;

/// What a free of a small object has to know of its class.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
pub(super) struct Shape {
    /// See [`Info::magic`](crate::class::Info::magic); 0 where there are no such objects.
    pub(super) magic: u32,
    /// Bytes that the objects of a slab take up.
    pub(super) span: u32,
    /// Bytes from one object to the next.
    pub(super) size: u32,
    /// Places in its row, less one: a power of two less one.
    last_place: u32,
}

/// For as many classes as a byte can name, so that none is out of bounds.
type Shapes = [Shape; 1 << u8::BITS];

/// Those of all small classes whose objects have bytes.
static SHAPES: Shapes = shapes_up_to(SMALL_MAX);

/// Those of tiny ones only: a table of its own is one comparison less.
static TINY_SHAPES: Shapes = shapes_up_to(TINY);

const fn shapes_up_to(most: usize) -> Shapes {
    let none = Shape { magic: 0, span: 0, size: 0, last_place: 0 };
    let mut all = [none; 1 << u8::BITS];
    let mut n = Class::EMPTY.0 as usize + 1;
    while n <= SMALL_CLASSES && info(n).size as usize <= most {
        let info = info(n);
        let last_place = places(info.size as usize) as u32 - 1;
        all[n] = Shape { magic: info.magic, span: info.span, size: info.size, last_place };
        n += 1;
    }
    all
}

const _: () = assert!(SMALL_CLASSES < CLASSES);

/// How many objects of a size wait.
const fn places(size: usize) -> usize {
    let mut places = MOST;
    while places > FEWEST && places * size > BYTES {
        places /= 2;
    }
    places
}

impl Shape {
    /// Whether an object starts at an offset in its granule.
    #[inline(always)]
    pub(super) fn starts_at(&self, in_granule: u32) -> bool {
        in_granule.wrapping_mul(self.magic) < self.magic && in_granule < self.span
    }

    /// What is left of it for a tiny object whose class and size are known.
    #[inline(always)]
    pub(super) fn of_tiny() -> &'static Self {
        const { &TINY_SHAPE }
    }

    /// That of a class.
    #[inline(always)]
    pub(super) fn of(class: Class) -> &'static Self {
        &SHAPES[usize::from(class.0)]
    }

    /// That of a class whose objects are tiny.
    #[inline(always)]
    pub(super) fn of_tiny_class(class: Class) -> &'static Self {
        &TINY_SHAPES[usize::from(class.0)]
    }
}

/// What a free of any tiny object has to know once it is known to be one.
static TINY_SHAPE: Shape = Shape { magic: 0, span: 0, size: 0, last_place: MOST as u32 - 1 };

const _: () = assert!(places(TINY) == MOST);

/// The rows. All zero: none wait.
pub(super) struct Waiting([[usize; MOST]; SMALL_CLASSES + 1]);

impl Waiting {
    /// Takes an object in, in the place that a random number chooses. Returns the one that was
    /// there, or 0. Class and shape belong together.
    #[inline(always)]
    pub(super) fn exchange(
        &mut self,
        (class, shape): (Class, &Shape),
        object: usize,
        random: u64,
    ) -> usize {
        let row = usize::from(class.0) * MOST;
        let place = row + (random as usize & shape.last_place as usize);
        debug_assert!(class.is_small() && place < self.0.as_flattened().len());
        // SAFETY: the caller has a shape that has objects, and only small classes have one here;
        // the last place of each is less than `MOST`.
        let place = unsafe { self.0.as_flattened_mut().get_unchecked_mut(place) };
        core::mem::replace(place, object)
    }

    /// Lets all go, one after the other: with the class of each.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (usize, Class)> {
        let rows = self.0.iter_mut().enumerate();
        rows.flat_map(|(n, row)| row.iter_mut().map(move |it| (it, Class(n as u8))))
            .map(|(place, class)| (core::mem::take(place), class))
            .filter(|&(object, _)| object != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::*;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    #[test]
    fn only_small_objects_that_have_bytes_have_a_shape() {
        for n in 0..=u8::MAX {
            let (class, shape) = (Class(n), Shape::of(Class(n)));
            let may_wait = class.is_small() && class != Class::EMPTY;
            assert_eq!(shape.magic != 0, may_wait, "{n}");
            assert!(!may_wait || shape.size as usize == class.size() && shape.last_place >= 3);
            let tiny = Shape::of_tiny_class(class);
            assert_eq!(tiny.magic != 0, may_wait && class.size() <= TINY);
            assert!(tiny.magic == 0 || tiny.span == shape.span && tiny.size == shape.size);
        }
    }

    #[test]
    fn what_comes_in_leaves_once_and_nobody_can_foresee_when() {
        for size in [16, 100, 1000, 2048] {
            let class = Class::of_small(size);
            let (shape, places) = (Shape::of(class), places(class.size()));
            let none = Waiting([[0; MOST]; SMALL_CLASSES + 1]);
            let (mut waiting, mut random) = (none, Random::new(1));
            let (mut left, mut stays) = (BTreeSet::new(), BTreeSet::new());
            for n in 1..=2000 {
                let former = waiting.exchange((class, shape), n, random.next());
                assert!(former == 0 || former < n && left.insert(former));
                stays.insert(n - former);
                assert!(n - left.len() <= places, "{} of {size} wait", n - left.len());
            }
            assert!(stays.len() > places, "{} different times", stays.len());
            let rest: Vec<_> = waiting.drain().collect();
            assert!(rest.iter().all(|&(object, of)| of == class && left.insert(object)));
            assert_eq!((left.len(), waiting.drain().count()), (2000, 0));
        }
    }
}
