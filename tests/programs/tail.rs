//! How long do the slowest mallocs and frees take? Random sizes from 16 bytes to 1 MiB, small ones
//! far more often; each call timed by the thread's processor time, so that waiting for a processor
//! does not count. Run it under the allocator in question (`LD_PRELOAD`).
//!
//! Interrupts count as the time of the thread that they interrupt. So no call at all is timed as
//! often as a call: what that takes at most is no allocator's.
//!
//! Usage: `freehold-tail [OPERATIONS [THREADS]]`

use std::env;
use std::ffi::c_void;
use std::ptr;
use std::thread;

/// Blocks that a thread has at a time.
const PLACES: usize = 4096;
/// Of the operations, the first part is not timed: one in this many.
const WARM_UP: usize = 10;
/// What counts as slow, in nanoseconds.
const SLOW: u64 = 200_000;

#[derive(Default)]
struct Tail {
    nanoseconds: Vec<u32>,
    slow: usize,
    worst: (u64, &'static str, usize),
    /// The same of no calls.
    nothing_slow: usize,
    nothing_worst: u64,
}

impl Tail {
    fn add(&mut self, time: u64, call: &'static str, size: usize) {
        self.nanoseconds.push(u32::try_from(time).unwrap_or(u32::MAX));
        self.slow += usize::from(time >= SLOW);
        self.worst = self.worst.max((time, call, size));
    }

    fn add_nothing(&mut self, time: u64) {
        self.nothing_slow += usize::from(time >= SLOW);
        self.nothing_worst = self.nothing_worst.max(time);
    }
}

fn processor_time() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to a local variable.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn next(random: &mut u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    *random
}

/// Half of all sizes are below 32 bytes, half of the others below 64, and so on up to 1 MiB.
fn size(random: &mut u64) -> usize {
    let doublings = next(random).trailing_ones().min(15);
    (16 << doublings) + next(random) as usize % (16 << doublings)
}

fn work(operations: usize, seed: u64) -> Tail {
    let mut random = seed;
    let mut blocks: Vec<(*mut c_void, usize)> = vec![(ptr::null_mut(), 0); PLACES];
    let mut tail = Tail { nanoseconds: Vec::with_capacity(operations), ..Tail::default() };
    for n in 0..operations / 2 {
        let place = next(&mut random) as usize % PLACES;
        let wanted = size(&mut random);
        let (old, old_size) = blocks[place];
        let before = processor_time();
        let start = processor_time();
        // SAFETY: the block is this thread's, and forgotten below.
        unsafe { libc::free(old) };
        let between = processor_time();
        // SAFETY: allocates.
        let new = unsafe { libc::malloc(wanted) };
        let end = processor_time();
        let after = processor_time();
        assert!(!new.is_null(), "out of memory");
        // SAFETY: a block of that size.
        unsafe { ptr::write_bytes(new.cast::<u8>(), 1, wanted) };
        blocks[place] = (new, wanted);
        if n >= operations / 2 / WARM_UP {
            tail.add(between - start, "free", old_size);
            tail.add(end - between, "malloc", wanted);
            tail.add_nothing(start - before);
            tail.add_nothing(after - end);
        }
    }
    for (block, _) in blocks {
        // SAFETY: as above.
        unsafe { libc::free(block) };
    }
    tail
}

fn main() {
    let mut arguments = env::args().skip(1);
    let mut number = |usual: usize| {
        arguments.next().map_or(usual, |text| {
            text.parse()
                .unwrap_or_else(|_| panic!("{text} is not a number of operations or threads"))
        })
    };
    let (operations, threads) = (number(10_000_000), number(2).max(1));
    let tails: Vec<Tail> = thread::scope(|scope| {
        let begun: Vec<_> = (1..=threads as u64)
            .map(|n| scope.spawn(move || work(operations / threads, n * 0x9e37_79b9_7f4a_7c15)))
            .collect();
        begun.into_iter().map(|thread| thread.join().expect("it ends")).collect()
    });
    let mut all: Vec<u32> =
        tails.iter().flat_map(|tail| tail.nanoseconds.iter().copied()).collect();
    all.sort_unstable();
    let at = |share: f64| all[((all.len() - 1) as f64 * share) as usize];
    let slow: usize = tails.iter().map(|tail| tail.slow).sum();
    let (time, call, size) = tails.iter().map(|tail| tail.worst).max().expect("a thread");
    println!("calls timed: {}, of which {slow} took 200 us or more", all.len());
    for (name, share) in
        [("half", 0.5), ("99 %", 0.99), ("99.99 %", 0.9999), ("99.9999 %", 0.999_999)]
    {
        println!("{name} took at most {} ns", at(share));
    }
    println!("the slowest: {call} of {size} bytes, {} us", time / 1000);
    let slow: usize = tails.iter().map(|tail| tail.nothing_slow).sum();
    let time = tails.iter().map(|tail| tail.nothing_worst).max().expect("a thread");
    println!(
        "as often nothing was called: {slow} took 200 us or more, the slowest {} us",
        time / 1000
    );
}
