//! Loops that do next to nothing but call malloc and free, to see what recording each call costs.
//!
//! Usage: `freehold-loops LOOP THREADS PAIRS`, where LOOP is `at-once`, `in-order` or `replaced`,
//! and each thread makes so many pairs of calls. Prints the nanoseconds of processor time that a
//! pair took, page faults and whatever is preloaded included.

use std::hint::black_box;
use std::process::exit;
use std::thread;

/// Blocks that are there at once, where more than one is.
const BLOCKS: usize = 64;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [of, threads, pairs] = arguments.as_slice() else { usage() };
    let run: fn(usize, u64) = match of.as_str() {
        "at-once" => |pairs, _| at_once(pairs),
        "in-order" => |pairs, _| in_order(pairs),
        "replaced" => replaced,
        _ => usage(),
    };
    let (Ok(threads), Ok(pairs)) = (threads.parse::<u64>(), pairs.parse::<usize>()) else {
        usage()
    };
    let before = processor_nanoseconds();
    if threads == 1 {
        // A process with one thread never had a second one.
        run(pairs, 1);
    } else {
        let all: Vec<_> =
            (1..=threads).map(|seed| thread::spawn(move || run(pairs, seed))).collect();
        for one in all {
            one.join().expect("a thread ended");
        }
    }
    let spent = processor_nanoseconds() - before;
    println!("{:.2}", spent as f64 / (threads * pairs as u64) as f64);
}

fn usage() -> ! {
    eprintln!("usage: freehold-loops at-once|in-order|replaced THREADS PAIRS");
    exit(2);
}

/// A block of 16 bytes, freed at once.
fn at_once(pairs: usize) {
    for _ in 0..pairs {
        give_back(take(16));
    }
}

/// Blocks of 16 to 520 bytes, then their frees in the same order.
fn in_order(pairs: usize) {
    for _ in 0..pairs / BLOCKS {
        let blocks: [*mut libc::c_void; BLOCKS] = std::array::from_fn(|k| take(16 + 8 * k));
        for block in blocks {
            give_back(block);
        }
    }
}

/// One of the blocks at random, replaced by one of 16 to 527 bytes.
fn replaced(pairs: usize, mut seed: u64) {
    let mut blocks = [std::ptr::null_mut(); BLOCKS];
    for _ in 0..pairs {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let block = &mut blocks[(seed >> 58) as usize];
        give_back(*block);
        *block = take(16 + (seed >> 32 & 511) as usize);
    }
    for block in blocks {
        give_back(block);
    }
}

fn take(size: usize) -> *mut libc::c_void {
    // SAFETY: any size may be asked for.
    black_box(unsafe { libc::malloc(size) })
}

fn give_back(block: *mut libc::c_void) {
    // SAFETY: the block is null, or one that `take` gave and nobody has given back.
    unsafe { libc::free(block) }
}

/// Processor time of the process so far.
fn processor_nanoseconds() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to writable memory of the right type.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    assert_eq!(status, 0, "every process has this clock");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
