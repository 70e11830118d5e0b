//! `xmalloc`: some threads allocate batches of blocks and put them on one stack, others take
//! batches off and free them. Which thread frees what is chance.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::crew::{self, Next, Slots, Work};
use crate::error::Error;
use crate::harness::{Harness, Parameter, THROUGHPUT, Threads};
use crate::mapping::Mapping;
use crate::outcome::Outcome;
use crate::rng::Rng;
use crate::session::Session;
use crate::settings::Settings;
use crate::worker::{Halt, Held, Worker};

pub(super) static HARNESS: Harness = Harness {
    name: "xmalloc",
    summary: "Some threads allocate batches of blocks, others free them",
    source: "In the manner of xmalloc-test, after Lever and Boreham, 2000",
    metric: THROUGHPUT,
    threads: Threads { default: "8", least: 2, help: "Threads in all, that allocate or free" },
    size: Some("size"),
    own: &[
        Parameter::seconds("5", "How long blocks are allocated and freed"),
        Parameter::count(
            "producers",
            "threads",
            (0, 255),
            "0",
            "Threads that allocate, the others free; 0 is half of them",
        ),
        Parameter::count(
            "size",
            "bytes",
            (0, 1 << 30),
            "1024",
            "The size of a block; 0 is any of 17 sizes from 8 to 2048",
        ),
        Parameter::count("batch", "blocks", (1, 1_000_000), "4096", "Blocks in a batch"),
        Parameter::count("queue", "batches", (1, 100_000), "100", "Batches that may wait"),
    ],
    run,
};

/// The sizes of which any is taken where none is given.
const ANY: [usize; 17] =
    [8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048];

/// Bytes of a block that are written.
const WRITTEN: usize = 128;

/// Blocks between two looks whether to stop.
const LOOK_EVERY: usize = 64;

/// The longest time that a thread sleeps before it looks whether to stop.
const NAP: Duration = Duration::from_millis(5);

/// Batches by number: those that are full, the last put on first, and those that are empty.
struct Queue {
    full: Mapping<u32>,
    full_len: usize,
    empty: Mapping<u32>,
    empty_len: usize,
}

struct Xmalloc {
    batches: Mapping<Mutex<Mapping<Held>>>,
    queue: Mutex<Queue>,
    /// Batches that may be full at once.
    limit: usize,
    has_full: Condvar,
    has_room: Condvar,
    producers: u32,
    size: usize,
}

fn run(settings: &Settings) -> Result<Outcome, Error> {
    let session = Session::new(settings)?;
    let producers = match settings.count("producers") as u32 {
        0 => session.threads / 2,
        producers => producers,
    };
    if producers >= session.threads {
        let threads = session.threads;
        let reason = format!("{producers} producers leave no consumer among {threads} threads");
        return Err(Error::Unsuitable(reason));
    }
    let limit = settings.size("queue");
    // Every thread may have one in its hands besides those that wait.
    let count = limit + session.threads as usize;
    // The batch itself is a block too, as in the original: of a pointer for each of its blocks.
    let room = settings.size("batch") + 1;
    let work = Xmalloc {
        batches: session.fill_with(count, |_| session.map(room).map(Mutex::new))?,
        queue: Mutex::new(Queue::new(&session, count)?),
        limit,
        has_full: Condvar::new(),
        has_room: Condvar::new(),
        producers,
        size: settings.size("size"),
    };
    let slots = Slots::new(&session, |_| Ok(()))?;
    let measured = crew::run(&session, &work, &slots, Some(settings.duration("seconds")))?;
    Ok(measured.rated(&session, Vec::new()))
}

/// The size that was asked for, or any of those there are.
fn size(rng: &mut Rng, asked: usize) -> usize {
    if asked == 0 { ANY[rng.below(ANY.len() as u32) as usize] } else { asked }
}

impl Queue {
    fn new(session: &Session, count: usize) -> Result<Self, Error> {
        let empty = session.fill(count, |number| number as u32)?;
        Ok(Self { full: session.map(count)?, full_len: 0, empty, empty_len: count })
    }

    fn push_full(&mut self, batch: u32) {
        self.full[self.full_len] = batch;
        self.full_len += 1;
    }

    fn pop_full(&mut self) -> Option<u32> {
        self.full_len = self.full_len.checked_sub(1)?;
        Some(self.full[self.full_len])
    }

    fn push_empty(&mut self, batch: u32) {
        self.empty[self.empty_len] = batch;
        self.empty_len += 1;
    }

    fn pop_empty(&mut self) -> Option<u32> {
        self.empty_len = self.empty_len.checked_sub(1)?;
        Some(self.empty[self.empty_len])
    }
}

impl Xmalloc {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn batch(&self, number: u32) -> MutexGuard<'_, Mapping<Held>> {
        self.batches[number as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn produce(&self, worker: &mut Worker<'_>) -> Result<(), Halt> {
        while !worker.is_stopped() {
            let empty = self.lock().pop_empty().expect("as many as there are hands");
            let filled = self.allocate(worker, &mut self.batch(empty));
            // Even one that is not complete: somebody has to free what is in it.
            self.enqueue(worker, empty);
            filled?;
        }
        Ok(())
    }

    fn allocate(&self, worker: &mut Worker<'_>, batch: &mut [Held]) -> Result<(), Halt> {
        let (own, blocks) = batch.split_first_mut().expect("room for the batch itself");
        *own = worker.allocate(size_of_val(blocks).div_ceil(2))?;
        for (number, block) in blocks.iter_mut().enumerate() {
            let size = size(&mut worker.rng, self.size);
            *block = worker.allocate(size)?;
            worker.fill(block, WRITTEN);
            if number % LOOK_EVERY == 0 && worker.is_stopped() {
                break;
            }
        }
        Ok(())
    }

    fn enqueue(&self, worker: &Worker<'_>, batch: u32) {
        let mut queue = self.lock();
        while queue.full_len >= self.limit && !worker.is_stopped() {
            let waited = self.has_room.wait_timeout(queue, NAP);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        queue.push_full(batch);
        self.has_full.notify_one();
    }

    fn dequeue(&self, worker: &Worker<'_>) -> Option<u32> {
        let mut queue = self.lock();
        while !worker.is_stopped() {
            if let Some(batch) = queue.pop_full() {
                self.has_room.notify_one();
                return Some(batch);
            }
            let waited = self.has_full.wait_timeout(queue, NAP);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        None
    }

    fn consume(&self, worker: &mut Worker<'_>) -> Result<(), Halt> {
        while let Some(number) = self.dequeue(worker) {
            let mut batch = self.batch(number);
            let blocks = batch.iter().filter(|held| held.is_some()).count();
            worker.free_all(&mut batch)?;
            // Not the batch itself.
            worker.tally.did(blocks.saturating_sub(1) as u64);
            drop(batch);
            self.lock().push_empty(number);
        }
        Ok(())
    }
}

impl Work for Xmalloc {
    type Slot = ();

    fn work(&self, worker: &mut Worker<'_>, (): &mut ()) -> Result<Next, Halt> {
        if worker.number < self.producers {
            self.produce(worker)?;
        } else {
            self.consume(worker)?;
        }
        Ok(Next::Done)
    }

    fn tear_down(&self, worker: &mut Worker<'_>, (): &mut ()) -> Result<(), Halt> {
        let threads = worker.session.threads as usize;
        for number in (worker.number as usize..self.batches.len()).step_by(threads) {
            worker.free_all(&mut self.batch(number as u32))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harnesses::tests::run;

    const SHORT: [(&str, &str); 3] = [("seconds", "0.05"), ("batch", "100"), ("queue", "5")];

    #[test]
    fn blocks_are_freed_by_others_and_no_more_batches_wait_than_may() {
        for (threads, producers) in [("4", "0"), ("5", "1"), ("5", "4")] {
            let own = [("threads", threads), ("producers", producers), ("size", "64")];
            let outcome = run(&HARNESS, &[&SHORT[..], &own].concat());
            assert!(outcome.calls.allocations > 0);
            let threads: u64 = threads.parse().expect("a number");
            let batch = 100 * 64 + 100 * 8;
            assert!(outcome.live.peak_bytes <= (5 + threads) * batch, "{:?}", outcome.live);
        }
    }

    #[test]
    fn without_a_size_all_of_seventeen_are_as_likely() {
        run(&HARNESS, &[&SHORT[..], &[("threads", "2"), ("size", "0")]].concat());
        let mut rng = Rng::for_thread(1, 0);
        let drawn: Vec<_> = (0..17_000).map(|_| size(&mut rng, 0)).collect();
        for size in ANY {
            let count = drawn.iter().filter(|drawn| **drawn == size).count();
            assert!((850..1150).contains(&count), "{count} of {size}");
        }
        assert_eq!(size(&mut rng, 1024), 1024);
    }

    #[test]
    fn somebody_has_to_free() {
        let mut settings = Settings::new(&HARNESS);
        settings.set(&HARNESS, "producers", "8").expect("fits");
        assert!(matches!(HARNESS.run(&settings), Err(Error::Unsuitable(_))));
    }
}
