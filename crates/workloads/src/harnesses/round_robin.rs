//! `round-robin`: threads take turns. In its turn a thread frees what the one before allocated,
//! and allocates as much again. An allocator whose threads keep what is theirs holds P times what
//! is live.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::producer_consumer::BLOW_UP;
use crate::crew::{self, Next, Slots, Work};
use crate::error::Error;
use crate::harness::{Harness, Parameter, Threads};
use crate::mapping::Mapping;
use crate::outcome::Outcome;
use crate::session::Session;
use crate::settings::Settings;
use crate::worker::{Halt, Held, Worker};

pub(super) static HARNESS: Harness = Harness {
    name: "round-robin",
    summary: "Threads take turns at one working set; does memory grow with their number?",
    source: "Berger, Hoard, 2000: P-fold growth of private heaps with ownership",
    metric: BLOW_UP,
    threads: Threads { default: "3", least: 1, help: "Threads that take turns" },
    size: Some("size"),
    own: &[
        Parameter::count(
            "bytes",
            "bytes",
            (1, 1 << 40),
            "67108864",
            "What is live: a thread allocates so much in its turn, in blocks",
        ),
        Parameter::count("rounds", "", (1, 1_000_000_000), "10", "Turns of each thread"),
        Parameter::size("size", 1, "64", "The size of a block, all of which is written"),
    ],
    run,
};

/// The working set, and whose turn it is.
struct Table {
    turn: usize,
    blocks: Mapping<Held>,
}

struct RoundRobin {
    table: Mutex<Table>,
    /// One for each thread, so that only the one whose turn it is wakes.
    turns: Mapping<Condvar>,
    rounds: u64,
    size: usize,
}

fn run(settings: &Settings) -> Result<Outcome, Error> {
    let size = settings.size("size");
    let session = Session::new(settings)?;
    let blocks = session.map(settings.size("bytes").div_ceil(size))?;
    let work = RoundRobin {
        table: Mutex::new(Table { turn: 0, blocks }),
        turns: session.fill(session.threads as usize, |_| Condvar::new())?,
        rounds: settings.count("rounds"),
        size,
    };
    let slots = Slots::new(&session, |_| Ok(()))?;
    let measured = crew::run(&session, &work, &slots, None)?;
    let (blow_up, in_the_end) = (measured.blow_up(), measured.final_blow_up());
    Ok(measured.outcome(&session, blow_up, vec![in_the_end]))
}

/// How often a thread that waits looks whether the run has failed.
const LOOK: Duration = Duration::from_millis(100);

impl RoundRobin {
    /// Waits for the thread's turn; `None` if the run has failed: then a thread that had not begun
    /// never takes one, and nobody wakes those after it.
    fn await_turn(&self, worker: &Worker<'_>) -> Option<MutexGuard<'_, Table>> {
        let thread = worker.number as usize;
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        while !worker.is_stopped() {
            if table.turn == thread {
                return Some(table);
            }
            let waited = self.turns[thread].wait_timeout(table, LOOK);
            table = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        None
    }

    fn take_turn(&self, worker: &mut Worker<'_>, blocks: &mut [Held]) -> Result<(), Halt> {
        worker.free_all(blocks)?;
        for block in blocks.iter_mut() {
            *block = worker.allocate(self.size)?;
            worker.fill(block, self.size);
        }
        worker.session.look();
        Ok(())
    }
}

impl Work for RoundRobin {
    type Slot = ();

    fn work(&self, worker: &mut Worker<'_>, (): &mut ()) -> Result<Next, Halt> {
        let next = (worker.number as usize + 1) % self.turns.len();
        for _ in 0..self.rounds {
            let Some(mut table) = self.await_turn(worker) else { break };
            self.take_turn(worker, &mut table.blocks)?;
            table.turn = next;
            self.turns[next].notify_one();
        }
        Ok(Next::Done)
    }

    fn tear_down(&self, worker: &mut Worker<'_>, (): &mut ()) -> Result<(), Halt> {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        worker.free_all(&mut table.blocks)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::harnesses::tests::run;

    #[test]
    fn the_working_set_goes_round_and_never_grows() {
        let settings = [("threads", "3"), ("rounds", "4"), ("bytes", "10000"), ("size", "100")];
        let outcome = run(&HARNESS, &settings);
        assert_eq!(outcome.calls.allocations, 3 * 4 * 100);
        assert_eq!(outcome.live.peak_bytes, 10_000);
        assert_eq!(outcome.live.end_bytes, 10_000);
    }

    #[test]
    fn nobody_waits_for_a_thread_that_never_began_because_the_run_had_failed() {
        let settings = Settings::new(&HARNESS);
        let session = Session::new(&settings).expect("maps");
        let work = RoundRobin {
            table: Mutex::new(Table { turn: 1, blocks: session.map(1).expect("maps") }),
            turns: session.fill(3, |_| Condvar::new()).expect("maps"),
            rounds: 2,
            size: usize::MAX,
        };
        thread::scope(|scope| {
            let waiting = scope.spawn(|| work.work(&mut session.worker(0, 0), &mut ()).is_ok());
            thread::sleep(Duration::from_millis(50));
            // Fails, and the third thread never comes.
            assert!(work.work(&mut session.worker(1, 0), &mut ()).is_err());
            assert!(waiting.join().expect("no panic"));
        });
        assert!(work.work(&mut session.worker(2, 0), &mut ()).is_ok());
    }
}
