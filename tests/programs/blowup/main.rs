//! How much more memory the malloc of this process takes than the program has in use, in patterns
//! that are known to make allocators grow without bound.
//!
//! Usage: `freehold-blowup PATTERN SECONDS`, where PATTERN is `handover`, `producer-consumer`,
//! `round-robin`, `lifetimes`, `phases`, `burst` or `scattered`. Says what it measured, one
//! `name: number` a line; judging it is the caller's.

mod block;
mod counted;
mod memory;
mod patterns;

use std::process::exit;
use std::time::Duration;

use memory::{METER, Meter, resident};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let pattern = arguments.next().unwrap_or_default();
    let seconds = arguments.next().and_then(|it| it.parse().ok());
    let run: fn(&Meter, Duration) = match pattern.as_str() {
        "handover" => patterns::handover::run,
        "producer-consumer" => patterns::producer_consumer::run,
        "round-robin" => patterns::round_robin::run,
        "lifetimes" => patterns::lifetimes::run,
        "phases" => patterns::phases::run,
        "burst" => patterns::burst::run,
        "scattered" => patterns::burst::run_scattered,
        _ => usage(),
    };
    let Some(seconds) = seconds else { usage() };
    println!("resident at start: {}", resident());
    run(&METER, Duration::from_secs(seconds));
    METER.report();
}

fn usage() -> ! {
    let patterns = "handover|producer-consumer|round-robin|lifetimes|phases|burst|scattered";
    eprintln!("usage: freehold-blowup {patterns} SECONDS");
    exit(2);
}
