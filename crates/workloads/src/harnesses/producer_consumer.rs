//! `producer-consumer`: one thread of each pair allocates, the other frees, and as many blocks are
//! live all the time. An allocator that keeps freed blocks with the thread that freed them grows
//! without bound.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::crew::{self, Next, Slots, Work};
use crate::error::Error;
use crate::harness::{Better, Harness, Metric, Parameter, Threads};
use crate::mailbox::Mailbox;
use crate::mapping::Mapping;
use crate::outcome::{Detail, Outcome};
use crate::session::Session;
use crate::settings::Settings;
use crate::worker::{Halt, Held, Worker};

pub(super) const BLOW_UP: Metric =
    Metric { name: "memory blow-up", unit: "resident/requested", better: Better::Lower };

pub(super) static HARNESS: Harness = Harness {
    name: "producer-consumer",
    summary: "One thread of a pair allocates, the other frees; does memory stay bounded?",
    source: "Berger, Hoard, 2000: unbounded growth of pure private heaps",
    metric: BLOW_UP,
    threads: Threads {
        default: "2",
        least: 2,
        help: "Threads in all: the first half allocates; of an odd number, one has no partner",
    },
    size: Some("size"),
    own: &[
        Parameter::count(
            "items",
            "blocks",
            (1, 1_000_000_000_000),
            "2000000",
            "Blocks that each pair hands over",
        ),
        Parameter::count(
            "live",
            "blocks",
            (1, 100_000_000),
            "100000",
            "Blocks of a pair that are live, or down to three quarters of that",
        ),
        Parameter::size("size", 1, "64", "The size of a block, all of which is written"),
    ],
    run,
};

/// Blocks between two looks at what is live.
const LOOK_EVERY: u64 = 1024;

struct ProducerConsumer {
    /// One for each pair.
    boxes: Mapping<Mailbox<Mapping<Held>>>,
    /// How many blocks each pair's producer will not send any more, or may yet.
    left: Mapping<AtomicU64>,
    /// Blocks that stay in a box until no more will come.
    kept: usize,
    size: usize,
}

fn run(settings: &Settings) -> Result<Outcome, Error> {
    let session = Session::new(settings)?;
    let pairs = session.threads as usize / 2;
    let (items, live) = (settings.count("items"), settings.size("live"));
    let work = ProducerConsumer {
        boxes: session.fill_with(pairs, |_| session.map(live).map(Mailbox::new))?,
        left: session.fill(pairs, |_| AtomicU64::new(items))?,
        kept: live / 4 * 3,
        size: settings.size("size"),
    };
    let slots = Slots::new(&session, |_| Ok(()))?;
    let measured = crew::run(&session, &work, &slots, None)?;
    let (blow_up, in_the_end) = (measured.blow_up(), measured.final_blow_up());
    let rate = Detail { name: "handed over", unit: "blocks/s", value: measured.rate() };
    Ok(measured.outcome(&session, blow_up, vec![in_the_end, rate]))
}

impl ProducerConsumer {
    fn produce(&self, worker: &mut Worker<'_>, pair: usize) -> Result<(), Halt> {
        while self.left[pair].load(Ordering::Relaxed) > 0 && !worker.is_stopped() {
            let mut held = worker.allocate(self.size)?;
            worker.fill(&mut held, self.size);
            // Before it can be freed, and before the last may free them all: what is live is seen
            // however few blocks there are.
            let left = self.left[pair].load(Ordering::Relaxed);
            if left == 1 || left.is_multiple_of(LOOK_EVERY) {
                worker.session.look();
            }
            while !self.boxes[pair].send(&mut held) {
                if worker.is_stopped() {
                    return worker.free(&mut held);
                }
                thread::yield_now();
            }
            // Release pairs with the acquire in `consume`: the block is there before it counts.
            self.left[pair].fetch_sub(1, Ordering::Release);
        }
        Ok(())
    }

    fn consume(&self, worker: &mut Worker<'_>, pair: usize) -> Result<(), Halt> {
        loop {
            // Read before the box is looked into: what comes later is not the last.
            let left = self.left[pair].load(Ordering::Acquire);
            let kept = if left == 0 { 0 } else { self.kept };
            let mut held = self.boxes[pair].receive_above(kept);
            if held.is_some() {
                worker.free(&mut held)?;
                worker.tally.did(1);
            } else if left == 0 || worker.is_stopped() {
                return Ok(());
            } else {
                thread::yield_now();
            }
        }
    }
}

impl Work for ProducerConsumer {
    type Slot = ();

    fn work(&self, worker: &mut Worker<'_>, (): &mut ()) -> Result<Next, Halt> {
        let pairs = self.boxes.len();
        let number = worker.number as usize;
        match number / pairs {
            0 => self.produce(worker, number)?,
            1 => self.consume(worker, number - pairs)?,
            _ => {}
        }
        Ok(Next::Done)
    }

    fn tear_down(&self, worker: &mut Worker<'_>, (): &mut ()) -> Result<(), Halt> {
        let own = self.boxes.get(worker.number as usize);
        own.map_or(Ok(()), |mailbox| mailbox.drain(worker))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harnesses::tests::run;

    #[test]
    fn every_block_is_handed_over_and_no_more_than_so_many_are_live() {
        for threads in ["2", "5"] {
            let settings = [("threads", threads), ("items", "5000"), ("live", "20")];
            let outcome = run(&HARNESS, &settings);
            let pairs: u64 = threads.parse::<u64>().expect("a number") / 2;
            assert_eq!(outcome.calls.allocations, 5000 * pairs);
            assert_eq!(outcome.calls.frees, 5000 * pairs);
            // Those in the box, and one each that is on its way in or out.
            assert!(outcome.live.peak_bytes <= pairs * 22 * 64, "{:?}", outcome.live);
            if pairs == 1 {
                // Three quarters stay, and are seen by the one that allocates.
                assert!(outcome.live.peak_bytes >= 15 * 64, "{:?}", outcome.live);
            }
            assert_eq!(outcome.live.end_bytes, 0);
        }
    }

    #[test]
    fn few_blocks_are_seen_to_be_live() {
        for (items, live, least) in [("1", "1", 1), ("10", "1", 1), ("1000", "100000", 1000)] {
            let outcome = run(&HARNESS, &[("items", items), ("live", live)]);
            let peak = outcome.live.peak_bytes;
            assert!(peak >= least * 64, "{items} blocks: {peak} bytes");
            assert!(outcome.value.is_finite(), "{items} blocks: {}", outcome.value);
        }
    }
}
