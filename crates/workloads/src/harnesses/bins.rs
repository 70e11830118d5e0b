//! What `t-test1` and `t-test2` have in common: arrays of bins, and the mix of calls that fills
//! one anew.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::crew::Next;
use crate::error::Error;
use crate::harness::{Parameter, Threads};
use crate::settings::Settings;
use crate::worker::{Halt, Held, Worker};

/// Parts in which a draw of the mix is made.
pub(super) const PARTS: u32 = 1024;
/// Below this, `memalign`.
const ALIGNED: u32 = 4;
/// Below this, `calloc`.
const ZEROED: u32 = 20;
/// Below this, `realloc`, unless the old block is large.
const RESIZED: u32 = 100;
/// From this size on, a block is not resized.
const LARGE: usize = 2000;

/// The least number of bins.
pub(super) const LEAST_BINS: usize = 4;

pub(super) const SOURCE: &str = "Gloger, ptmalloc, 1996, with the parameters of Lockless Inc, 2009";

pub(super) const THREADS: Threads = Threads { default: "2", least: 1, help: "Threads at a time" };

pub(super) const OWN: &[Parameter] = &[TOTAL_THREADS, STEPS, SIZE, BINS, MEMORY];

const TOTAL_THREADS: Parameter = Parameter::count(
    "total-threads",
    "threads",
    (1, 1_000_000),
    "500",
    "Threads in all: one that ends is replaced until so many were started",
);

const STEPS: Parameter = Parameter::count(
    "steps",
    "",
    (0, 1_000_000_000),
    "10000",
    "Frees and allocations that a thread makes at least",
);

const SIZE: Parameter =
    Parameter::size("size", 2, "10000", "The largest size: sizes are uniform from 1 to this");

const BINS: Parameter = Parameter::count(
    "bins",
    "bins",
    (0, 100_000_000),
    "0",
    "Bins; 0 is the memory divided by the size, and by the threads where each has its own",
);

const MEMORY: Parameter = Parameter::count(
    "memory",
    "bytes",
    (1, 1 << 40),
    "67108864",
    "From this, the number of bins follows where it is not given",
);

/// How many threads were started, of how many in all.
pub(super) struct Turnover {
    total: u64,
    started: AtomicU64,
}

impl Turnover {
    pub(super) fn new(settings: &Settings) -> Result<Self, Error> {
        let (total, threads) = (settings.count("total-threads"), settings.count("threads"));
        if total < threads {
            let reason = format!("{total} threads in all are fewer than {threads} at a time");
            return Err(Error::Unsuitable(reason));
        }
        Ok(Self { total, started: AtomicU64::new(threads) })
    }

    /// What becomes of the slot of a thread that has ended.
    pub(super) fn next(&self) -> Next {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        if number < self.total { Next::Replacement } else { Next::Done }
    }
}

/// The number of bins when `sharers` have a memory each has an equal share of.
pub(super) fn bins(settings: &Settings, sharers: usize) -> usize {
    match settings.size("bins") {
        0 => settings.size("memory") / (settings.size("size") * sharers),
        given => given,
    }
    .max(LEAST_BINS)
}

/// A size, uniform from 1 to `most`.
pub(super) fn size(worker: &mut Worker<'_>, most: u32) -> usize {
    worker.rng.below(most) as usize + 1
}

/// How a bin is filled anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Memalign(usize),
    Calloc,
    Realloc,
    Malloc,
}

impl Call {
    /// The call that a draw below [`PARTS`] decides on, for a bin with a block of `old` bytes.
    fn of(draw: u32, old: usize) -> Self {
        match draw {
            // Alignments of 4, 8, 16 and 32.
            0..ALIGNED => Self::Memalign(4 << draw),
            ALIGNED..ZEROED => Self::Calloc,
            ZEROED..RESIZED if old < LARGE => Self::Realloc,
            _ => Self::Malloc,
        }
    }
}

/// Fills a bin anew with a block of `size`.
pub(super) fn fill(
    worker: &mut Worker<'_>,
    bin: &mut Held,
    size: usize,
    draw: u32,
) -> Result<(), Halt> {
    let call = Call::of(draw % PARTS, bin.size());
    if call != Call::Realloc {
        worker.free(bin)?;
    }
    *bin = match call {
        Call::Memalign(alignment) => worker.allocate_aligned(alignment, size)?,
        Call::Calloc => worker.allocate_zeroed(size)?,
        Call::Realloc => worker.resize(bin.take(), size)?,
        Call::Malloc => worker.allocate(size)?,
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mix_of_calls_is_the_published_one() {
        let count = |old, is_meant: fn(Call) -> bool| {
            (0..PARTS).filter(|&draw| is_meant(Call::of(draw, old))).count()
        };
        assert_eq!(count(100, |call| matches!(call, Call::Memalign(_))), 4);
        assert_eq!(count(100, |call| call == Call::Calloc), 16);
        assert_eq!(count(100, |call| call == Call::Realloc), 80);
        assert_eq!(count(100, |call| call == Call::Malloc), 924);
        // Large blocks are not resized.
        assert_eq!(count(1999, |call| call == Call::Realloc), 80);
        assert_eq!(count(2000, |call| call == Call::Realloc), 0);
        let alignments: Vec<_> = (0..4).map(|draw| Call::of(draw, 0)).collect();
        assert_eq!(alignments, [4, 8, 16, 32].map(Call::Memalign));
    }
}
