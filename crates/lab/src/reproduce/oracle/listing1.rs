//! Listings 1 and 2: what `prstat -mL` shows of a program whose threads wait for one lock.

use freehold_model::Claim;

use super::figure5::{panels, percent, waiting, watched};
use super::{LIBC, SOURCE, T3_STRANDS, that_fit};
use crate::known::FREEHOLD;
use crate::reproduce::claims::{Judged, all_say, asked, published};
use crate::reproduce::evidence::{Evidence, Rounds};
use crate::reproduce::plan::{Experiment, Plan, Scale};
use crate::statistics::median;

pub(super) static EXPERIMENT: Experiment = Experiment {
    name: "oracle-listing1",
    title: "Listings 1 and 2: where each thread's time goes, with 1, 4 and 16 pairs",
    source: SOURCE,
    method: "prstat -mL of libc's allocator: a row a thread, shares of an interval. Its plockstat \
             is made again by freehold locks -a model:serial -- freehold workload pairs --pairs 16",
    models: &[LIBC],
    plan,
    panels,
    claims,
};

/// Pairs of the original.
const PAIRS: [u64; 3] = [1, 4, 16];

fn plan(scale: &Scale) -> Plan {
    let cases = PAIRS.iter().map(|&pairs| watched(pairs, scale)).collect();
    let told = vec![
        format!("{} processors instead of {T3_STRANDS} strands, which LAT shows", scale.cpus),
        "on Linux a wait in a futex is counted as LCK, condition variables included, as on \
         Solaris; where threads wait for a lock that spins, it is USR"
            .to_owned(),
    ];
    that_fit(Plan { cases, scaled: told }, scale)
}

/// The share of the threads' time that was spent waiting, at each place, in each round that has
/// all places.
fn waiting_everywhere(evidence: &Evidence<'_>, name: &str) -> Vec<Vec<f64>> {
    let places = evidence.places();
    let places: Vec<Rounds> = places.iter().map(|place| waiting(evidence, place, name)).collect();
    let Some(first) = places.first().filter(|_| places.len() == PAIRS.len()) else {
        return Vec::new();
    };
    let all = |round: &u32| places.iter().map(|rounds| rounds.get(round).copied()).collect();
    first.keys().filter_map(all).collect()
}

fn claims(evidence: &Evidence<'_>) -> Vec<Claim> {
    let judge = |claim: Judged, name: &str, holds: fn(&[f64]) -> bool| {
        let rounds = waiting_everywhere(evidence, name);
        let at = |place| median(&rounds.iter().map(|round| round[place]).collect::<Vec<_>>());
        let shown: Vec<_> = (0..PAIRS.len()).filter_map(at).map(percent).collect();
        if shown.is_empty() {
            return claim.cannot("it was not run, or waiting cannot be seen here");
        }
        let here = format!("{} of the threads' time", shown.join(", "));
        claim.found(all_say(rounds.iter().map(|shares| holds(shares))), here)
    };
    vec![
        judge(
            published("under libc, a pair hardly waits for the lock").there("LCK 0"),
            LIBC,
            |shares| shares[0] < 0.1,
        ),
        judge(
            published("under libc, threads wait the longer the more pairs there are")
                .there("LCK 0; 5.5 to 6.7 with 4 pairs; up to 98 with 16"),
            LIBC,
            <[f64]>::is_sorted,
        ),
        judge(asked("under Freehold they never wait for locks"), FREEHOLD, |shares| {
            shares.iter().all(|&share| share < 0.05)
        }),
    ]
}
