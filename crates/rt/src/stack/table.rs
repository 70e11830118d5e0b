//! The table of frames of an image, in its sections `.eh_frame_hdr` and `.eh_frame`: which program
//! of rules holds for an address.

use super::image::Image;
use core::ops::Range;
use freehold_heap::layout::at;

/// How the index is encoded by all linkers: relative to its own start, four bytes, sorted.
const SORTED: u8 = 0x3b;
const FOUR_BYTES: u8 = 0x03;
const OMITTED: u8 = 0xff;

/// Bytes of a table that are read one after the other.
#[derive(Clone)]
pub(crate) struct Cursor {
    place: usize,
    end: usize,
}

/// Reads a number of so many bytes.
macro_rules! read {
    ($(#[$doc:meta] $name:ident: $type:ty;)*) => {
        $(
            #[$doc]
            pub(crate) fn $name(&mut self) -> Option<$type> {
                let place = self.skip(size_of::<$type>())?;
                // SAFETY: inside a table of a loaded image.
                Some(unsafe { at::<$type>(place).read_unaligned() })
            }
        )*
    };
}

impl Cursor {
    /// The bytes of a range, as far as that lies in `image`.
    fn new(image: &Image, range: Range<usize>) -> Option<Self> {
        let whole = image.range();
        let inside = range.start >= whole.start && range.end <= whole.end;
        (inside && range.start <= range.end).then_some(Self { place: range.start, end: range.end })
    }

    /// Where it stands.
    pub(crate) fn place(&self) -> usize {
        self.place
    }

    /// Goes on by so many bytes, and returns where they begin.
    pub(crate) fn skip(&mut self, bytes: usize) -> Option<usize> {
        let place = self.place;
        self.place = place.checked_add(bytes).filter(|&after| after <= self.end)?;
        Some(place)
    }

    read! {
        /// A byte.
        byte: u8;
        /// Two bytes.
        half: u16;
        /// Four bytes.
        word: u32;
        /// Eight bytes.
        double: u64;
    }

    /// A number of variable length.
    pub(crate) fn unsigned(&mut self) -> Option<u64> {
        let (mut value, mut shift) = (0_u64, 0);
        loop {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift)?;
            shift += 7;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
    }

    /// A signed number of variable length.
    pub(crate) fn signed(&mut self) -> Option<i64> {
        let (mut value, mut shift) = (0_i64, 0);
        loop {
            let byte = self.byte()?;
            value |= i64::from(byte & 0x7f).checked_shl(shift)?;
            shift += 7;
            if byte & 0x80 == 0 {
                let negative = byte & 0x40 != 0 && shift < i64::BITS;
                return Some(if negative { value | -1 << shift } else { value });
            }
        }
    }

    /// A pointer, or a number of the same kind: in the format of the lower half of the encoding,
    /// and relative to its place if `relative` is asked for and the upper half says so.
    fn encoded(&mut self, encoding: u8, relative: bool) -> Option<usize> {
        let place = self.place;
        let value = match encoding & 0x0f {
            0x0 | 0x4 | 0xc => self.double()? as usize,
            0x1 => self.unsigned()? as usize,
            0x2 => self.half()?.into(),
            0x3 => self.word()? as usize,
            0x9 => self.signed()? as usize,
            0xa => self.half()?.cast_signed() as isize as usize,
            0xb => self.word()?.cast_signed() as isize as usize,
            _ => return None,
        };
        match (relative, encoding & 0x70) {
            (false, _) | (true, 0) => Some(value),
            (true, 0x10) => Some(place.wrapping_add(value)),
            _ => None,
        }
    }
}

/// What holds for the code of a function.
pub(crate) struct Frame {
    /// Where the function begins.
    pub(crate) start: usize,
    /// What the rules of all functions of its kind begin with.
    pub(crate) common: Cursor,
    /// The function's own.
    pub(crate) own: Cursor,
    /// Bytes of code that an advance of 1 stands for.
    pub(crate) code_unit: u64,
    /// Bytes that an offset of 1 stands for.
    pub(crate) data_unit: i64,
    /// The register that has the return address.
    pub(crate) return_register: usize,
}

impl Frame {
    /// The frame of the function that contains `address`.
    pub(crate) fn of(image: &Image, address: usize) -> Option<Self> {
        let entry = find(image, address)?;
        let (mut entry, place) = open(image, entry)?;
        let distance = entry.word()? as usize;
        let (mut common, _) = open(image, place.checked_sub(distance)?)?;
        // Its own number, which is 0.
        common.skip(4)?;
        let version = common.byte()?;
        let mut remarks = common.clone();
        while common.byte()? != 0 {}
        if version == 4 {
            common.skip(2)?;
        }
        let code_unit = common.unsigned()?;
        let data_unit = common.signed()?;
        let return_register =
            if version == 1 { common.byte()?.into() } else { common.unsigned()? as usize };
        let mut encoding = 0;
        let has_remarks = remarks.clone().byte()? == b'z';
        if has_remarks {
            remarks.byte()?;
            let bytes = common.unsigned()? as usize;
            let mut details = common.clone();
            common.skip(bytes)?;
            loop {
                match remarks.byte()? {
                    0 => break,
                    b'R' => encoding = details.byte()?,
                    b'L' => {
                        details.byte()?;
                    }
                    b'P' => {
                        let encoding = details.byte()?;
                        details.encoded(encoding, false)?;
                    }
                    // The frame of a signal, or that return addresses are signed.
                    b'S' | b'B' => {}
                    _ => return None,
                }
            }
        }
        let start = entry.encoded(encoding, true)?;
        let bytes = entry.encoded(encoding, false)?;
        if has_remarks {
            let more = entry.unsigned()? as usize;
            entry.skip(more)?;
        }
        let inside = address.wrapping_sub(start) < bytes;
        inside.then_some(Self { start, common, own: entry, code_unit, data_unit, return_register })
    }
}

/// The entry of the table for the last function that begins at or before `address`.
fn find(image: &Image, address: usize) -> Option<usize> {
    let start = image.index;
    let mut index = Cursor::new(image, start..image.range().end)?;
    let (version, pointer) = (index.byte()?, index.byte()?);
    let (count, table) = (index.byte()?, index.byte()?);
    if version != 1 || count != FOUR_BYTES || table != SORTED || pointer == OMITTED {
        return None;
    }
    index.encoded(pointer, false)?;
    let count = index.word()? as usize;
    let base = index.place();
    index.skip(count.checked_mul(8)?)?;
    let row = |n: usize| {
        // SAFETY: a row of the index, which was found to lie inside the image.
        let [first, entry] = unsafe { at::<[i32; 2]>(base + n * 8).read_unaligned() };
        [first, entry].map(|it| start.wrapping_add(it as isize as usize))
    };
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low.midpoint(high);
        if row(middle)[0] <= address {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Some(row(low.checked_sub(1)?)[1])
}

/// The bytes of the entry at an address, after its length, and where they begin.
fn open(image: &Image, address: usize) -> Option<(Cursor, usize)> {
    let length = Cursor::new(image, address..address.checked_add(4)?)?.word()?;
    let start = address + 4;
    // A length of all ones would be followed by one of eight bytes, which no linker writes.
    let entry = Cursor::new(image, start..start.checked_add(length as usize)?)?;
    (length != 0).then_some((entry, start))
}
