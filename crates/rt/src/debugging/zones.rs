//! The patterns in memory: red zones around objects, and what fills objects that were just given
//! out, or freed. The words are those of libumem and of Solaris' mtmalloc.

use super::table::Record;
use core::ops::Range;
use freehold_heap::layout::at;

/// In the red zones.
const GUARD: [u8; 4] = 0xfeed_face_u32.to_be_bytes();
/// In objects that were given out and not written to.
const NEW: [u8; 4] = 0xbadd_cafe_u32.to_be_bytes();
/// In objects that were freed.
const FREED: [u8; 4] = 0xdead_beef_u32.to_be_bytes();

/// The least bytes of a red zone.
pub(super) const ZONE: usize = 16;
/// The most: of what is left of the cell.
const MOST: usize = 256;

/// The byte of a pattern at an address.
fn byte_at(pattern: [u8; 4], address: usize) -> u8 {
    pattern[address % 4]
}

/// Fills memory.
///
/// # Safety
/// The range can be written to, and nobody else uses it.
unsafe fn fill(range: Range<usize>, pattern: [u8; 4]) {
    for address in range {
        // SAFETY: the caller's promise.
        unsafe { at::<u8>(address).write(byte_at(pattern, address)) };
    }
}

/// The first and the last address at which memory is not as it was filled.
///
/// # Safety
/// The range can be read.
unsafe fn spoiled(range: Range<usize>, pattern: [u8; 4]) -> Option<(usize, usize)> {
    let differs = |&address: &usize| {
        // SAFETY: the caller's promise. The program may write at any time; any value will do.
        let byte = unsafe { at::<u8>(address).read_volatile() };
        byte != byte_at(pattern, address)
    };
    let first = range.clone().find(differs)?;
    Some((first, range.rev().find(differs).unwrap_or(first)))
}

/// What is wrong with an object's surroundings, or its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Damage {
    /// So many bytes after the end were written to, or up to there.
    Overflow(usize),
    /// So many bytes before the start were, or from there on.
    Underflow(usize),
    /// Something was written after the free: at this address first.
    WriteAfterFree(usize),
}

impl Record {
    fn before(&self) -> Range<usize> {
        self.cell.max(self.object - MOST.min(self.object))..self.object
    }

    fn contents(&self) -> Range<usize> {
        self.object..self.object + self.size
    }

    fn behind(&self) -> Range<usize> {
        let end = self.object + self.size;
        end..(self.cell + self.cell_bytes).min(end + MOST)
    }

    /// Fills the red zones.
    ///
    /// # Safety
    /// The cell is in use by the caller alone.
    pub(super) unsafe fn fill_zones(&self) {
        // SAFETY: parts of the cell.
        unsafe {
            fill(self.before(), GUARD);
            fill(self.behind(), GUARD);
        }
    }

    /// Fills the object, which was given out or freed.
    ///
    /// # Safety
    /// The object is in use by the caller alone.
    pub(super) unsafe fn fill_contents(&self) {
        // SAFETY: the object.
        unsafe { fill(self.contents(), if self.is_freed { FREED } else { NEW }) };
    }

    /// Looks at the red zones.
    ///
    /// # Safety
    /// The cell is accessible, and its zones were filled.
    pub(super) unsafe fn look_at_zones(&self) -> Option<Damage> {
        let end = self.object + self.size;
        // SAFETY: parts of the cell.
        unsafe {
            if let Some((_, last)) = spoiled(self.behind(), GUARD) {
                return Some(Damage::Overflow(last + 1 - end));
            }
            let (first, _) = spoiled(self.before(), GUARD)?;
            Some(Damage::Underflow(self.object - first))
        }
    }

    /// Looks at the contents of an object that was freed.
    ///
    /// # Safety
    /// The cell is accessible, and was filled when the object was freed.
    pub(super) unsafe fn look_at_contents(&self) -> Option<Damage> {
        // SAFETY: the object.
        unsafe { spoiled(self.contents(), FREED) }.map(|(first, _)| Damage::WriteAfterFree(first))
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::Note;
    use super::*;

    #[test]
    fn what_is_written_to_zones_and_freed_objects_is_found() {
        let mut cell = [0_u64; 20];
        let start = cell.as_mut_ptr().expose_provenance();
        let mut record = Record::new(start + 32, 50, (start, 160), Note::default());
        // SAFETY: inside the cell.
        unsafe {
            record.fill_zones();
            record.fill_contents();
            assert_eq!(at::<u32>(start).read().to_be(), 0xfeed_face);
            assert_eq!(at::<u32>(start + 32).read().to_be(), 0xbadd_cafe);
            assert_eq!(record.look_at_zones(), None);
            for (place, damage) in
                [(82, Damage::Overflow(1)), (159, Damage::Overflow(78)), (31, Damage::Underflow(1))]
            {
                let byte = at::<u8>(start + place);
                let before = byte.replace(0);
                assert_eq!(record.look_at_zones(), Some(damage));
                byte.write(before);
            }
            assert_eq!(record.look_at_zones(), None);
            record.is_freed = true;
            record.fill_contents();
            assert_eq!(at::<u32>(start + 32).read().to_be(), 0xdead_beef);
            assert_eq!(record.look_at_contents(), None);
            at::<u8>(start + 40).write(0);
            assert_eq!(record.look_at_contents(), Some(Damage::WriteAfterFree(start + 40)));
        }
    }
}
