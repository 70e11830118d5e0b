//! Bytes as numbers. A sequence ends where its bytes do; what is missing of the last number is 0.

/// Bytes that are still to be read.
pub(crate) struct Input<'a>(&'a [u8]);

/// The largest size: more than a block, so that there are runs of several.
const LARGEST_BITS: u32 = 23;

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Whether nothing is left.
    pub(crate) fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte.
    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn word(&mut self) -> usize {
        usize::from(u16::from_le_bytes([self.byte(), self.byte()]))
    }

    /// A number below `n`, or 0.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.word() % n.max(1)
    }

    /// A size, each power of two as likely as any other, with the numbers around it.
    pub(crate) fn size(&mut self) -> usize {
        let bits = u32::from(self.byte()) % (LARGEST_BITS + 1);
        let largest = 1_usize << bits;
        match self.byte() {
            0 => largest,
            1 => largest + 1,
            2 => largest - 1,
            part => largest * usize::from(part) / 256,
        }
    }

    /// An alignment up to twice a block.
    pub(crate) fn align(&mut self) -> usize {
        16 << (self.byte() % 19)
    }
}
