//! Figures 5 to 12: where each thread's time goes.

use std::time::Duration;

use freehold_model::{
    Chart, Claim, Length, PairsParams, Panel, PanelColumn, Shares, TopRow, Whose,
};

use super::figure4::few_and_many_pairs;
use super::{EXCLUSIVE, LIBC, MODELS, SOURCE, T3_STRANDS, case, params, plural, that_fit};
use crate::known::FREEHOLD;
use crate::reproduce::claims::{Judged, all_say, asked, published};
use crate::reproduce::evidence::{Evidence, Rounds, middle};
use crate::reproduce::plan::{Case, Experiment, Plan, Scale};

pub(super) static EXPERIMENT: Experiment = Experiment {
    name: "oracle-figure5",
    title: "Figures 5 to 12: where each thread's time goes, a bar a thread",
    source: SOURCE,
    method: "T3, tpry and newbar: one bar a thread over an interval, user time green, kernel \
             red, waiting for locks orange, for a processor yellow",
    models: MODELS,
    plan,
    panels,
    claims,
};

/// Seconds that a watched run lasts at least: enough looks at every thread.
const LEAST_WATCHED_SECONDS: f64 = 1.0;

/// Pairs of Figures 10 to 12.
const MANY_PAIRS: u64 = 128;

/// A run of so many pairs of which an interval in the middle is watched.
pub(super) fn watched(pairs: u64, scale: &Scale) -> Case {
    let seconds = watched_seconds(scale);
    let params = PairsParams {
        length: Length::Samples { count: 1, seconds, warmup_seconds: seconds / 2.0 },
        ..params(pairs, 4096, seconds)
    };
    Case {
        // The start and the end of the run have waits of their own.
        watched: Some((
            Duration::from_secs_f64(seconds * 0.75),
            Duration::from_secs_f64(seconds * 0.5),
        )),
        ..case(&[pairs, 4096], params, T3_STRANDS)
    }
}

fn watched_seconds(scale: &Scale) -> f64 {
    if scale.is_quick { 0.2 } else { scale.seconds.max(LEAST_WATCHED_SECONDS) }
}

fn plan(scale: &Scale) -> Plan {
    let all = few_and_many_pairs(scale);
    let mut pairs = vec![all[all.len() - 1]];
    if !scale.is_quick && pairs[0] != MANY_PAIRS {
        pairs.push(MANY_PAIRS);
    }
    let told = vec![
        format!(
            "{} pairs for Figures 5 to 9, of which the original's number of threads is not \
             stated, and its interval was a second of a longer run; Figures 10 to 12 are of \
             {MANY_PAIRS} pairs",
            pairs[0]
        ),
        format!("{} s from the middle of each run are shown", watched_seconds(scale) * 0.5),
        "on Linux a wait in a futex is counted as waiting for a lock, condition variables \
         included, as prstat's LCK does on Solaris"
            .to_owned(),
    ];
    let cases = pairs.iter().map(|&pairs| watched(pairs, scale)).collect();
    that_fit(Plan { cases, scaled: told }, scale)
}

/// What the names of the harness's threads begin with. A thread that an allocator has for itself
/// waits most of the time, and nobody waits for it.
const WORKERS: [&str; 2] = ["alloc-", "free-"];

/// The threads that allocate and free, in the order in which they were started.
fn workers(rows: &[TopRow]) -> Vec<&TopRow> {
    let works = |row: &&TopRow| WORKERS.iter().any(|name| row.name.starts_with(name));
    let mut workers: Vec<&TopRow> = rows.iter().filter(works).collect();
    workers.sort_by_key(|row| row.tid);
    workers
}

/// A share, with its name.
type Share = (&'static str, fn(&Shares) -> f64);

const SHARES: [Share; 5] = [
    ("user", |shares| shares.usr),
    ("kernel", |shares| shares.sys),
    ("lock", |shares| shares.lck.unwrap_or(0.0)),
    ("processor", |shares| shares.lat),
    ("asleep", |shares| shares.slp + shares.faults()),
];

/// A panel for each run, with a row for each thread.
pub(super) fn panels(evidence: &Evidence<'_>) -> Vec<Panel> {
    let of = |place: &[u64], allocator: usize| {
        let rows = workers(evidence.threads(place, allocator)?);
        let column = |(name, share): &Share| PanelColumn {
            name: (*name).to_owned(),
            whose: Whose::Here,
            values: rows.iter().map(|row| Some(share(&row.shares))).collect(),
        };
        Some(Panel {
            title: format!(
                "Where the time of each thread went: {}, {}",
                evidence.allocators[allocator].name,
                plural(place[0])
            ),
            unit: "share".to_owned(),
            better: None,
            chart: Chart::Shares,
            heads: vec!["thread".to_owned()],
            rows: rows.iter().map(|row| vec![row.name.clone()]).collect(),
            columns: SHARES.iter().map(column).collect(),
        })
    };
    let allocators = 0..evidence.allocators.len();
    let places = evidence.places();
    let at = |place: &Vec<u64>| {
        allocators.clone().filter_map(|allocator| of(place, allocator)).collect::<Vec<_>>()
    };
    places.iter().flat_map(at).collect()
}

/// A share in words.
pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// The share of all threads' time that went to something.
pub(super) fn overall(rows: &[TopRow], share: fn(&Shares) -> f64) -> Option<f64> {
    let workers = workers(rows);
    let seconds: f64 = workers.iter().map(|row| row.seconds).sum();
    let sum: f64 = workers.iter().map(|row| share(&row.shares) * row.seconds).sum();
    (seconds > 0.0).then(|| sum / seconds)
}

/// The share of the threads' time that was spent waiting for locks, by round; nothing where that
/// cannot be seen: such a system leaves what threads wait for among the sleeps.
pub(super) fn waiting(evidence: &Evidence<'_>, place: &[u64], name: &str) -> Rounds {
    let runs = evidence.find(name).into_iter().flat_map(|it| evidence.watched(place, it));
    let lck = |(round, rows): (u32, &[TopRow])| {
        rows.iter().any(|row| row.shares.lck.is_some()).then_some(())?;
        Some((round, overall(rows, |shares| shares.lck.unwrap_or(0.0))?))
    };
    runs.filter_map(lck).collect()
}

fn claims(evidence: &Evidence<'_>) -> Vec<Claim> {
    let places = evidence.places();
    let place = places.first().cloned().unwrap_or_default();
    let judge = |claim: Judged, name: &str, holds: fn(f64) -> bool| {
        let rounds = waiting(evidence, &place, name);
        match middle(&rounds) {
            Some(share) => claim.found(
                all_say(rounds.values().copied().map(holds)),
                format!("{} of the threads' time", percent(share)),
            ),
            None => claim.cannot("it was not run, or waiting cannot be seen here"),
        }
    };
    vec![
        judge(
            published("under libc, threads spend their time waiting for its lock")
                .there("Listing 1, 16 pairs: LCK up to 98 %"),
            LIBC,
            |share| share > 0.25,
        ),
        judge(
            published("under the new mtmalloc with exclusive buckets they do not wait for locks"),
            EXCLUSIVE,
            |share| share < 0.05,
        ),
        judge(asked("under Freehold they do not wait for locks"), FREEHOLD, |share| share < 0.05),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, tid: u32, lck: f64) -> TopRow {
        let shares = Shares { usr: 1.0 - lck, lck: Some(lck), ..Shares::default() };
        TopRow { name: name.to_owned(), tid: Some(tid), seconds: 1.0, shares, ..TopRow::default() }
    }

    #[test]
    fn threads_that_an_allocator_has_for_itself_are_none_of_the_programs() {
        let names = ["freehold", "workload", "free-0", "alloc-0", "jemalloc_bg_thd"];
        let lck = [1.0, 1.0, 0.3, 0.1, 1.0];
        let rows: Vec<_> = (100..)
            .zip(names.iter().zip(lck))
            .map(|(tid, (name, lck))| row(name, tid, lck))
            .collect();
        let shown: Vec<_> = workers(&rows).iter().map(|row| row.name.as_str()).collect();
        assert_eq!(shown, ["free-0", "alloc-0"]);
        let waiting = overall(&rows, |shares| shares.lck.unwrap_or(0.0));
        assert!((waiting.expect("there are workers") - 0.2).abs() < 1e-9);
    }
}
