//! Every harness in turn in one process, again and again: for a leak that takes hours to show.
//!
//! Contents are checked throughout. After each harness, and longer after each round, the process is
//! idle for a moment, and says how much memory is resident then.
//!
//! Usage: `freehold-soak SECONDS`. Goes on until the time is up and a round is complete.

use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use freehold_workloads::harness::{Harness, Kind};
use freehold_workloads::settings::Settings;
use freehold_workloads::{harnesses, identity, resident};

/// How long a harness that can be told works.
const SECONDS_EACH: &str = "1";

/// The least of what can be told how much to do, so that every harness has its turn soon.
const SHORT: &[(&str, &str)] = &[("seconds", SECONDS_EACH), ("verify", "true"), ("threads", "4")];

/// How long the process is idle before its memory is read, after a harness and after a round: free
/// memory goes back within a second.
const PAUSE: Duration = Duration::from_millis(100);
const REST: Duration = Duration::from_secs(3);

fn resident_bytes() -> u64 {
    resident::now().rss_bytes
}

/// Settings for a short run, as far as the harness has such; a seed of its own for each round.
fn settings(harness: &Harness, round: u64) -> Settings {
    let mut settings = Settings::new(harness);
    let seed = round.to_string();
    for (name, value) in SHORT.iter().chain(&[("seed", seed.as_str())]) {
        if let Some(parameter) = harness.parameter(name) {
            let fits = parameter.parse(value).is_ok() && parameter.kind != Kind::Path;
            if fits {
                settings.set(harness, name, value).expect("it fits");
            }
        }
    }
    settings
}

/// Runs every harness once. Returns whether all did what they were to.
fn round(number: u64) -> bool {
    let mut all_well = true;
    for harness in harnesses::all() {
        let started = Instant::now();
        if let Err(error) = harness.run(&settings(harness, number)) {
            eprintln!("freehold-soak: {}: {error}", harness.name);
            all_well = false;
        }
        let took = started.elapsed().as_secs_f64();
        sleep(PAUSE);
        println!("{}: {} bytes resident, after {took:.1} s", harness.name, resident_bytes());
    }
    all_well
}

fn main() -> ExitCode {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let Some(seconds) = seconds else {
        eprintln!("usage: freehold-soak SECONDS");
        return ExitCode::from(2);
    };
    if let Some(providers) = identity::providers() {
        println!("malloc: {}", providers.malloc.display());
    }
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut all_well = true;
    let mut number = 1;
    while Instant::now() < until {
        all_well &= round(number);
        sleep(REST);
        println!("round {number}: {} bytes resident", resident_bytes());
        number += 1;
    }
    if all_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
