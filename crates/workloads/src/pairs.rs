//! `pairs`: one thread of a pair allocates, the other frees.
//!
//! Each pair has an allocating and a freeing thread and some slots between them. The allocating
//! thread fills a slot with a batch of blocks and hands it over; its partner frees all of them and
//! hands the empty slot back. A *loop* is one batch: as many `malloc` as `free`. Sizes are either
//! fixed or uniform over `min .. min + max`, the rule `rand() % max + min`, drawn by the allocating
//! thread.
//!
//! A run goes through one start gate and one end gate. At the end gate everything has been freed
//! and all threads are alive and idle: that is when retained memory is read.

mod field;
mod measure;

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use self::field::Field;
use self::measure::Measured;
use crate::error::Error;
use crate::gate::Signal;
use crate::handoff::Handoff;
use crate::outcome::{Live, Memory};
use crate::progress::Count;
use crate::resident;
use crate::sharing::FalseSharing;
use crate::usage::Usage;

/// How the size of a block is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sizes {
    /// Uniform over `min .. min + max`.
    Random,
    /// Always `max`.
    Fixed,
}

/// When a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// After `count` samples of `each`, which begin after `warmup`. A warm-up goes on, up to five
    /// times its length, until every slot has been used: before that, an allocator is seen taking
    /// memory from the system and not yet using it again. One of zero length is none.
    Samples {
        /// How many samples.
        count: u32,
        /// The length of one.
        each: Duration,
        /// Time before the first, at least.
        warmup: Duration,
    },
    /// When the pairs together have freed this many batches.
    Loops(u64),
}

/// What a run is asked to do. Numbers must be at least 1, `min` and the durations excepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Pairs of threads.
    pub pairs: u32,
    /// The least size, in bytes.
    pub min: u32,
    /// The width of the range of sizes, or the size.
    pub max: u32,
    /// How sizes are chosen.
    pub sizes: Sizes,
    /// Blocks in a batch.
    pub allocations: u32,
    /// Whether each block is written from end to end.
    pub memset: bool,
    /// How a thread waits for its partner.
    pub handoff: Handoff,
    /// Slots between two partners.
    pub depth: u32,
    /// Seed of the sizes.
    pub seed: u64,
    /// When the run ends.
    pub length: Length,
    /// Idle time between the two readings of retained memory; zero for one reading only.
    pub settle: Duration,
    /// Whether blocks are filled, and their contents checked before they are freed.
    pub verify: bool,
    /// Whether blocks that share a cache line with another thread's are counted.
    pub false_sharing: bool,
}

/// A reading in the middle of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// When the sample ended, from the start of the measurement.
    pub end: Duration,
    /// Loops done during it.
    pub loops: f64,
    /// Resident memory at its end.
    pub rss_bytes: u64,
}

/// What a run measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Loops during the measurement.
    pub loops: f64,
    /// Its length.
    pub elapsed: Duration,
    /// Time before the measurement began.
    pub warmup: Duration,
    /// The series; empty when the run had a fixed number of loops.
    pub samples: Vec<Sample>,
    /// Share of the allocating threads' time spent waiting for an empty slot.
    pub allocating_wait: f64,
    /// Share of the freeing threads' time spent waiting for a full slot.
    pub freeing_wait: f64,
    /// Requested bytes, as sampled.
    pub live: Live,
    /// Memory.
    pub memory: Memory,
    /// Processor time and faults during the measurement.
    pub usage: Usage,
    /// How many blocks were checked, if that was asked for.
    pub verified_blocks: Option<u64>,
    /// How many blocks shared a cache line, if that was asked for.
    pub false_sharing: Option<FalseSharing>,
}

/// Runs the harness in this process.
pub fn run(config: &Config) -> Result<Outcome, Error> {
    let field = Field::new(config).map_err(Error::Map)?;
    // Reserved now, because pushing must not call `malloc` while the measurement runs.
    let samples = Vec::with_capacity(match config.length {
        Length::Samples { count, .. } => count as usize,
        Length::Loops(_) => 0,
    });
    thread::scope(|scope| {
        field.start_threads(scope).map_err(Error::Threads)?;
        field.start.wait_for(field.threads());
        let before = resident::now();
        field.start.open(Signal::Go);

        let measured = field.measure(samples);
        let end_live_bytes = field.live_bytes();
        let (end, end_virtual_bytes) = (resident::now(), resident::virtual_bytes());
        field.stop.store(true, Ordering::Relaxed);

        field.end.wait_for(field.threads());
        let freed = resident::now();
        let settled = resident::after(config.settle);
        let peaks = resident::peaks();
        field.end.open(Signal::Go);

        match field.failure() {
            None => {
                let harness_bytes = field.mapped_bytes();
                let memory =
                    Memory { before, end, end_virtual_bytes, freed, settled, peaks, harness_bytes };
                Ok(outcome(&field, measured, memory, end_live_bytes))
            }
            Some(error) => Err(error),
        }
    })
}

fn outcome(field: &Field<'_>, measured: Measured, memory: Memory, end_live_bytes: u64) -> Outcome {
    let Measured { begin, end, warmup, peak_live_bytes, samples } = measured;
    let elapsed = end.at - begin.at;
    let thread_ns = elapsed.as_nanos() as f64 * f64::from(field.config.pairs);
    let share = |from: Count, to: Count| (to.waited_ns - from.waited_ns) as f64 / thread_ns;
    Outcome {
        loops: field.loops_between(&begin, &end),
        elapsed,
        warmup,
        samples,
        // A wait is counted when it ends, so one that began before the measurement may exceed it.
        allocating_wait: share(begin.allocated, end.allocated).min(1.0),
        freeing_wait: share(begin.freed, end.freed).min(1.0),
        live: Live { peak_bytes: peak_live_bytes.max(end_live_bytes), end_bytes: end_live_bytes },
        memory,
        usage: end.usage.since(begin.usage),
        verified_blocks: field.checks.verified_blocks(),
        false_sharing: field.checks.false_sharing(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::Subject;

    fn config() -> Config {
        Config {
            pairs: 2,
            min: 8,
            max: 512,
            sizes: Sizes::Random,
            allocations: 300,
            memset: true,
            handoff: Handoff::Yield,
            depth: 2,
            seed: 1,
            length: Length::Loops(40),
            settle: Duration::ZERO,
            verify: false,
            false_sharing: false,
        }
    }

    #[test]
    fn contents_are_checked_and_shared_lines_counted_on_request() {
        let outcome = run(&Config { verify: true, ..config() }).expect("all is as it was");
        // All that were freed, those after the measurement included.
        assert!(outcome.verified_blocks >= Some(40 * 300), "{outcome:?}");
        assert_eq!(outcome.false_sharing, None);
        let outcome = run(&Config { false_sharing: true, ..config() }).expect("runs");
        let counted = outcome.false_sharing.expect("asked for");
        assert!(counted.blocks >= 40 * 300, "{counted:?}");
        assert_eq!(outcome.verified_blocks, None);
        let plain = run(&config()).expect("runs");
        assert_eq!((plain.verified_blocks, plain.false_sharing), (None, None));
    }

    #[test]
    fn a_block_that_was_written_to_by_another_ends_the_run_with_the_reason() {
        let config = Config { verify: true, ..config() };
        let field = Field::new(&config).expect("maps");
        thread::scope(|scope| {
            field.start_threads(scope).expect("starts");
            // A block like those of the field, but written to behind its back.
            let mut bytes = [0_u8; 100];
            let subject = Subject { block: bytes.as_mut_ptr(), size: 100, tag: 1 };
            // SAFETY: the array is live, of this size, and nobody else's.
            unsafe { field.checks.enter(subject, 1, 0) }.expect("aligned");
            // SAFETY: within the array.
            unsafe { subject.block.add(60).write(!0) };
            // SAFETY: entered above.
            let found = unsafe { field.checks.strike(subject) };
            assert!(!field.is_sound(found));
            field.start.open(Signal::Go);
            field.end.wait_for(field.threads());
            field.end.open(Signal::Go);
        });
        assert!(matches!(field.failure(), Some(Error::Corrupt(_))));
    }

    #[test]
    fn a_run_of_fixed_loops_does_at_least_that_many() {
        for handoff in [Handoff::Yield, Handoff::Futex] {
            let outcome = run(&Config { handoff, ..config() }).expect("runs");
            assert!(outcome.loops >= 40.0, "{outcome:?}");
            assert!(outcome.samples.is_empty());
            assert!(outcome.memory.settled.is_none());
        }
    }

    #[test]
    fn a_run_of_samples_gives_a_series_that_adds_up() {
        let each = Duration::from_millis(20);
        let length = Length::Samples { count: 3, each, warmup: Duration::from_millis(1) };
        let settle = Duration::from_millis(1);
        // So many blocks in a batch that some are out whenever it is looked how many are.
        let allocations = 2000;
        let outcome = run(&Config { allocations, length, settle, ..config() }).expect("runs");
        assert_eq!(outcome.samples.len(), 3);
        let sum: f64 = outcome.samples.iter().map(|sample| sample.loops).sum();
        assert!((sum - outcome.loops).abs() < 1e-6, "{sum} != {}", outcome.loops);
        assert!(outcome.elapsed >= each * 3);
        assert!(outcome.memory.settled.is_some());
        assert!(outcome.live.peak_bytes > 0);
    }

    #[test]
    fn every_block_is_freed_at_any_depth_and_batch_size() {
        for (depth, allocations, sizes) in
            [(1, 1, Sizes::Fixed), (1, 64, Sizes::Random), (5, 65, Sizes::Fixed)]
        {
            let config = Config { sizes, allocations, depth, ..config() };
            let field = Field::new(&config).expect("maps");
            thread::scope(|scope| {
                field.start_threads(scope).expect("starts");
                field.start.open(Signal::Go);
                let measured = field.measure(Vec::new());
                field.stop.store(true, Ordering::Relaxed);
                field.end.wait_for(field.threads());
                assert!(measured.end.freed.calls >= 40 * u64::from(allocations));
                assert_eq!(field.live_bytes(), 0);
                let now = field.now();
                assert_eq!(now.allocated.calls, now.freed.calls);
                field.end.open(Signal::Go);
            });
        }
    }

    #[test]
    fn a_null_from_malloc_ends_the_run_with_the_size() {
        // No machine has 32 pairs x 64 batches x 4 GiB; overcommit refuses long before.
        let config = Config {
            max: u32::MAX,
            sizes: Sizes::Fixed,
            allocations: 1 << 16,
            memset: false,
            ..config()
        };
        match run(&config) {
            Err(Error::Exhausted { size }) => assert_eq!(size, u64::from(u32::MAX)),
            other => panic!("expected exhaustion, got {other:?}"),
        }
    }
}
