//! `cache-thrash` and `cache-scratch`: threads write to blocks of their own, over and over. Where
//! an allocator puts blocks of different threads on one cache line, they slow each other down, and
//! the speed-up with the number of threads is lost.
//!
//! In `cache-scratch` the leader gives each thread a block first, all from one line if the
//! allocator put them there, which the thread frees before it begins: an allocator that gives that
//! memory back to the same thread induces false sharing passively.

use std::thread;

use crate::crew::{self, Next, Slots, Work};
use crate::error::Error;
use crate::harness::{ELAPSED, Harness, Parameter, Threads};
use crate::outcome::Outcome;
use crate::session::Session;
use crate::settings::Settings;
use crate::worker::{Halt, Held, Worker};

const SOURCE: &str = "Berger, McKinley, Blumofe and Wilson, Hoard, 2000";

const THREADS: Threads =
    Threads { default: "1", least: 1, help: "Threads, among which repetitions are divided" };

const OWN: &[Parameter] = &[
    Parameter::count(
        "iterations",
        "",
        (1, 1_000_000_000),
        "1000",
        "Blocks that each thread allocates, writes and frees, one after the other",
    ),
    Parameter::size("size", 1, "1", "The size of a block"),
    Parameter::count(
        "repetitions",
        "",
        (1, 1_000_000_000_000),
        "1000000",
        "How often a block is written from end to end, in all threads together",
    ),
];

pub(super) static THRASH: Harness = Harness {
    name: "cache-thrash",
    summary: "Threads write to small blocks of their own (active false sharing)",
    source: SOURCE,
    metric: ELAPSED,
    threads: THREADS,
    size: Some("size"),
    own: OWN,
    run: |settings| run(settings, false),
};

pub(super) static SCRATCH: Harness = Harness {
    name: "cache-scratch",
    summary: "Threads free a block of another, then write to their own (passive false sharing)",
    source: SOURCE,
    metric: ELAPSED,
    threads: THREADS,
    size: Some("size"),
    own: OWN,
    run: |settings| run(settings, true),
};

struct Cache {
    iterations: u64,
    size: usize,
    repetitions: u64,
}

fn run(settings: &Settings, is_passive: bool) -> Result<Outcome, Error> {
    let session = Session::new(settings)?;
    let size = settings.size("size");
    let mut slots = Slots::new(&session, |_| Ok(Held::default()))?;
    let work = Cache {
        iterations: settings.count("iterations"),
        size,
        repetitions: settings.count("repetitions") / u64::from(session.threads),
    };
    if is_passive {
        let leader = &mut session.leader();
        let given = slots.iter_mut().try_for_each(|slot| {
            *slot = leader.allocate(size)?;
            Ok(())
        });
        given.map_err(|_: Halt| session.failure())?;
    }
    let measured = crew::run(&session, &work, &slots, None)?;
    Ok(measured.timed(&session, Vec::new()))
}

impl Work for Cache {
    type Slot = Held;

    fn set_up(&self, worker: &mut Worker<'_>, given: &mut Held) -> Result<(), Halt> {
        worker.adopt(given);
        Ok(())
    }

    fn work(&self, worker: &mut Worker<'_>, held: &mut Held) -> Result<Next, Halt> {
        if held.is_some() {
            worker.free(held)?;
        }
        for _ in 0..self.iterations {
            *held = worker.allocate(self.size)?;
            worker.session.look();
            if worker.session.checks.counts_sharing() {
                // So that others hold blocks at the same time, however few processors there are.
                thread::yield_now();
            }
            for _ in 0..self.repetitions {
                for offset in 0..self.size {
                    worker.write(held, offset, offset as u8);
                }
            }
            worker.free(held)?;
            if worker.is_stopped() {
                break;
            }
        }
        Ok(Next::Done)
    }

    fn tear_down(&self, worker: &mut Worker<'_>, held: &mut Held) -> Result<(), Halt> {
        worker.free(held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harnesses::tests::{count_sharing, run};

    const SHORT: [(&str, &str); 3] = [("threads", "4"), ("iterations", "50"), ("size", "8")];

    #[test]
    fn every_thread_allocates_one_block_an_iteration() {
        let settings = [&SHORT[..], &[("repetitions", "400")]].concat();
        let thrash = run(&THRASH, &settings);
        assert_eq!(thrash.calls.allocations, 4 * 50);
        assert!(thrash.live.peak_bytes <= 4 * 8);
        // And one that the leader gave it.
        let scratch = run(&SCRATCH, &settings);
        assert_eq!(scratch.calls.allocations, 4 * 50 + 4);
        assert_eq!(scratch.calls.frees, scratch.calls.allocations);
    }

    #[test]
    fn blocks_that_the_leader_gives_to_different_threads_share_lines() {
        // The C library's blocks are next to each other, 32 bytes apart, as soon as it has run out
        // of others: two on a line.
        let settings = [("threads", "32"), ("iterations", "5"), ("repetitions", "32")];
        let shared = count_sharing(&SCRATCH, &[&settings[..], &[("size", "8")]].concat());
        assert_eq!(shared.blocks, 32 * 5 + 32);
        assert!(shared.shared_blocks >= 2, "{shared:?}");
        assert!(shared.peak_shared_lines >= 1, "{shared:?}");
    }

    #[test]
    fn one_thread_shares_with_nobody() {
        let one = [("threads", "1"), ("iterations", "50"), ("repetitions", "4")];
        let shared = count_sharing(&THRASH, &one);
        assert_eq!((shared.blocks, shared.shared_blocks), (50, 0));
    }
}
