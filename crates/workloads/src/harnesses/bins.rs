//! What `t-test1` and `t-test2` have in common: arrays of bins, and the mix of calls that fills
//! one anew.

use crate::harness::{Kind, Parameter};
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

pub(super) const TOTAL_THREADS: Parameter = Parameter {
    name: "total-threads",
    unit: "threads",
    kind: Kind::Count { least: 1, most: 1_000_000 },
    default: "500",
    help: "Threads in all: one that ends is replaced until so many were started",
};

pub(super) const STEPS: Parameter = Parameter {
    name: "steps",
    unit: "",
    kind: Kind::Count { least: 0, most: 1_000_000_000 },
    default: "10000",
    help: "Frees and allocations of a thread, after its bins were filled",
};

pub(super) const SIZE: Parameter = Parameter {
    name: "size",
    unit: "bytes",
    kind: Kind::Count { least: 2, most: 1 << 30 },
    default: "10000",
    help: "The largest size: sizes are uniform from 1 to this",
};

pub(super) const MEMORY: Parameter = Parameter {
    name: "memory",
    unit: "bytes",
    kind: Kind::Count { least: 1, most: 1 << 40 },
    default: "67108864",
    help: "From this, the number of bins follows where it is not given",
};

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

/// Fills a bin anew with a block of `size`, by the call that `draw` decides on.
pub(super) fn fill(
    worker: &mut Worker<'_>,
    bin: &mut Held,
    size: usize,
    draw: u32,
) -> Result<(), Halt> {
    let draw = draw % PARTS;
    if (ZEROED..RESIZED).contains(&draw) && bin.size() < LARGE {
        *bin = worker.resize(bin.take(), size)?;
        return Ok(());
    }
    empty(worker, bin)?;
    *bin = match draw {
        // Alignments of 4, 8, 16 and 32.
        0..ALIGNED => worker.allocate_aligned(4 << draw, size)?,
        ALIGNED..ZEROED => worker.allocate_zeroed(size)?,
        _ => worker.allocate(size)?,
    };
    Ok(())
}

/// Frees what is in a bin, if there is something.
pub(super) fn empty(worker: &mut Worker<'_>, bin: &mut Held) -> Result<(), Halt> {
    if bin.is_some() { worker.free(bin) } else { Ok(()) }
}
