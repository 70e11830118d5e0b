//! Counting what is in the tables. It must not know how memory is read.

use crate::signpost::{Class, Signpost};
use crate::table::{block, local, tag, word};

/// Bytes, by what they are used for. Where the process goes on meanwhile, the parts are of slightly
/// different moments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Made usable so far.
    pub committed: u64,
    /// In slabs and runs.
    pub claimed: u64,
    /// Of `claimed`: free objects in slabs. Those at a thread's hand count as in use.
    pub free_in_slabs: u64,
    /// How many objects that is.
    pub free_objects: u64,
    /// Free granules that are resident as far as the allocator knows.
    pub dirty: u64,
}

/// Bytes of the tables for one block of granules.
const TAGS: usize = block::GRANULES * tag::BYTES;
const LOCALS: usize = block::GRANULES * local::BYTES;
const WORDS: usize = block::GRANULES * word::BYTES;

/// A way to read memory: fills the whole slice from an address, or returns `None`.
pub type Read<'a> = dyn FnMut(u64, &mut [u8]) -> Option<()> + 'a;

/// Counts; `None` if something cannot be read.
pub fn count(signpost: &Signpost, read: &mut Read<'_>) -> Option<Count> {
    let mut committed = [0; 4];
    read(signpost.committed, &mut committed)?;
    let blocks = u64::from(u32::from_ne_bytes(committed));
    let block_bytes = block::GRANULES as u64 * block::GRANULE;
    if blocks > signpost.region_bytes / block_bytes {
        return None;
    }
    let mut total = Count { committed: blocks * block_bytes, ..Count::default() };
    let mut tables = Tables { tags: [0; TAGS], locals: [0; LOCALS], words: [0; WORDS], dirty: 0 };
    // Granules of a slab or run that began in an earlier block.
    let mut inside = 0;
    for n in 0..blocks {
        tables.read(signpost, n, read)?;
        inside = tables.add_to(&mut total, inside, &signpost.classes);
    }
    Some(total)
}

/// What is known of the granules of one block.
struct Tables {
    tags: [u8; TAGS],
    locals: [u8; LOCALS],
    words: [u8; WORDS],
    dirty: u64,
}

impl Tables {
    fn read(&mut self, signpost: &Signpost, n: u64, read: &mut Read<'_>) -> Option<()> {
        read(signpost.tags + n * TAGS as u64, &mut self.tags)?;
        read(signpost.locals - (n + 1) * LOCALS as u64, &mut self.locals)?;
        read(signpost.words - (n + 1) * WORDS as u64, &mut self.words)?;
        let mut dirty = [0; 8];
        let entry = signpost.blocks + n * block::BYTES as u64;
        read(entry + block::DIRTY as u64, &mut dirty)?;
        self.dirty = u64::from_ne_bytes(dirty);
        Some(())
    }

    /// Adds the block, of which so many granules belong to what began before; returns how many of
    /// the next one do.
    fn add_to(&self, total: &mut Count, mut inside: u64, classes: &[Class]) -> u64 {
        for g in 0..block::GRANULES {
            let class = self.tags[g * tag::BYTES + tag::CLASS];
            let begins = class != 0 && self.tags[g * tag::BYTES + tag::DELTA] == 0;
            if begins && !self.is_free_run(g, class) {
                inside = self.begin(total, g, class, classes);
            }
            if inside > 0 {
                inside -= 1;
                total.claimed += block::GRANULE;
            } else if self.dirty >> g & 1 != 0 {
                total.dirty += block::GRANULE;
            }
        }
        inside
    }

    /// Adds what is free of the slab that begins at a granule; returns how many granules it has, or
    /// the run.
    fn begin(&self, total: &mut Count, g: usize, class: u8, classes: &[Class]) -> u64 {
        if class == tag::RUN {
            return u64::from(u32::from_ne_bytes(self.local(g, local::RUN)));
        }
        let Some(&class) = classes.get(usize::from(class)) else { return 1 };
        let free = self.free(g, class).clamp(0, i32::from(class.capacity)).cast_unsigned();
        total.free_objects += u64::from(free);
        total.free_in_slabs += u64::from(free) * u64::from(class.size);
        u64::from(class.granules)
    }

    /// Whether a run begins at a granule that nobody uses.
    fn is_free_run(&self, g: usize, class: u8) -> bool {
        let [bin] = self.local(g, local::RUN_BIN);
        class == tag::RUN && bin & local::RUN_IS_FREE != 0
    }

    /// Free objects of a slab.
    fn free(&self, g: usize, class: Class) -> i32 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.words[downwards(g) * word::BYTES..][..8]);
        let whole = u64::from_ne_bytes(bytes);
        let payload = whole & ((1 << word::PAYLOAD_BITS) - 1);
        if class.has_mask {
            return payload.count_ones().cast_signed();
        }
        let told = (payload as u32).cast_signed() - word::BIAS;
        if !matches!(whole >> word::PAYLOAD_BITS, word::ATTACHED | word::KEPT | word::DISTURBED) {
            return told;
        }
        let carved = u16::from_ne_bytes(self.local(g, local::CARVED));
        let balance = i16::from_ne_bytes(self.local(g, local::BALANCE));
        i32::from(class.capacity) - i32::from(carved) + i32::from(balance) + told
    }

    fn local<const N: usize>(&self, g: usize, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.locals[downwards(g) * local::BYTES + at..][..N]);
        bytes
    }
}

/// Which entry of a block's, in the tables that grow downwards, is that of its granule `g`.
fn downwards(g: usize) -> usize {
    block::GRANULES - 1 - g
}
