//! The signpost: where the tables are.

/// How the name begins under which a signpost is found; the version of the library comes next.
pub const SYMBOL: &str = "freehold_figures_3_";

/// The version of all that is described here. Tables of another kind are another version.
pub const VERSION: u64 = 4;

/// Classes that there is room for.
pub const CLASSES: usize = 64;

/// Words before the classes.
const WORDS: usize = 10;

/// Bytes of a signpost.
pub const SIGNPOST_BYTES: usize = (WORDS + CLASSES) * size_of::<u64>();

/// What is the same for all slabs of a class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Class {
    /// Bytes in an object; 0 for a class that does not exist.
    pub size: u32,
    /// Objects in a slab.
    pub capacity: u16,
    /// Granules in a slab.
    pub granules: u8,
    /// Whether the slab's word has a bit for each free object rather than their number.
    pub has_mask: bool,
}

/// Where things are in the memory of a process. Addresses are the process' own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signpost {
    /// The first byte of the region that objects are in; 0 before there is one.
    pub region: u64,
    /// Bytes of the region, used or not.
    pub region_bytes: u64,
    /// The number of blocks that are in use so far, 4 bytes.
    pub committed: u64,
    /// The table of tags, 4 bytes a granule.
    pub tags: u64,
    /// The table of what only a slab's holder reads and writes, 64 bytes a granule, from here on
    /// downwards: the first ends here.
    pub locals: u64,
    /// The table of slabs' words, 64 bytes a granule, downwards as well.
    pub words: u64,
    /// The table of blocks, 64 bytes each.
    pub blocks: u64,
    /// The first byte of the allocator's own memory, which the tables are part of.
    pub metadata: u64,
    /// Bytes of that.
    pub metadata_bytes: u64,
    /// The classes, by their number.
    pub classes: [Class; CLASSES],
}

impl Class {
    const fn packed(self) -> u64 {
        self.size as u64
            | (self.capacity as u64) << 32
            | (self.granules as u64) << 48
            | (self.has_mask as u64) << 56
    }

    const fn unpacked(word: u64) -> Self {
        Self {
            size: word as u32,
            capacity: (word >> 32) as u16,
            granules: (word >> 48) as u8,
            has_mask: (word >> 56) & 1 != 0,
        }
    }
}

impl Signpost {
    /// As the words that stand in memory.
    pub fn words(&self) -> impl Iterator<Item = u64> {
        let first: [u64; WORDS] = [
            VERSION,
            self.region,
            self.region_bytes,
            self.committed,
            self.tags,
            self.locals,
            self.words,
            self.blocks,
            self.metadata,
            self.metadata_bytes,
        ];
        first.into_iter().chain(self.classes.iter().map(|class| class.packed()))
    }

    /// From the bytes that were read; `None` if they are of another version, or there is no
    /// allocator yet.
    pub fn from_bytes(bytes: &[u8; SIGNPOST_BYTES]) -> Option<Self> {
        let word = |n: usize| {
            let mut word = [0; size_of::<u64>()];
            word.copy_from_slice(&bytes[n * size_of::<u64>()..][..size_of::<u64>()]);
            u64::from_ne_bytes(word)
        };
        let mut classes = [Class::default(); CLASSES];
        for (n, class) in classes.iter_mut().enumerate() {
            *class = Class::unpacked(word(WORDS + n));
        }
        let signpost = Self {
            region: word(1),
            region_bytes: word(2),
            committed: word(3),
            tags: word(4),
            locals: word(5),
            words: word(6),
            blocks: word(7),
            metadata: word(8),
            metadata_bytes: word(9),
            classes,
        };
        (word(0) == VERSION && signpost.region != 0).then_some(signpost)
    }
}
