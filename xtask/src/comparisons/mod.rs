//! `cargo xtask comparisons`: whether `freehold compare` keeps its promises on real processes.
//! What simulations show of the statistics is shown here of the whole: starting, measuring,
//! judging. It takes some minutes, and a busy machine is no excuse.

mod bench;
mod delay;
mod repeats;
mod same;

use bench::Bench;

/// The parts, by name, with how many comparisons each makes when nothing is said.
const PARTS: [(&str, Part, u32); 3] = [
    ("same", same::findings, 40),
    ("delay", delay::findings, 40),
    ("repeats", repeats::findings, 10),
];

type Part = fn(&Bench, u32) -> Result<Vec<String>, String>;

/// Runs one part with a number of comparisons, or all of them. Findings: promises that were
/// broken, and parts that could not be run.
pub(crate) fn run(words: &[&str]) -> Vec<String> {
    let (wanted, count) = match *words {
        [] => (None, None),
        [name] => (Some(name), None),
        [name, count, ..] => (Some(name), count.parse().ok()),
    };
    let parts = PARTS.iter().filter(|(name, ..)| wanted.is_none_or(|wanted| wanted == *name));
    let parts: Vec<_> = parts.collect();
    if parts.is_empty() || (words.len() > 1 && count.is_none()) {
        return vec!["comparisons: give same, delay or repeats, and a number".to_owned()];
    }
    let bench = match Bench::set_up() {
        Ok(bench) => bench,
        Err(reason) => return vec![reason],
    };
    let of = |(_, part, usual): &(&str, Part, u32)| {
        part(&bench, count.unwrap_or(*usual)).unwrap_or_else(|reason| vec![reason])
    };
    parts.into_iter().flat_map(of).collect()
}
