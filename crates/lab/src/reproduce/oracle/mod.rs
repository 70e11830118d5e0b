//! R. Weisner, "How Memory Allocation Affects Performance in Multithreaded Programs", Oracle, 2012:
//! pairs of threads, one of which allocates what the other frees.
//!
//! Two of its allocators have models here, and so has the C library's of that time. Its rows are
//! known in part; where a number is missing, the original has one that is not in this table.

mod figure13;
mod figure4;
mod figure5;
mod listing1;
mod table1;
mod table2;

use std::collections::BTreeMap;

use freehold_model::{Claim, Handoff, Length, PairsParams, Sizes};

use crate::plan::{expected_resident_bytes, expected_run_seconds};
use crate::reproduce::claims::{Say, all_say, compare, number, published, typical};
use crate::reproduce::evidence::{Evidence, Quantity, Rounds, VALUE};
use crate::reproduce::plan::{Case, Experiment, Plan, Scale, Work};
use crate::reproduce::standing::{self, RATE, named_leads};

const SOURCE: &str = "R. Weisner, How Memory Allocation Affects Performance in Multithreaded \
                      Programs, Oracle Technology Network, 2012";

const LIBC: &str = "model:serial";
const MTMALLOC: &str = "model:mtmalloc";
const EXCLUSIVE: &str = "model:mtmalloc-exclusive";
const MODELS: &[&str] = &[LIBC, MTMALLOC, EXCLUSIVE];
const HOARD: &str = "hoard";

/// The variable that makes a model as large as the original's machine.
const MODEL_CPUS: &str = "FREEHOLD_MODEL_CPUS";

/// Strands of the two machines.
const T2_STRANDS: u64 = 64;
const T3_STRANDS: u64 = 256;

const NO_UMEM: &str = "there is no libumem for this system, and no model of it";
const NO_HOARD: &str = "libhoard.so was not found on this machine";

pub(super) static EXPERIMENTS: [&Experiment; 6] = [
    &table1::EXPERIMENT,
    &table2::EXPERIMENT,
    &figure4::EXPERIMENT,
    &figure5::EXPERIMENT,
    &figure13::EXPERIMENT,
    &listing1::EXPERIMENT,
];

/// Pairs of T3.
const T3_PAIRS: &[u64] = &[32, 64, 128];

const HEADS: &[&str] = &["pairs", "max size"];

/// Loops a second.
const SPEED: Quantity = VALUE;

fn params(pairs: u64, max_bytes: u64, seconds: f64) -> PairsParams {
    PairsParams {
        pairs: pairs as u32,
        min_bytes: 8,
        max_bytes: max_bytes as u32,
        sizes: Sizes::Random,
        allocations: 5000,
        memset: false,
        handoff: Handoff::Yield,
        depth: 2,
        seed: 1,
        length: Length::Samples { count: 1, seconds, warmup_seconds: seconds / 4.0 },
        settle_seconds: 0.0,
    }
}

fn case(place: &[u64], params: PairsParams, strands: u64) -> Case {
    let label = format!("{}, {} B", plural(u64::from(params.pairs)), params.max_bytes);
    let seconds = expected_run_seconds(&params);
    Case::new(label, place, Work::Pairs(params), seconds).with(MODEL_CPUS, strands)
}

/// So many pairs, in words.
fn plural(pairs: u64) -> String {
    if pairs == 1 { "1 pair".to_owned() } else { format!("{pairs} pairs") }
}

/// Says what is true of every experiment with pairs.
fn scaled(scale: &Scale, strands: u64, original_seconds: &str) -> Vec<String> {
    vec![
        format!(
            "a run measures {} s where the original's took {original_seconds}",
            number(scale.seconds)
        ),
        format!(
            "{} processors instead of {strands} strands; the models of mtmalloc have as many \
             buckets as the original had there",
            scale.cpus
        ),
        "which hand-over the original used between two threads is not known; here they look some \
         hundreds of times and then yield, with two batches in flight"
            .to_owned(),
    ]
}

/// Leaves out what would not fit into memory, and says so.
fn that_fit(mut plan: Plan, scale: &Scale) -> Plan {
    let fits = |case: &Case| match &case.work {
        Work::Pairs(params) => expected_resident_bytes(params, false) < scale.available_bytes,
        Work::Harness(..) => true,
    };
    let left: Vec<_> =
        plan.cases.iter().filter(|case| !fits(case)).map(|case| case.label.clone()).collect();
    if !left.is_empty() {
        plan.scaled.push(format!("left out for want of memory: {}", left.join("; ")));
    }
    plan.cases.retain(fits);
    plan
}

/// The sizes and the pairs that were run.
fn grid(evidence: &Evidence<'_>) -> (Vec<u64>, Vec<u64>) {
    let part = |n: usize| {
        let mut all: Vec<u64> = evidence.places().iter().map(|place| place[n]).collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    (part(0), part(1))
}

fn exclusive_leads(evidence: &Evidence<'_>) -> Claim {
    let claim = published("new mtmalloc with exclusive buckets is the fastest in every row")
        .there("32 pairs, 256 B: 5,497, then umem 4,416");
    named_leads(evidence, claim, &evidence.places(), RATE, EXCLUSIVE, &[LIBC, MTMALLOC, HOARD])
}

fn freehold_leads(evidence: &Evidence<'_>) -> Claim {
    let text = "Freehold is the fastest in every row";
    standing::freehold_leads(evidence, text, &evidence.places(), RATE)
}

/// The rate with most pairs relative to that with fewest, round by round.
fn scaling(evidence: &Evidence<'_>, allocator: usize, max: u64, of: Quantity) -> Rounds {
    let (pairs, _) = grid(evidence);
    let (Some(&first), Some(&last)) = (pairs.first(), pairs.last()) else {
        return Rounds::new();
    };
    let few = evidence.rounds(&[first, max], allocator, of);
    let many = evidence.rounds(&[last, max], allocator, of);
    many.iter().filter_map(|(round, many)| Some((*round, many / few.get(round)?))).collect()
}

fn chunk_locks_scale_less(evidence: &Evidence<'_>) -> Claim {
    let claim = published(
        "mtmalloc, with a lock for each chunk, gains less from more pairs than \
                           the new one with exclusive buckets",
    )
    .there("256 B, 1 to 32 pairs: 19.2-fold, 20.7-fold");
    let (Some(locks), Some(none)) = (evidence.find(MTMALLOC), evidence.find(EXCLUSIVE)) else {
        return claim.cannot("their models were not run");
    };
    let of_size = |max: &u64| {
        let [with, without] = [locks, none].map(|it| scaling(evidence, it, *max, SPEED));
        let text = format!("{max} B: {}-fold, {}-fold", typical(&with), typical(&without));
        let say = compare(&with, &without, |with, without| with < without);
        (say, text, relative(&with, &without))
    };
    let sizes: Vec<(Say, String, Rounds)> = grid(evidence).1.iter().map(of_size).collect();
    if sizes.iter().any(|(say, ..)| *say == Say::No) {
        let places: Vec<_> = sizes.into_iter().map(|(say, text, _)| (say, text)).collect();
        return claim.found_in_all(&places);
    }
    // What the locks cost differs by size, and is a few hundredths of the gain where there are few
    // processors and blocks are small: less than rounds differ. It is a claim about the table.
    let all = mean_of_all(sizes.iter().map(|(.., relative)| relative));
    let texts: Vec<String> = sizes.into_iter().map(|(_, text, _)| text).collect();
    let here =
        format!("{} of the gain, the mean of all sizes; {}", typical(&all), texts.join("; "));
    claim.found(all_say(all.values().map(|relative| *relative < 1.0)), here)
}

/// What the first is of the second, in each round that has both.
fn relative(first: &Rounds, second: &Rounds) -> Rounds {
    first.iter().filter_map(|(round, first)| Some((*round, first / second.get(round)?))).collect()
}

/// The geometric mean of ratios in each round that has all of them.
fn mean_of_all<'a>(ratios: impl Iterator<Item = &'a Rounds> + Clone) -> Rounds {
    let count = ratios.clone().count();
    let mut logs: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (round, ratio) in ratios.flatten() {
        logs.entry(*round).or_default().push(ratio.ln());
    }
    let whole = logs.into_iter().filter(|(_, logs)| logs.len() == count);
    whole.map(|(round, logs)| (round, (logs.iter().sum::<f64>() / count as f64).exp())).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use freehold_model::Better;
    use freehold_model::ClaimVerdict::{self, DoesNotHold, Holds, Undecided};

    use super::*;
    use crate::fixtures::harness_run;
    use crate::reproduce::invented::{invented, machine};

    /// What becomes of the claim if chunk locks gain so many times as much as exclusive buckets, in
    /// one round and in the other: at the smallest size, and at the others.
    fn verdict(smallest: [f64; 2], others: [f64; 2]) -> ClaimVerdict {
        let round = Cell::new(1);
        let found = invented("oracle-table1", machine(2), MODELS, |name, place| {
            round.set(1 - round.get());
            let gain = if place[1] == 256 { smallest } else { others }[round.get()];
            let is_gained = name == MTMALLOC && place[0] > 1;
            harness_run(Better::Higher, "loops/s", if is_gained { 100.0 * gain } else { 100.0 })
        });
        found.verdict("mtmalloc, with a lock").0
    }

    #[test]
    fn chunk_locks_gain_less_if_they_do_so_over_all_sizes_and_nowhere_more_in_every_round() {
        assert_eq!(verdict([0.98, 0.97], [0.7, 0.8]), Holds);
        assert_eq!(verdict([0.98, 1.05], [0.7, 0.8]), Holds, "rounds differ at one of five");
        assert_eq!(verdict([1.02, 1.05], [0.7, 0.8]), DoesNotHold, "all contradict at one");
        assert_eq!(verdict([0.98, 1.05], [0.99, 1.01]), Undecided, "rounds differ in the mean");
        assert_eq!(verdict([1.05, 0.98], [1.05, 1.04]), DoesNotHold);
    }
}
