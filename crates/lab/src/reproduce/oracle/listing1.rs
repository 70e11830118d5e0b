//! Listings 1 and 2: what `prstat -mL` shows of a program whose threads wait for one lock.

use freehold_model::{Claim, TopRow};

use super::figure5::{overall, panels, percent, watched};
use super::{LIBC, SOURCE, T3_STRANDS, that_fit};
use crate::known::FREEHOLD;
use crate::reproduce::claims::{Judged, all_say, asked, published};
use crate::reproduce::evidence::Evidence;
use crate::reproduce::plan::{Experiment, Plan, Scale};

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

/// The share of the threads' time that was spent waiting, at each place; nothing where that cannot
/// be seen.
fn waiting(evidence: &Evidence<'_>, name: &str) -> Option<Vec<f64>> {
    let allocator = evidence.find(name)?;
    let lck = |rows: &[TopRow]| {
        rows.iter().any(|row| row.shares.lck.is_some()).then_some(())?;
        overall(rows, |shares| shares.lck.unwrap_or(0.0))
    };
    let places = evidence.places();
    places.iter().map(|place| lck(evidence.threads(place, allocator)?)).collect()
}

fn claims(evidence: &Evidence<'_>) -> Vec<Claim> {
    let judge = |claim: Judged, name: &str, holds: fn(&[f64]) -> bool| match waiting(evidence, name)
    {
        Some(shares) if shares.len() == PAIRS.len() => {
            let shown: Vec<_> = shares.iter().copied().map(percent).collect();
            let here = format!("{} of the threads' time", shown.join(", "));
            claim.found(all_say([holds(&shares)].into_iter()), here)
        }
        _ => claim.cannot("it was not run, or waiting cannot be seen here"),
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
