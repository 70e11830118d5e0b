//! `parallel`: three parts, timed apart, whose sum is the result.
//!
//! 1. *All to all*: every thread allocates buffers and posts them to all others, over a mailbox for
//!    each pair of threads; it frees what it receives.
//! 2. *Local*: every thread allocates a set of buffers and frees it, again and again.
//! 3. *Tree*: a thread allocates buffers, starts others that do likewise, and frees the buffers of
//!    each after it has ended; its own are freed by the one that started it.
//!
//! The original's parameters were not published; these are ours.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Instant;

use crate::crew::{self, Next, Slots, Work};
use crate::error::Error;
use crate::harness::{Better, Harness, Metric, Parameter, Threads};
use crate::mailbox::Mailbox;
use crate::mapping::Mapping;
use crate::outcome::{Detail, Outcome};
use crate::session::Session;
use crate::settings::Settings;
use crate::sizes::log_uniform;
use crate::threads::{Scope, scope};
use crate::worker::{Halt, Held, Worker};

pub(super) static HARNESS: Harness = Harness {
    name: "parallel",
    summary: "Buffers among all threads, within threads, and down a tree of threads",
    source: "In the manner of Lockless Inc's test_parallel, 2009, which was not published",
    metric: Metric { name: "sum of three parts", unit: "seconds", better: Better::Lower },
    threads: Threads { default: "4", least: 1, help: "Threads in the first two parts" },
    size: Some("max"),
    own: &[
        Parameter::count(
            "messages",
            "buffers",
            (1, 1_000_000_000),
            "1000000",
            "Buffers of all threads in the first part, and in the second",
        ),
        Parameter::size("min", 1, "16", "The least size; sizes are uniform on a logarithmic scale"),
        Parameter::size("max", 1, "65536", "The largest size"),
        Parameter::count(
            "in-flight",
            "bytes",
            (1, 1 << 40),
            "67108864",
            "First part: bytes that may be on their way at once, shared equally by the senders",
        ),
        Parameter::count("set", "buffers", (1, 1_000_000), "1000", "Second part: a set"),
        Parameter::count("fanout", "threads", (1, 64), "4", "Third part: threads that one starts"),
        Parameter::count("depth", "levels", (1, 10), "4", "Third part: levels, the first included"),
        Parameter::count(
            "buffers",
            "buffers",
            (1, 1_000_000),
            "1000",
            "Third part: of each thread",
        ),
    ],
    run,
};

/// Buffers that a mailbox has room for.
const ROOM: usize = 16;

/// The most threads in a tree.
const MOST_NODES: usize = 2000;

/// A thread of the tree: what it allocated, for its parent to free.
type Node = Mutex<Mapping<Held>>;

/// Bytes that a sender's buffers take up on their way. Two cache lines wide, as it is written by
/// all others.
#[repr(align(128))]
struct InFlight(AtomicU64);

struct Parallel {
    /// From each thread to each, in rows of a sender.
    boxes: Mapping<Mailbox<[Held; ROOM]>>,
    in_flight: Mapping<InFlight>,
    most_in_flight: u64,
    /// Threads that still send.
    sending: AtomicU64,
    messages: u64,
    min: usize,
    max: usize,
    set: usize,
    nodes: Mapping<Node>,
    fanout: usize,
    /// Where all threads wait for each other between two parts.
    barrier: Barrier,
    /// When each part began, and the last ended.
    times: [OnceLock<Instant>; 4],
}

fn run(settings: &Settings) -> Result<Outcome, Error> {
    let (min, max) = settings.range()?;
    let fanout = settings.size("fanout");
    let nodes = tree_size(fanout, settings.count("depth") as u32)?;
    let session = Session::with_helpers(settings, nodes)?;
    let threads = session.threads as usize;
    let set = settings.size("set");
    let buffers = settings.size("buffers");
    let work = Parallel {
        boxes: session.fill(threads * threads, |_| Mailbox::new(Default::default()))?,
        in_flight: session.fill(threads, |_| InFlight(AtomicU64::new(0)))?,
        most_in_flight: settings.count("in-flight") / threads as u64,
        sending: AtomicU64::new(threads as u64),
        messages: settings.count("messages") / threads as u64,
        min,
        max,
        set,
        nodes: session.fill_with(nodes, |_| session.map(buffers).map(Mutex::new))?,
        fanout,
        barrier: Barrier::new(threads),
        times: Default::default(),
    };
    let slots = Slots::new(&session, |_| session.map(set))?;
    let measured = crew::run(&session, &work, &slots, None)?;
    let parts = work.parts();
    let sum = parts.iter().map(|part| part.value).sum();
    Ok(measured.outcome(&session, sum, parts))
}

/// The threads in a tree.
fn tree_size(fanout: usize, depth: u32) -> Result<usize, Error> {
    let nodes = (0..depth).map(|level| fanout.saturating_pow(level));
    match nodes.fold(0, usize::saturating_add) {
        nodes @ ..=MOST_NODES => Ok(nodes),
        nodes => {
            let reason = format!("the tree would have {nodes} threads, more than {MOST_NODES}");
            Err(Error::Unsuitable(reason))
        }
    }
}

impl Parallel {
    fn parts(&self) -> Vec<Detail> {
        let names = ["all to all", "local", "tree"];
        let time = |part: usize| *self.times[part].get().expect("set by every complete run");
        let part = |(number, name)| Detail {
            name,
            unit: "seconds",
            value: (time(number + 1) - time(number)).as_secs_f64(),
        };
        names.into_iter().enumerate().map(part).collect()
    }

    /// Waits for all threads, and notes the time at which a part begins or the last one ends.
    fn meet(&self, part: usize) {
        if self.barrier.wait().is_leader() {
            self.times[part].get_or_init(Instant::now);
        }
        // So that no part begins before its time was noted.
        self.barrier.wait();
    }

    fn buffer(&self, worker: &mut Worker<'_>) -> Result<Held, Halt> {
        let size = log_uniform(&mut worker.rng, self.min, self.max);
        let mut held = worker.allocate(size)?;
        worker.write(&mut held, 0, 1);
        Ok(held)
    }

    fn all_to_all(&self, worker: &mut Worker<'_>) -> Result<(), Halt> {
        let sent = self.send(worker);
        // Release pairs with the acquire below: who sees that nobody sends finds all that was sent.
        self.sending.fetch_sub(1, Ordering::Release);
        sent?;
        while !worker.is_stopped() {
            let is_last = self.sending.load(Ordering::Acquire) == 0;
            if !self.receive(worker)? {
                if is_last {
                    break;
                }
                thread::yield_now();
            }
        }
        Ok(())
    }

    fn send(&self, worker: &mut Worker<'_>) -> Result<(), Halt> {
        let threads = self.in_flight.len();
        let own = worker.number as usize;
        let in_flight = &self.in_flight[own].0;
        for _ in 0..self.messages {
            let mut held = self.buffer(worker)?;
            let size = held.size() as u64;
            let to = worker.rng.below(threads as u32) as usize;
            // Relaxed: a little too much on its way does no harm.
            in_flight.fetch_add(size, Ordering::Relaxed);
            while !self.boxes[own * threads + to].send(&mut held) {
                if worker.is_stopped() {
                    return worker.free(&mut held);
                }
                self.receive_or_yield(worker)?;
            }
            while in_flight.load(Ordering::Relaxed) > self.most_in_flight && !worker.is_stopped() {
                self.receive_or_yield(worker)?;
            }
        }
        Ok(())
    }

    fn receive_or_yield(&self, worker: &mut Worker<'_>) -> Result<(), Halt> {
        if !self.receive(worker)? {
            thread::yield_now();
        }
        Ok(())
    }

    /// Frees a buffer from every sender that has posted one. Returns whether there was any.
    fn receive(&self, worker: &mut Worker<'_>) -> Result<bool, Halt> {
        let threads = self.in_flight.len();
        let own = worker.number as usize;
        let mut is_any = false;
        for from in 0..threads {
            let mut held = self.boxes[from * threads + own].receive();
            if held.is_some() {
                is_any = true;
                self.in_flight[from].0.fetch_sub(held.size() as u64, Ordering::Relaxed);
                worker.free(&mut held)?;
            }
        }
        Ok(is_any)
    }

    fn local(&self, worker: &mut Worker<'_>, set: &mut [Held]) -> Result<(), Halt> {
        let mut left = self.messages as usize;
        while left > 0 && !worker.is_stopped() {
            let count = left.min(self.set);
            for held in &mut set[..count] {
                *held = self.buffer(worker)?;
            }
            worker.session.look();
            worker.free_all(&mut set[..count])?;
            left -= count;
        }
        Ok(())
    }

    /// Grows the tree from its first node, which is the thread that calls this.
    fn tree(&self, session: &Session) -> Result<(), Halt> {
        let body = |scope: &Scope<'_>, node: usize| {
            // A failure is kept in the session.
            let _ = self.grow(scope, session, node);
        };
        let grown = scope(self.nodes.len(), &body, |scope| {
            self.grow(scope, session, 0)?;
            session.helper(0).free_all(&mut self.node(0))
        });
        grown.unwrap_or_else(|error| Err(session.fail(Error::Map(error))))
    }

    fn grow(&self, scope: &Scope<'_>, session: &Session, node: usize) -> Result<(), Halt> {
        let worker = &mut session.helper(node as u32);
        for held in self.node(node).iter_mut() {
            *held = self.buffer(worker)?;
        }
        session.look();
        let first = self.fanout * node + 1;
        let children = first.min(self.nodes.len())..(first + self.fanout).min(self.nodes.len());
        for child in children.clone() {
            scope.start(child).map_err(|error| session.fail(Error::Threads(error)))?;
        }
        for child in children {
            scope.join(child);
            worker.free_all(&mut self.node(child))?;
        }
        Ok(())
    }

    fn node(&self, node: usize) -> MutexGuard<'_, Mapping<Held>> {
        self.nodes[node].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Work for Parallel {
    type Slot = Mapping<Held>;

    fn work(&self, worker: &mut Worker<'_>, set: &mut Self::Slot) -> Result<Next, Halt> {
        // Every thread passes every barrier, whatever has failed: others wait there.
        self.meet(0);
        let mut result = self.all_to_all(worker);
        self.meet(1);
        result = result.and_then(|()| self.local(worker, set));
        self.meet(2);
        if worker.number == 0 {
            result = result.and_then(|()| self.tree(worker.session));
        }
        self.meet(3);
        result.map(|()| Next::Done)
    }

    fn tear_down(&self, worker: &mut Worker<'_>, set: &mut Self::Slot) -> Result<(), Halt> {
        worker.free_all(set)?;
        let (threads, own) = (self.in_flight.len(), worker.number as usize);
        for mailbox in &self.boxes[own * threads..(own + 1) * threads] {
            mailbox.drain(worker)?;
        }
        (own..self.nodes.len())
            .step_by(threads)
            .try_for_each(|node| worker.free_all(&mut self.node(node)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harnesses::tests::run;

    const SHORT: [(&str, &str); 5] =
        [("messages", "3000"), ("set", "100"), ("fanout", "2"), ("depth", "3"), ("buffers", "50")];

    #[test]
    fn every_part_allocates_its_buffers_and_the_parts_sum_up() {
        let outcome = run(&HARNESS, &[&SHORT[..], &[("threads", "3")]].concat());
        // 3,000 in each of the first two, and 50 in each of 1 + 2 + 4 threads.
        assert_eq!(outcome.calls.allocations, 2 * 3000 + 7 * 50);
        assert_eq!(outcome.live.end_bytes, 0);
        let names: Vec<_> = outcome.details.iter().map(|part| part.name).collect();
        assert_eq!(names, ["all to all", "local", "tree"]);
        let sum: f64 = outcome.details.iter().map(|part| part.value).sum();
        assert!((sum - outcome.value).abs() < 1e-9);
        assert!(outcome.details.iter().all(|part| part.value > 0.0));
        assert!(outcome.value <= outcome.elapsed.as_secs_f64());
    }

    #[test]
    fn bytes_in_flight_are_bounded() {
        let bound = [("threads", "2"), ("in-flight", "100000"), ("set", "1"), ("buffers", "1")];
        let outcome = run(&HARNESS, &[&SHORT[..], &bound].concat());
        // Each sender stops once it is above its half, which one more buffer may exceed.
        assert!(outcome.live.peak_bytes <= 100_000 + 2 * 65_536, "{:?}", outcome.live);
    }

    #[test]
    fn a_tree_has_its_levels_and_an_absurd_one_is_refused() {
        assert_eq!(tree_size(4, 4).expect("small"), 1 + 4 + 16 + 64);
        assert_eq!(tree_size(1, 5).expect("small"), 5);
        assert!(matches!(tree_size(64, 10), Err(Error::Unsuitable(_))));
    }
}
