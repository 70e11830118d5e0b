//! A stress test of the malloc that serves this process: every call, by many threads that come and
//! go, free each other's memory, and fork.
//!
//! Every block is entered into a map of all memory (`shadow.rs`), so that two blocks that overlap
//! are found at once; filled with a byte of its own, so that whoever writes to another's memory is
//! found when that is next looked at; and counted, so that nothing is lost.
//!
//! Usage: `freehold-stress THREADS SECONDS SEED`. Says what it did and ends with status 0, or says
//! what is wrong and aborts.

mod block;
mod calls;
mod complain;
mod crash;
mod post;
mod questions;
mod rng;
mod shadow;
mod worker;

use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use questions::{in_use, trim};
use worker::{Shared, Worker};

fn main() {
    let mut arguments = std::env::args().skip(1).map(|it| it.parse::<u64>());
    let (Some(Ok(threads)), Some(Ok(seconds)), Some(Ok(seed)), None) =
        (arguments.next(), arguments.next(), arguments.next(), arguments.next())
    else {
        eprintln!("usage: freehold-stress THREADS SECONDS SEED");
        std::process::exit(2);
    };
    println!("seed: {seed}");
    crash::watch();
    let shared = Arc::new(Shared::new(
        threads as usize,
        Instant::now() + Duration::from_secs(seconds),
        seed,
    ));
    let is_freehold = shared.questions.is_freehold();
    println!("malloc: {}", if is_freehold { "Freehold" } else { "other" });
    let at_start = in_use();
    run(&shared);
    let left = Worker::new(0, &shared).finish();
    println!("operations: {}", left.operations);
    println!("threads: {}", left.threads);
    println!("forks: {}", left.forks);
    println!("resized: {}", left.resized);
    println!("freed elsewhere: {}", left.freed_elsewhere);
    println!("questions: {}", left.questions);
    println!("calls unused: {}", left.calls_unused);
    shared.shadow.check_empty();
    check_nothing_is_lost(at_start);
}

/// Runs all threads, and the threads that they start, to their ends.
fn run(shared: &Arc<Shared>) {
    let (sender, receiver) = mpsc::channel();
    for lane in 0..shared.post.boxes() {
        Worker::new(lane, shared).start(&sender);
    }
    drop(sender);
    // Each thread sends the handle of its successor before it ends; when the last one has ended,
    // there is no sender left.
    for handle in receiver {
        handle.join().expect("workers do not panic");
    }
}

/// What malloc says is in use must be about what it was at the start: all that came and went in
/// between was freed.
fn check_nothing_is_lost(at_start: usize) {
    /// What threads' caches, the slabs that are partly used, and the standard library may hold.
    const SLACK: usize = 4 << 20;
    trim();
    let at_end = in_use();
    println!("in use: {at_end} bytes, at the start {at_start}");
    if at_end > at_start + SLACK {
        complain::fail(format_args!(
            "{at_end} bytes are in use at the end, {at_start} were at the start"
        ));
    }
}
