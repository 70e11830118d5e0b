//! A record of a call with an address, in as few bytes as it takes: size and address are written as
//! differences from what was before. It must not know what the calls are.

use crate::record::CODE_BITS;

/// The bits above those of the code that tell the length of a size.
const LENGTH_BITS: u32 = 2;

/// Bits of an address that are zero as a rule, and not written.
pub(crate) const LOW_BITS: u32 = 3;

/// The low bits of an address; where they are not 0, which they are as a rule, a
/// [`note::LOW_BITS`](crate::record::note::LOW_BITS) has to tell them.
#[inline(always)]
pub fn low_bits(address: u64) -> u8 {
    (address & ((1 << LOW_BITS) - 1)) as u8
}

/// Addresses of more bits are written in their whole length.
const USUAL_ADDRESS_BITS: u32 = 48;

/// The largest size that is compared with others.
const USUAL_SIZE: u64 = 0xffff;

/// Whether an address can be a [usual](Packed::usual_sized) record's.
#[inline(always)]
pub fn is_usual_address(address: u64) -> bool {
    // Its low bits become the uppermost, so that one comparison is enough.
    address.rotate_right(LOW_BITS) >> (USUAL_ADDRESS_BITS - LOW_BITS) == 0
}

/// Whether a size can be a [usual](Packed::usual_sized) record's.
#[inline(always)]
pub fn is_usual_size(size: u64) -> bool {
    size <= USUAL_SIZE
}

/// What the records of a chunk are compared with; nothing, at its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Before {
    /// The address in the last record, without its low bits.
    pub address: u64,
    /// The last size that was compared.
    pub size: u64,
}

/// A number of a record: the bytes that are written of it, and how the first byte of the record
/// tells how many they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Field {
    number: u64,
    bytes: usize,
    length: usize,
}

impl Field {
    /// How the length of a size is told that is written as it is.
    const WHOLE_SIZE: usize = 3;
    /// How the length of a distance is told that takes more than six bytes.
    const WHOLE_DISTANCE: usize = 7;

    /// Nothing, where the length of a size would be told.
    #[inline(always)]
    fn variant(variant: u8) -> Self {
        Self { number: 0, bytes: 0, length: variant.into() }
    }

    /// As many bytes as count: none of zero. The number is less than half of the largest.
    #[inline(always)]
    fn significant(number: u64) -> Self {
        let bits = u64::BITS - 1 - (number << 1 | 1).leading_zeros();
        let bytes = bits.div_ceil(8) as usize;
        Self { number, bytes, length: bytes }
    }

    fn whole(number: u64, length: usize) -> Self {
        Self { number, bytes: 8, length }
    }

    #[inline(always)]
    fn compared_size(size: u64, before: u64) -> Self {
        Self::significant(size ^ before)
    }

    fn size(size: u64, before: u64) -> Self {
        if is_usual_size(size) {
            Self::compared_size(size, before)
        } else {
            Self::whole(size, Self::WHOLE_SIZE)
        }
    }

    /// The distance of an address from another, both without low bits.
    #[inline(always)]
    fn near(address: u64, before: u64) -> Self {
        Self::significant(zigzag(address.wrapping_sub(before) as i64))
    }

    fn distance(address: u64, before: u64) -> Self {
        let near = Self::near(address, before);
        if near.length < Self::WHOLE_DISTANCE {
            near
        } else {
            Self::whole(near.number, Self::WHOLE_DISTANCE)
        }
    }
}

/// The bits of a first byte that tell the length of a size, or a variant.
pub(crate) fn size_length(head: u8) -> u8 {
    (head >> CODE_BITS) & ((1 << LENGTH_BITS) - 1)
}

/// How many bytes the size of a record takes whose first byte is this.
pub(crate) fn size_bytes(head: u8) -> usize {
    match size_length(head).into() {
        Field::WHOLE_SIZE => 8,
        length => length,
    }
}

/// How many bytes its distance takes.
pub(crate) fn distance_bytes(head: u8) -> usize {
    match (head >> (CODE_BITS + LENGTH_BITS)).into() {
        Field::WHOLE_DISTANCE => 8,
        length => length,
    }
}

impl Before {
    /// The size of which this was written, in a record with this first byte.
    pub(crate) fn read_size(&mut self, head: u8, written: u64) -> u64 {
        if usize::from(size_length(head)) == Field::WHOLE_SIZE {
            return written;
        }
        self.size ^= written;
        self.size
    }

    /// The address at this distance, without its low bits.
    pub(crate) fn read_address(&mut self, distance: u64) -> u64 {
        self.address = self.address.wrapping_add(unzigzag(distance) as u64);
        self.address
    }
}

/// A record of a call with an address, ready to be written: the first byte, then the low bytes of
/// the size, then the low bytes of the distance, in little-endian order. The bytes above the ones
/// that count are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packed {
    /// The first byte.
    pub head: u8,
    /// The size, or its difference from the one before.
    pub size: u64,
    /// How many bytes of it count.
    pub size_bytes: usize,
    /// The distance from the address before.
    pub distance: u64,
    /// How many bytes of it count.
    pub distance_bytes: usize,
}

impl Packed {
    /// The most bytes of a record, and of what is written when eight bytes are stored where fewer
    /// count.
    pub const LONGEST: usize = 17;

    /// A record with a size: an allocation.
    pub fn sized(code: u8, size: u64, before: &mut Before, address: u64) -> Self {
        let address = address - u64::from(low_bits(address));
        let distance = Field::distance(address, before.address);
        let packed = Self::new(code, Field::size(size, before.size), distance);
        before.address = address;
        if is_usual_size(size) {
            before.size = size;
        }
        packed
    }

    /// A record without a size. `variant` is 0 or 1.
    pub fn unsized_record(code: u8, variant: u8, before: &mut Before, address: u64) -> Self {
        let address = address - u64::from(low_bits(address));
        let distance = Field::distance(address, before.address);
        before.address = address;
        Self::new(code, Field::variant(variant), distance)
    }

    /// The same as [`sized`](Self::sized), of a [usual size](is_usual_size) and where this address
    /// and the one before are [usual](is_usual_address).
    #[inline(always)]
    pub fn usual_sized(code: u8, size: u64, before: &mut Before, address: u64) -> Self {
        let distance = Field::near(address, before.address);
        let packed = Self::new(code, Field::compared_size(size, before.size), distance);
        *before = Before { address, size };
        packed
    }

    /// The same as [`unsized_record`](Self::unsized_record) where this address and the one before
    /// are [usual](is_usual_address).
    #[inline(always)]
    pub fn usual_unsized(code: u8, variant: u8, before: &mut Before, address: u64) -> Self {
        let distance = Field::near(address, before.address);
        before.address = address;
        Self::new(code, Field::variant(variant), distance)
    }

    #[inline(always)]
    fn new(code: u8, size: Field, distance: Field) -> Self {
        // Sums of multiples, which are made of fewer instructions than the same bits.
        let lengths = size.length + distance.length * (1 << LENGTH_BITS);
        Self {
            head: (usize::from(code) + lengths * (1 << CODE_BITS)) as u8,
            size: size.number,
            size_bytes: size.bytes,
            distance: distance.number,
            distance_bytes: distance.bytes,
        }
    }

    /// How long the record is.
    #[inline(always)]
    pub fn len(&self) -> usize {
        1 + self.size_bytes + self.distance_bytes
    }

    /// Never: a record has a first byte.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The record as bytes, of which the first [`len`](Self::len) count.
    pub fn to_bytes(&self) -> [u8; Self::LONGEST] {
        let mut bytes = [0; Self::LONGEST];
        bytes[0] = self.head;
        bytes[1..9].copy_from_slice(&self.size.to_le_bytes());
        let at = 1 + self.size_bytes;
        bytes[at..at + 8].copy_from_slice(&self.distance.to_le_bytes());
        bytes
    }
}

/// A distance of whole steps as a number whose sign is in its lowest bit, so that small distances
/// either way are small numbers. Shifted by one step less than all: the lowest bit is zero then.
#[inline(always)]
fn zigzag(distance: i64) -> u64 {
    ((distance >> (LOW_BITS - 1)) ^ (distance >> 63)) as u64
}

fn unzigzag(number: u64) -> i64 {
    ((number >> 1) as i64 ^ -((number & 1) as i64)) << LOW_BITS
}
