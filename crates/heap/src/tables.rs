//! What is known of every granule, out of line, in tables indexed by its number.
//!
//! An overflow in the program's memory cannot reach them, they put no headers between objects, and
//! each is dense for those who read it: the tag is read by everybody and seldom written; the local
//! part is written by the slab's holder alone; the word is written by those who free from
//! elsewhere.

use crate::class::{Class, Info, MEDIUM_CAPACITY};
use crate::hot_runs::bin_of;
use crate::layout::{GRANULE, GRANULE_SHIFT, Granule, UNIT};
use crate::magazine::MAGAZINES;
use crate::policy::retain;
use core::ptr;
use freehold_sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU64, Ordering};
use freehold_sync::granules::FreeGranules;
use freehold_sync::open::OpenBlocks;
use freehold_sync::word::{Count, Mask, SlabWord};

/// What a granule is used for. All zero: free, or inside a run.
///
/// All fields are Relaxed everywhere: whoever frees an object was given it by something that orders
/// the tag's stores before the free; class and delta do not change while a slab has an object out;
/// and the owner is changed by whoever has claimed the slab.
#[repr(C, align(4))]
pub struct Tag {
    owner: AtomicU16,
    pub(crate) part: AtomicU16,
}

/// Which part of which kind of slab a granule is: the class, and above it how many granules before
/// this one the slab begins.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Part(u32);

impl Part {
    #[inline]
    fn new(class: u8, delta: u8) -> Self {
        Self(u16::from_le_bytes([class, delta]).into())
    }

    /// The class of the slab, [`RUN`], or 0.
    #[inline]
    pub fn class(self) -> u8 {
        self.0 as u8
    }

    /// How many granules before this one the slab begins.
    #[inline]
    pub fn delta(self) -> u32 {
        self.0 >> u8::BITS
    }

    /// Whether it is the first granule of a slab of that class.
    #[inline]
    pub(crate) fn is_head_of(self, class: Class) -> bool {
        self.0 == u32::from(class.0)
    }

    /// Whether it is the first granule of a run, which may be free, and hot.
    #[inline]
    pub fn is_run(self) -> bool {
        self.class() == RUN
    }
}

/// In place of a class: the first granule of a run.
pub const RUN: u8 = u8::MAX;

impl Tag {
    /// Class and distance at once.
    #[inline]
    pub fn part(&self) -> Part {
        Part(self.part.load(Ordering::Relaxed).into())
    }

    /// The class of the slab here, [`RUN`], or 0.
    #[inline]
    pub fn class(&self) -> u8 {
        self.part().class()
    }

    /// How many granules before this one the slab begins.
    #[inline]
    pub fn delta(&self) -> u32 {
        self.part().delta()
    }

    /// The heap in whose map the slab stands; 0 for none.
    pub fn owner(&self) -> u16 {
        self.owner.load(Ordering::Relaxed)
    }

    /// Names the heap in whose map the slab stands.
    pub fn set_owner(&self, id: u16) {
        self.owner.store(id, Ordering::Relaxed);
    }

    /// Makes the granule part of a slab or run.
    #[inline]
    pub fn set(&self, class: u8, delta: u8) {
        self.part.store(Part::new(class, delta).0 as u16, Ordering::Relaxed);
    }

    /// Makes the granule free again, as far as the tag is concerned.
    pub fn clear(&self) {
        self.set(0, 0);
        self.set_owner(0);
    }
}

/// What only the holder of a slab writes, and reads, but for what is atomic. Which thread that is,
/// the slab's word says.
///
/// Invariant, for a slab of small objects:
/// `(capacity - carved) + balance + (count in the word) + (out) == capacity`, where `out` counts
/// objects in use, in threads' caches, and freed but not yet counted.
#[repr(C, align(64))]
pub struct SlabLocal {
    /// How many objects have ever been given out: the rest is untouched.
    pub carved: u16,
    /// Frees that were drained from the word, or that the holder made itself, less bits collected.
    pub balance: i16,
    /// The next slab in its list; 0 for none, else the granule plus one.
    pub next: u32,
    /// The previous one, likewise.
    pub prev: u32,
    /// For a run: its granules. Changed by `set_run` alone.
    pub run: u32,
    /// For a run: whether it was given out as zero, and is to be looked at when it is freed.
    pub(crate) zeroed: bool,
    /// For a run: the number of the bin that it would be in if it were hot.
    pub(crate) bin: RunBin,
    /// The first word of bits that may have one that the balance counts.
    pub(crate) lowest: u16,
    /// Whether the rest that was never given out has never been touched.
    pub(crate) fresh: bool,
    /// Which heap keeps the slab.
    pub(crate) kept_as: KeptAs,
    /// The pages that were purged since objects were taken last: a bit for each.
    pub(crate) purged: u64,
    /// For a slab in a pool or kept: the background thread's last tick when it was put in.
    pub(crate) pooled_at: u32,
    /// For a slab of medium objects in a pool: whether it was left there whole.
    pub(crate) whole: bool,
    /// For a slab of which others have freed while a heap kept it: how often more it goes into the
    /// pool instead.
    pub(crate) unkept: u8,
    /// Whether there are bits of objects that the holder has taken back itself beside those of
    /// objects that others have freed. Relaxed, as those: only the holder writes them, and others
    /// look whether what they free is free already.
    pub(crate) has_far_own: AtomicBool,
    /// The bits of objects that the holder has taken back itself, if they fit here.
    pub(crate) own: [AtomicU64; OWN_WORDS],
}

/// Words of bits of objects that the holder has taken back for which there is room in the local
/// part. Of classes that have more all stand at the end of the far bits, backwards, as far as there
/// is room: for all objects from 32 bytes on.
pub(crate) const OWN_WORDS: usize = 3;

/// The heap that keeps a slab, and the slab's class; 0 for none. Changed with that heap's lock
/// held; Relaxed, since others only see that it is not theirs.
#[repr(transparent)]
pub(crate) struct KeptAs(AtomicU16);

impl KeptAs {
    /// By no heap.
    pub(crate) const fn by_none() -> Self {
        Self(AtomicU16::new(0))
    }

    /// What says that the heap with this number keeps a slab of a small class.
    #[inline]
    pub(crate) fn key(heap: u16, class: Class) -> u16 {
        const _: () = assert!((retain::HEAPS_MOST + 1) * MAGAZINES <= u16::MAX as usize);
        heap * MAGAZINES as u16 + u16::from(class.0)
    }

    /// What it says.
    #[inline(always)]
    pub(crate) fn look(&self) -> u16 {
        self.0.load(Ordering::Relaxed)
    }

    /// Has it say so.
    pub(crate) fn set(&self, key: u16) {
        self.0.store(key, Ordering::Relaxed);
    }
}

const _: () = assert!(size_of::<SlabLocal>() == 64);

impl SlabLocal {
    /// Says how many granules a run has, which is in use.
    pub(crate) fn set_run(&mut self, granules: u32) {
        (self.run, self.bin) = (granules, RunBin::of(granules));
    }
}

/// The number of the bin of hot runs that a run belongs to, and whether the run is free although it
/// is claimed: it is hot, or on its way to another thread, or shut.
///
/// That stands here and not in the tag, since it changes whenever the run is given out or freed,
/// and sixteen tags share a line; and with the number, so that who looks for the bin of a run that
/// is free already finds none. Relaxed: whoever has the run writes it, and others only look when
/// they free what is not theirs.
#[repr(transparent)]
pub(crate) struct RunBin(AtomicU8);

impl RunBin {
    /// Set if the run is free.
    pub(crate) const FREE: u8 = 1 << 7;

    /// Of no run.
    pub(crate) const fn none() -> Self {
        Self(AtomicU8::new(0))
    }

    /// Of a run of so many granules that is in use. That of the longest, which are never hot, is
    /// any without such runs.
    fn of(granules: u32) -> Self {
        Self(AtomicU8::new(bin_of(granules).min(usize::from(Self::FREE - 1)) as u8))
    }

    /// The number of the bin, or more than any has if the run is free.
    #[inline]
    pub(crate) fn number(&self) -> usize {
        self.0.load(Ordering::Relaxed).into()
    }

    /// Whether the run is free.
    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        self.0.load(Ordering::Relaxed) & Self::FREE != 0
    }

    /// Notes that the run, which is the caller's and of this bin, is in use.
    #[inline]
    pub(crate) fn set_in_use(&self, number: usize) {
        self.0.store(number as u8, Ordering::Relaxed);
    }

    /// Notes that the run, which is the caller's and of this bin, is free.
    #[inline]
    pub(crate) fn set_free(&self, number: usize) {
        self.0.store(number as u8 | Self::FREE, Ordering::Relaxed);
    }
}

/// Words of bits that stand with a slab's word.
pub(crate) const NEAR_WORDS: usize = 7;
/// Words of bits for the objects that do not fit there: a slab of the smallest class has 2048.
pub(crate) const FAR_WORDS: usize = 25;

/// What others write of a slab: its word, and the bits of objects they freed. One line holds both,
/// for slabs of up to 448 objects.
#[repr(C, align(64))]
pub struct Remote {
    pub(crate) word: AtomicU64,
    near: [AtomicU64; NEAR_WORDS],
}

/// The bits of the other objects.
#[repr(C)]
pub struct FarBits([AtomicU64; FAR_WORDS]);

impl Remote {
    /// As the word of a slab of small objects.
    #[inline]
    pub fn count(&self) -> &SlabWord<Count> {
        // SAFETY: `SlabWord` is one AtomicU64 (checked below); both kinds give zero bits the same
        // meaning; a granule's class decides which kind is used, and changes only while it is free.
        unsafe { &*ptr::from_ref(&self.word).cast() }
    }

    /// Whether an object of a slab of medium objects, which need no bits here, is on its way to
    /// another thread ([`handover`](crate::handover)). A byte for each; none is set where no object
    /// is out. Relaxed: whoever has the object writes it, and others only look when they free it.
    #[inline]
    pub(crate) fn handover_mark(&self, index: usize) -> &AtomicBool {
        const _: () = assert!(MEDIUM_CAPACITY <= NEAR_WORDS * size_of::<AtomicU64>());
        debug_assert!(index < MEDIUM_CAPACITY);
        // SAFETY: one of the bytes, which are 0 or 1 as long as the granule is of such a slab:
        // small ones leave zeros behind. It is accessed as what it is in the meantime.
        unsafe { &*ptr::from_ref(&self.near).cast::<AtomicBool>().add(index) }
    }

    /// Clears all of these.
    pub(crate) fn clear_handover_marks(&self) {
        // Relaxed: every free of the slab is over, and releasing the granule publishes it.
        self.near.iter().for_each(|marks| marks.store(0, Ordering::Relaxed));
    }

    /// As the word of a slab of medium objects.
    #[inline]
    pub fn mask(&self) -> &SlabWord<Mask> {
        // SAFETY: as in `count`.
        unsafe { &*ptr::from_ref(&self.word).cast() }
    }
}

/// The bits of a slab's objects that were freed from elsewhere.
#[derive(Clone, Copy)]
pub struct Bits<'a> {
    pub(crate) near: &'a Remote,
    pub(crate) far: &'a FarBits,
}

impl<'a> Bits<'a> {
    /// Word `n` of the bits of objects that the holder has taken back itself, of a class with more
    /// than the local part has room for, if there is room here: behind what the class takes of the
    /// far bits otherwise.
    #[inline(always)]
    pub(crate) fn own(self, info: &Info, n: usize) -> Option<&'a AtomicU64> {
        let taken = usize::from(info.words).saturating_sub(NEAR_WORDS);
        (n + taken < FAR_WORDS).then(|| &self.far.0[FAR_WORDS - 1 - n])
    }

    /// Word `n`: objects `64 * n` and following.
    #[inline]
    pub fn word(self, n: usize) -> &'a AtomicU64 {
        match n.checked_sub(NEAR_WORDS) {
            None => &self.near.near[n],
            Some(far) => &self.far.0[far],
        }
    }

    /// Writes to the far ones of a slab's words, of which no bit is set yet: so that the pages that
    /// they are on take one page fault. Setting a bit reads first, for which the kernel gives the
    /// page of zeros that all such pages share; replacing that takes a second fault, and stops
    /// every processor that the program runs on, which may take a virtual machine milliseconds.
    ///
    /// Only for the slab's holder, before an object is out that has a bit there.
    pub(crate) fn touch_far(self, words: usize) {
        // Relaxed: nobody else writes there yet, and giving out the objects publishes it.
        for n in [NEAR_WORDS, words - 1] {
            self.word(n).store(0, Ordering::Relaxed);
        }
    }
}

const _: () = {
    assert!(size_of::<ZoneEntry>() == 128);
    assert!(size_of::<SlabWord<Count>>() == size_of::<AtomicU64>());
    assert!(size_of::<SlabWord<Mask>>() == size_of::<AtomicU64>());
    assert!(size_of::<Tag>() == 4);
    assert!(size_of::<SlabLocal>() == 64);
    assert!(size_of::<Remote>() == 64);
    assert!((NEAR_WORDS + FAR_WORDS) * 64 == GRANULE / UNIT);
};

/// A block: which granules are free, and which may be resident.
#[repr(C, align(64))]
pub struct BlockEntry {
    /// The free granules. Zero while the block is wholly free (its zone says so) or part of a run.
    pub free: FreeGranules,
    /// Granules touched since they were last known to be zero. A bit is changed only by the
    /// granule's owner.
    pub dirty: AtomicU64,
}

/// A zone of 64 blocks. `whole` is the truth about wholly free blocks; the rest are hints.
#[repr(C, align(128))]
pub struct ZoneEntry {
    /// Wholly free blocks: whoever clears a bit owns the block.
    pub whole: FreeGranules,
    /// Of the wholly free blocks, those with dirty granules.
    pub dirty: AtomicU64,
    /// Blocks that a heap takes its granules from.
    pub home: AtomicU64,
    /// Blocks that have been in use since what is known of their granules was purged.
    pub worn: AtomicU64,
    /// Blocks that have free granules, and the longest run of them that each may have.
    pub open: OpenBlocks,
}

/// The tables of an arena: where each starts. Two of them grow downwards, so that they start where
/// another does.
pub struct Tables {
    /// [`Tag`]s.
    pub tags: usize,
    /// [`SlabLocal`]s, downwards: the first ends here.
    pub locals: usize,
    /// [`FarBits`].
    pub far_bits: usize,
    /// [`Remote`]s, downwards: the first ends here.
    pub remotes: usize,
    /// [`BlockEntry`]s.
    pub blocks: usize,
    /// [`ZoneEntry`]s.
    pub zones: usize,
    /// The start of the region.
    pub region: usize,
}

impl Tables {
    /// The first byte of a granule.
    #[inline]
    pub fn address(&self, g: Granule) -> usize {
        self.region + ((g.0 as usize) << GRANULE_SHIFT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_granule_of_a_slab_is_its_head() {
        let class = Class::of_medium(9216);
        assert!(Part::new(class.0, 0).is_head_of(class));
        let others = [(class.0, 1), (class.0 + 1, 0), (RUN, 0), (0, 0)];
        assert!(
            others.iter().all(|&(class_of, delta)| !Part::new(class_of, delta).is_head_of(class))
        );
    }
}
