//! Reading the records of events.

use perf_event_open_sys::bindings as sys;

/// The registers that come with a sample: the general ones, and where the thread stands. As the
/// kernel numbers them on x86-64: 0 to 8, and 16 to 23.
pub(crate) const REGISTERS: u64 = 0x00ff_01ff;

/// How many these are.
const REGISTERS_LEN: usize = REGISTERS.count_ones() as usize;

/// The registers of a thread, in the order of the kernel: AX, BX, CX, DX, SI, DI, BP, SP, IP, R8
/// to R15.
pub(crate) type Registers = [u64; REGISTERS_LEN];

/// Where some of them are.
pub(crate) const BP: usize = 6;
/// The stack pointer.
pub(crate) const SP: usize = 7;

/// A sample of a running thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sample<'a> {
    /// Which event it is of.
    pub(crate) id: u64,
    /// Its process.
    pub(crate) pid: u32,
    /// Its number.
    pub(crate) tid: u32,
    /// The program counter.
    pub(crate) pc: u64,
    /// When it was taken, in nanoseconds of the monotonic clock.
    pub(crate) at_ns: u64,
    /// How many events the sample stands for.
    pub(crate) period: u64,
    /// The registers; none of a 32-bit program.
    pub(crate) registers: Option<Registers>,
    /// What is at the stack pointer.
    pub(crate) stack: &'a [u8],
}

/// A record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    /// A sample.
    Sample(Sample<'a>),
    /// A thread began.
    Begin {
        /// Whether it is the first of a process.
        is_process: bool,
    },
    /// A thread ended.
    End,
    /// Memory was mapped.
    Map {
        /// So many bytes.
        bytes: u64,
        /// Whether it is of no file; or was more asked for of what a process has from its
        /// beginning.
        is_anonymous: bool,
    },
    /// So many records were lost.
    Lost(u64),
    /// Something else.
    Other,
}

/// Takes numbers from bytes, one after the other.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_ne_bytes(self.bytes(8)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_ne_bytes(self.bytes(4)?.try_into().ok()?))
    }
}

/// Reads a record without its header.
pub(crate) fn parse(kind: u32, body: &[u8]) -> Option<Record<'_>> {
    let mut fields = Fields(body);
    Some(match kind {
        sys::PERF_RECORD_SAMPLE => Record::Sample(sample(&mut fields)?),
        sys::PERF_RECORD_FORK => Record::Begin { is_process: fields.u32()? != fields.u32()? },
        sys::PERF_RECORD_EXIT => Record::End,
        sys::PERF_RECORD_LOST => {
            fields.u64()?;
            Record::Lost(fields.u64()?)
        }
        sys::PERF_RECORD_MMAP2 => map(&mut fields)?,
        _ => Record::Other,
    })
}

fn sample<'a>(fields: &mut Fields<'a>) -> Option<Sample<'a>> {
    let (id, pc) = (fields.u64()?, fields.u64()?);
    let (pid, tid) = (fields.u32()?, fields.u32()?);
    let at_ns = fields.u64()?;
    let period = fields.u64()?;
    let registers = match u32::try_from(fields.u64()?).ok()? {
        sys::PERF_SAMPLE_REGS_ABI_NONE => None,
        abi => {
            let mut registers = [0; REGISTERS_LEN];
            for register in &mut registers {
                *register = fields.u64()?;
            }
            Some(registers).filter(|_| abi == sys::PERF_SAMPLE_REGS_ABI_64)
        }
    };
    let size = usize::try_from(fields.u64()?).ok()?;
    let copied = fields.bytes(size)?;
    let valid = if size > 0 { usize::try_from(fields.u64()?).ok()? } else { 0 };
    let stack = copied.get(..valid)?;
    Some(Sample { id, pid, tid, pc, at_ns, period, registers, stack })
}

fn map<'a>(fields: &mut Fields<'_>) -> Option<Record<'a>> {
    // pid and tid; address; length; offset; device, inode and generation; protection and flags;
    // then the name of the file.
    let (_, _, bytes) = (fields.u64()?, fields.u64()?, fields.u64()?);
    fields.bytes(8 + 8 + 8 + 8 + 8)?;
    let is_anonymous = [&b"//anon"[..], b"[heap]"].iter().any(|name| fields.0.starts_with(name));
    Some(Record::Map { bytes, is_anonymous })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn a_sample_has_registers_and_as_much_stack_as_there_was() {
        let mut words = vec![77, 0x40_1000, 9 << 32 | 8, 3, 5, sys::PERF_SAMPLE_REGS_ABI_64.into()];
        words.extend(0..REGISTERS_LEN as u64);
        words.extend([16, 0xaa, 0xbb, 8]);
        let body = bytes(&words);
        let Some(Record::Sample(sample)) = parse(sys::PERF_RECORD_SAMPLE, &body) else {
            panic!("a sample");
        };
        assert_eq!((sample.id, sample.pid, sample.tid), (77, 8, 9));
        assert_eq!((sample.pc, sample.at_ns, sample.period), (0x40_1000, 3, 5));
        assert_eq!(sample.registers.expect("registers")[SP], 7);
        assert_eq!(sample.stack, bytes(&[0xaa]));
    }

    #[test]
    fn a_sample_without_user_registers_has_no_stack() {
        let body = bytes(&[77, 0x40_1000, 1, 1, 1, 0, 0]);
        let Some(Record::Sample(sample)) = parse(sys::PERF_RECORD_SAMPLE, &body) else {
            panic!("a sample");
        };
        assert_eq!((sample.registers, sample.stack), (None, &[][..]));
    }

    #[test]
    fn mappings_losses_and_threads_are_told_apart() {
        let mut anonymous = bytes(&[1, 0x7f00, 4096, 0, 0, 0, 0, 0]);
        anonymous.extend(b"//anon\0\0");
        let expected = Record::Map { bytes: 4096, is_anonymous: true };
        assert_eq!(parse(sys::PERF_RECORD_MMAP2, &anonymous), Some(expected.clone()));
        let mut grown = bytes(&[1, 0x5500, 4096, 0, 0, 0, 0, 0]);
        grown.extend(b"[heap]\0\0");
        assert_eq!(parse(sys::PERF_RECORD_MMAP2, &grown), Some(expected));
        let lost = bytes(&[1, 12]);
        assert_eq!(parse(sys::PERF_RECORD_LOST, &lost), Some(Record::Lost(12)));
        for (pid, parent, is_process) in [(7_u64, 7, false), (8, 7, true)] {
            let begun = bytes(&[parent << 32 | pid]);
            let expected = Record::Begin { is_process };
            assert_eq!(parse(sys::PERF_RECORD_FORK, &begun), Some(expected));
        }
        assert_eq!(parse(sys::PERF_RECORD_SAMPLE, &[0; 12]), None);
    }
}
