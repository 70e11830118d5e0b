//! The records of a thread's calls: a few bytes each, written one behind the other.
//!
//! The first byte of a record has a code in its low three bits. Records of calls with an address
//! have two lengths in the other five: how many bytes the size takes, and how many the address.
//! Both are written as differences from what was before, so what is as before takes none: freeing
//! the object that was just given out is one byte, and giving it out again, for the same size,
//! another. Everything else is a *note*, whose kind is in the other five bits. A zero byte ends the
//! records of a chunk that was not filled.
//!
//! **The clock.** Each record of a call is one tick later than the one before it. A note sets the
//! clock forward: to the time of day every now and then, and past whatever another thread last did
//! with the same address. So all records, ordered by their clocks, are in an order in which they
//! can have happened: each object is allocated before it is freed, whoever does either, and freed
//! before its address is given out again.

use crate::bytes::{LONGEST_GROUPED, grouped, read_grouped};
use crate::file::LAST_LEVEL;
use crate::packed::{self, Before, LOW_BITS};

/// The codes of records.
pub mod code {
    /// There are no more records in the chunk.
    pub const END: u8 = 0;
    /// `malloc`; or the function that a note before it names.
    pub const MALLOC: u8 = 1;
    /// `free`, or a form of `operator delete`.
    pub const FREE: u8 = 2;
    /// `calloc`.
    pub const CALLOC: u8 = 3;
    /// A form of `operator new`.
    pub const NEW: u8 = 4;
    /// `realloc` is called with this object.
    pub const REALLOC_FROM: u8 = 5;
    /// `realloc` has returned this object.
    pub const REALLOC_TO: u8 = 6;
    /// Something else, told by [`note`](super::note).
    pub const NOTE: u8 = 7;
}

/// The bits of a record's first byte that tell its code.
pub const CODE_BITS: u32 = 3;

/// The code in a record's first byte.
#[inline(always)]
pub fn code_of(head: u8) -> u8 {
    head & ((1 << CODE_BITS) - 1)
}

/// Whether a record of a call with an address has a size: whether it is of an allocation.
#[inline(always)]
pub fn has_size(code: u8) -> bool {
    !matches!(code, code::FREE | code::REALLOC_FROM)
}

/// The kinds of notes.
pub mod note {
    /// Sets the clock forward by the number that follows.
    pub const CLOCK: u8 = 1;
    /// The next record is a call of this function with an alignment, as a power of two.
    pub const ALIGNED: u8 = 2;
    /// `free` of null.
    pub const FREE_NULL: u8 = 3;
    /// A call of this function, for the size that follows, returned null.
    pub const FAILED: u8 = 4;
    /// `realloc` with a size of 0 has freed the object that it was called with.
    pub const REALLOC_FREED: u8 = 5;
    /// The thread is about to end. Other destructors may still run, and call.
    pub const EXIT: u8 = 6;
    /// From here on a share of the objects is recorded: see [`crate::file::level`].
    pub const LEVEL: u8 = 7;
    /// The address of the next record has these low bits, and not zeros.
    pub const LOW_BITS: u8 = 8;
}

/// The functions that calls are made to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are the functions' own")]
pub enum Function {
    Malloc = 0,
    Calloc = 1,
    Realloc = 2,
    New = 3,
    AlignedAlloc = 4,
    PosixMemalign = 5,
    Memalign = 6,
    Valloc = 7,
    Pvalloc = 8,
    NewAligned = 9,
    Free = 10,
    Delete = 11,
}

impl Function {
    /// All of them, by number.
    pub const ALL: [Self; 12] = [
        Self::Malloc,
        Self::Calloc,
        Self::Realloc,
        Self::New,
        Self::AlignedAlloc,
        Self::PosixMemalign,
        Self::Memalign,
        Self::Valloc,
        Self::Pvalloc,
        Self::NewAligned,
        Self::Free,
        Self::Delete,
    ];

    fn numbered(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The name in the language of the call.
    pub fn name(self) -> &'static str {
        match self {
            Self::Malloc => "malloc",
            Self::Calloc => "calloc",
            Self::Realloc => "realloc",
            Self::New => "operator new",
            Self::AlignedAlloc => "aligned_alloc",
            Self::PosixMemalign => "posix_memalign",
            Self::Memalign => "memalign",
            Self::Valloc => "valloc",
            Self::Pvalloc => "pvalloc",
            Self::NewAligned => "operator new (aligned)",
            Self::Free => "free",
            Self::Delete => "operator delete",
        }
    }
}

/// A note, ready to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Note {
    /// The bytes, the first of them the lowest; zeros behind them.
    bytes: u128,
    len: usize,
}

impl Note {
    /// The most bytes of a note.
    pub const LONGEST: usize = 2 + LONGEST_GROUPED;

    #[inline]
    fn new(kind: u8, argument: Option<u8>, number: Option<u64>) -> Self {
        let head = code::NOTE | kind << CODE_BITS;
        let mut note = Self { bytes: head.into(), len: 1 };
        if let Some(argument) = argument {
            note.push(argument.into(), 1);
        }
        if let Some(number) = number {
            let (bytes, used) = grouped(number);
            note.push(bytes, used);
        }
        note
    }

    #[inline]
    fn push(&mut self, bytes: u128, used: usize) {
        self.bytes |= bytes << (8 * self.len);
        self.len += used;
    }

    /// The clock goes forward.
    #[inline]
    pub fn clock(forward: u64) -> Self {
        Self::new(note::CLOCK, None, Some(forward))
    }

    /// The next record is a call of `function` with an alignment of 2 to the `power`.
    pub fn aligned(function: Function, power: u32) -> Self {
        Self::new(note::ALIGNED, Some(function as u8), Some(power.into()))
    }

    /// A `free` of null.
    pub fn free_null() -> Self {
        Self::new(note::FREE_NULL, None, None)
    }

    /// A call that returned null.
    pub fn failed(function: Function, size: u64) -> Self {
        Self::new(note::FAILED, Some(function as u8), Some(size))
    }

    /// `realloc` has freed.
    pub fn realloc_freed() -> Self {
        Self::new(note::REALLOC_FREED, None, None)
    }

    /// The thread is about to end.
    pub fn exit() -> Self {
        Self::new(note::EXIT, None, None)
    }

    /// A share of the objects is recorded.
    pub fn level(level: u32) -> Self {
        Self::new(note::LEVEL, Some(level as u8), None)
    }

    /// The low bits of the next address.
    pub fn low_bits(bits: u8) -> Self {
        Self::new(note::LOW_BITS, Some(bits), None)
    }

    /// How long the note is.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: a note has a first byte.
    #[inline]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The note as bytes, of which the first [`len`](Self::len) count; the others are zero.
    #[inline]
    pub fn to_bytes(&self) -> [u8; size_of::<u128>()] {
        self.bytes.to_le_bytes()
    }
}

const _: () = assert!(Note::LONGEST <= size_of::<u128>(), "a note fits into its bytes");

/// Whether a note of this kind stands for a call, and so takes a tick of the clock.
pub fn ticks(kind: u8) -> bool {
    matches!(kind, note::FREE_NULL | note::FAILED)
}

/// What a record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// An object was allocated.
    Allocate {
        /// By which function.
        function: Function,
        /// Where it is.
        address: u64,
        /// How large it was asked to be.
        size: u64,
        /// The alignment that was asked for, as a power of two; 0 if none was.
        align_power: u32,
    },
    /// An object is freed.
    Free {
        /// By which function.
        function: Function,
        /// Where it is.
        address: u64,
    },
    /// `realloc` is called with an object.
    ReallocFrom {
        /// Where it is.
        address: u64,
    },
    /// `realloc` has returned an object.
    ReallocTo {
        /// Where it is.
        address: u64,
        /// How large it was asked to be.
        size: u64,
    },
    /// `realloc` has freed the object that it was called with.
    ReallocFreed,
    /// `free` of null.
    FreeNull,
    /// A call returned null.
    Failed {
        /// Of which function.
        function: Function,
        /// What it was asked for.
        size: u64,
    },
    /// The thread is about to end.
    Exit,
    /// From here on a share of the objects is recorded.
    Level(u32),
}

/// A record with the clock of the thread that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// The clock, in nanoseconds since recording began.
    pub clock: u64,
    /// What happened.
    pub call: Call,
}

/// Bytes that are no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed {
    /// Where in the chunk.
    pub at: usize,
}

/// Reads the records of one chunk.
#[derive(Debug, Clone, Copy)]
pub struct Decoder {
    at: usize,
    clock: u64,
    before: Before,
    aligned: Option<(Function, u32)>,
    low_bits: u64,
}

impl Decoder {
    /// For a chunk at whose beginning the thread's clock was `clock`.
    pub fn new(clock: u64) -> Self {
        Self { at: 0, clock, before: Before::default(), aligned: None, low_bits: 0 }
    }

    /// How many bytes have been read.
    pub fn position(&self) -> usize {
        self.at
    }

    /// The next record; `None` at the end. `payload` is the same each time: all behind the chunk's
    /// header.
    pub fn next(&mut self, payload: &[u8]) -> Result<Option<Record>, Malformed> {
        let malformed = Malformed { at: self.at };
        loop {
            let rest = payload.get(self.at..).unwrap_or_default();
            let Some((&head, rest)) = rest.split_first().filter(|(head, _)| **head != code::END)
            else {
                return Ok(None);
            };
            let (call, used) = self.decode(head, rest).ok_or(malformed)?;
            self.at += 1 + used;
            if let Some(call) = call {
                return Ok(Some(Record { clock: self.clock, call }));
            }
        }
    }

    /// One record or note, and how many bytes it took beyond the first.
    fn decode(&mut self, head: u8, rest: &[u8]) -> Option<(Option<Call>, usize)> {
        if code_of(head) == code::NOTE {
            return self.note(head >> CODE_BITS, rest);
        }
        let distance_bytes = packed::distance_bytes(head);
        let has_size = has_size(code_of(head));
        let size_bytes = if has_size { packed::size_bytes(head) } else { 0 };
        let size = low_bytes(rest, 0, size_bytes)?;
        let distance = low_bytes(rest, size_bytes, distance_bytes)?;
        let size = if has_size { self.before.read_size(head, size) } else { 0 };
        let address = self.before.read_address(distance) | self.low_bits;
        self.low_bits = 0;
        self.clock = self.clock.wrapping_add(1);
        let call = self.call(code_of(head), packed::size_length(head), address, size)?;
        Some((Some(call), size_bytes + distance_bytes))
    }

    fn call(&mut self, code: u8, variant: u8, address: u64, size: u64) -> Option<Call> {
        let aligned = self.aligned.take();
        let function = match code {
            code::MALLOC => Function::Malloc,
            code::CALLOC => Function::Calloc,
            code::NEW => Function::New,
            code::REALLOC_TO => return Some(Call::ReallocTo { address, size }),
            code::REALLOC_FROM => return Some(Call::ReallocFrom { address }),
            code::FREE => {
                let function = if variant == 0 { Function::Free } else { Function::Delete };
                return Some(Call::Free { function, address });
            }
            _ => return None,
        };
        let (function, align_power) = aligned.unwrap_or((function, 0));
        Some(Call::Allocate { function, address, size, align_power })
    }

    fn note(&mut self, kind: u8, rest: &[u8]) -> Option<(Option<Call>, usize)> {
        let argument = || rest.first().copied();
        let number = |at: usize| read_grouped(rest.get(at..)?);
        if ticks(kind) {
            self.clock = self.clock.wrapping_add(1);
        }
        match kind {
            note::CLOCK => {
                let (forward, used) = number(0)?;
                self.clock = self.clock.checked_add(forward)?;
                Some((None, used))
            }
            note::ALIGNED => {
                let (power, used) = number(1)?;
                let power = u32::try_from(power).ok().filter(|&power| power < u64::BITS)?;
                self.aligned = Some((Function::numbered(argument()?)?, power));
                Some((None, 1 + used))
            }
            note::LOW_BITS => {
                self.low_bits = u64::from(argument()?) & ((1 << LOW_BITS) - 1);
                Some((None, 1))
            }
            note::FAILED => {
                let (size, used) = number(1)?;
                let function = Function::numbered(argument()?)?;
                Some((Some(Call::Failed { function, size }), 1 + used))
            }
            note::LEVEL => {
                let level = Some(u32::from(argument()?)).filter(|&level| level <= LAST_LEVEL)?;
                Some((Some(Call::Level(level)), 1))
            }
            note::FREE_NULL => Some((Some(Call::FreeNull), 0)),
            note::REALLOC_FREED => Some((Some(Call::ReallocFreed), 0)),
            note::EXIT => Some((Some(Call::Exit), 0)),
            _ => None,
        }
    }
}

/// A number of `count` bytes, at most 8, at `at`.
fn low_bytes(bytes: &[u8], at: usize, count: usize) -> Option<u64> {
    let field = bytes.get(at..at + count)?;
    let mut word = [0; 8];
    word[..count].copy_from_slice(field);
    Some(u64::from_le_bytes(word))
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::packed::{Packed, is_usual_address, is_usual_size, low_bits};

    /// Writes records as the recorder does.
    #[derive(Default)]
    struct Writer {
        bytes: Vec<u8>,
        before: Before,
    }

    impl Writer {
        fn note(&mut self, note: Note) -> &mut Self {
            self.bytes.extend_from_slice(&note.to_bytes()[..note.len()]);
            self
        }

        fn sized(&mut self, code: u8, size: u64, address: u64) -> &mut Self {
            let mut short = self.before;
            let was_usual = is_usual_address(short.address);
            let packed = Packed::sized(code, size, &mut self.before, address);
            if was_usual && is_usual_address(address) && is_usual_size(size) {
                assert_eq!(Packed::usual_sized(code, size, &mut short, address), packed);
                assert_eq!(short, self.before);
            }
            self.put(packed)
        }

        fn free(&mut self, variant: u8, address: u64) -> &mut Self {
            let mut short = self.before;
            let was_usual = is_usual_address(short.address);
            let packed = Packed::unsized_record(code::FREE, variant, &mut self.before, address);
            if was_usual && is_usual_address(address) {
                let again = Packed::usual_unsized(code::FREE, variant, &mut short, address);
                assert_eq!((again, short), (packed, self.before));
            }
            self.put(packed)
        }

        fn put(&mut self, packed: Packed) -> &mut Self {
            self.bytes.extend_from_slice(&packed.to_bytes()[..packed.len()]);
            self
        }
    }

    fn read(bytes: &[u8], clock: u64) -> Result<Vec<Record>, Malformed> {
        let mut decoder = Decoder::new(clock);
        let mut records = Vec::new();
        while let Some(record) = decoder.next(bytes)? {
            records.push(record);
        }
        Ok(records)
    }

    #[test]
    fn calls_come_back_with_a_tick_each() {
        let mut writer = Writer::default();
        writer
            .sized(code::MALLOC, 24, 0x5555_0000_1010)
            .free(0, 0x5555_0000_1010)
            .note(Note::clock(1000))
            .sized(code::CALLOC, 1 << 40, 0x7fff_ffff_f000)
            .free(1, 0x7fff_ffff_f000);
        let records = read(&writer.bytes, 10).expect("sound");
        let clocks: Vec<_> = records.iter().map(|record| record.clock).collect();
        assert_eq!(clocks, [11, 12, 1013, 1014]);
        assert_eq!(
            records[1].call,
            Call::Free { function: Function::Free, address: 0x5555_0000_1010 }
        );
        assert_eq!(
            records[2].call,
            Call::Allocate {
                function: Function::Calloc,
                address: 0x7fff_ffff_f000,
                size: 1 << 40,
                align_power: 0
            }
        );
    }

    #[test]
    fn what_is_as_before_takes_no_bytes() {
        let mut writer = Writer::default();
        writer.sized(code::MALLOC, 24, 0x5555_0000_1010);
        let first = writer.bytes.len();
        writer.free(0, 0x5555_0000_1010).sized(code::MALLOC, 24, 0x5555_0000_1010);
        assert_eq!(writer.bytes.len() - first, 1 + 1);
        writer.free(0, 0x5555_0000_1010).sized(code::MALLOC, 100, 0x5555_0000_1050);
        assert_eq!(writer.bytes.len() - first, 2 + 1 + 3);
        // A large size in between is not compared.
        writer.sized(code::MALLOC, 1 << 20, 0x5555_0000_1050);
        writer.sized(code::MALLOC, 100, 0x5555_0000_1050);
        assert_eq!(writer.bytes.len() - first, 6 + 9 + 1);
    }

    #[test]
    fn sizes_and_addresses_of_every_length_come_back() {
        let mut writer = Writer::default();
        let mut wanted = Vec::new();
        for bits in 0..=64 {
            let size = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
            for address in [8, 1 << 20, 0x7fff_ffff_fff8, !7, 1 << 63] {
                writer.sized(code::NEW, size, address);
                wanted.push((address, size));
            }
        }
        let read = read(&writer.bytes, 0).expect("sound");
        let found: Vec<_> = read
            .iter()
            .map(|record| match record.call {
                Call::Allocate { address, size, .. } => (address, size),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(found, wanted);
    }

    #[test]
    fn odd_addresses_come_back_and_do_not_shift_those_behind_them() {
        let mut writer = Writer::default();
        writer
            .note(Note::low_bits(low_bits(0x1003)))
            .sized(code::MALLOC, 1, 0x1003)
            .sized(code::MALLOC, 1, 0x1010)
            .note(Note::low_bits(low_bits(0x1003)))
            .free(0, 0x1003);
        let addresses: Vec<_> = read(&writer.bytes, 0)
            .expect("sound")
            .iter()
            .map(|record| match record.call {
                Call::Allocate { address, .. } | Call::Free { address, .. } => address,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(addresses, [0x1003, 0x1010, 0x1003]);
    }

    #[test]
    fn notes_come_back() {
        let mut writer = Writer::default();
        writer
            .note(Note::aligned(Function::PosixMemalign, 21))
            .sized(code::MALLOC, 5, 0x20_0000)
            .note(Note::free_null())
            .note(Note::failed(Function::Realloc, u64::MAX))
            .note(Note::realloc_freed())
            .note(Note::level(3))
            .note(Note::exit());
        let calls: Vec<_> =
            read(&writer.bytes, 0).expect("sound").iter().map(|record| record.call).collect();
        assert_eq!(
            calls,
            [
                Call::Allocate {
                    function: Function::PosixMemalign,
                    address: 0x20_0000,
                    size: 5,
                    align_power: 21
                },
                Call::FreeNull,
                Call::Failed { function: Function::Realloc, size: u64::MAX },
                Call::ReallocFreed,
                Call::Level(3),
                Call::Exit,
            ]
        );
    }

    #[test]
    fn a_zero_byte_ends_the_records() {
        let mut writer = Writer::default();
        writer.sized(code::MALLOC, 24, 0x1000);
        writer.bytes.extend([0; 20]);
        assert_eq!(read(&writer.bytes, 0).expect("sound").len(), 1);
    }

    #[test]
    fn a_cut_record_and_an_unknown_one_are_malformed() {
        let mut writer = Writer::default();
        writer.sized(code::MALLOC, 24, 0x1000);
        let first = writer.bytes.len();
        writer.sized(code::MALLOC, 100_000, 0x7777_0000_0000);
        for cut in first + 1..writer.bytes.len() {
            assert_eq!(read(&writer.bytes[..cut], 0), Err(Malformed { at: first }));
        }
        assert_eq!(read(&[code::NOTE | 31 << 3], 0), Err(Malformed { at: 0 }));
        assert_eq!(read(&[code::NOTE | note::FAILED << 3, 99, 1], 0), Err(Malformed { at: 0 }));
        assert_eq!(read(&[code::NOTE | note::ALIGNED << 3, 4, 64], 0), Err(Malformed { at: 0 }));
        assert_eq!(read(&[code::NOTE | note::LEVEL << 3, 21], 0), Err(Malformed { at: 0 }));
    }

    #[test]
    fn arbitrary_bytes_are_read_or_refused_and_never_more() {
        let mut state = 0x1234_5678_u64;
        for _ in 0..20_000 {
            let bytes: Vec<u8> = (0..32)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 56) as u8
                })
                .collect();
            let mut decoder = Decoder::new(state);
            while let Ok(Some(_)) = decoder.next(&bytes) {
                assert!(decoder.position() <= bytes.len());
            }
        }
    }
}
