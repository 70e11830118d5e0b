//! Lockless Inc, "Benchmarks", 2010: `t-test1` over threads and sizes, and a test of its own.
//!
//! The page has pictures of the first and two numbers of the second. What it claims is about its
//! own allocator, so that most of it can only be asked of ours in its place.

use freehold_model::{Better, Chart, Claim, Numbers, Panel, PanelColumn};

use crate::known::{FREEHOLD, SYSTEM};
use crate::reproduce::claims::{Say, all_say, asked, compare, number, published, typical};
use crate::reproduce::evidence::{Evidence, Published, Quantity, VALUE, panel};
use crate::reproduce::plan::{Case, Experiment, Plan, Scale, Work};
use crate::reproduce::standing::{TIME, freehold_leads, named_leads};

const SOURCE: &str = "Lockless Inc, Memory Allocator Benchmarks, 2010";
const LLALLOC: &str = "llalloc";
const JEMALLOC: &str = "jemalloc";
const TCMALLOC: &str = "tcmalloc";
const HOARD: &str = "hoard";

pub(super) static EXPERIMENTS: [&Experiment; 2] = [
    &Experiment {
        name: "lockless-ttest1",
        title: "t-test1: seconds of a run, by threads and maximum size",
        source: SOURCE,
        method: "Opteron 280, 4 cores; glibc 2.9, jemalloc 1.0.0, Hoard 3.7.1, tcmalloc 0.8, \
                 llalloc; 500 threads in all, 10,000 steps each; pictures without numbers",
        models: &[],
        plan: t_test1_plan,
        panels: t_test1_panels,
        claims: t_test1_claims,
    },
    &Experiment {
        name: "lockless-parallel",
        title: "test_parallel: seconds of its three parts together",
        source: SOURCE,
        method: "Opteron 280, 4 cores: 0.60 s with llalloc, 2.1 s or more with every other",
        models: &[],
        plan: parallel_plan,
        panels: parallel_panels,
        claims: parallel_claims,
    },
];

const THREADS: &[u64] = &[1, 2, 3, 4, 5, 8, 12, 16, 20];
const FEW_THREADS: &[u64] = &[1, 2, 4, 8, 20];
const SIZES: &[u64] =
    &[32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131_072];
const FEW_SIZES: &[u64] = &[32, 128, 512, 2048, 8192, 32768, 131_072];
const QUICK_SIZES: &[u64] = &[128, 8192];

/// Processors from which on the whole grid is run.
const ENOUGH_CPUS: u32 = 8;

/// Threads in all: the original's, and what is enough to see the same. There cannot be fewer than
/// run at a time.
const TOTAL_THREADS: u64 = 500;
const FEW_TOTAL_THREADS: u64 = 100;
const QUICK_TOTAL_THREADS: u64 = 20;

fn t_test1_plan(scale: &Scale) -> Plan {
    let (all, sizes, total) = match scale.cpus >= ENOUGH_CPUS {
        _ if scale.is_quick => (FEW_THREADS, QUICK_SIZES, QUICK_TOTAL_THREADS),
        true => (THREADS, SIZES, TOTAL_THREADS),
        false => (FEW_THREADS, FEW_SIZES, FEW_TOTAL_THREADS),
    };
    let threads = scale.threads(all, 1);
    let case = |threads: u64, size: u64| {
        let options = [("threads", threads), ("size", size), ("total-threads", total)];
        let label = format!("{}, {size} B", in_words(threads));
        Case::new(label, &[threads, size], Work::harness("t-test1", &options), 0.5)
    };
    let of_threads = |threads: &u64| sizes.iter().map(|size| case(*threads, *size)).collect();
    let cases: Vec<Vec<Case>> = threads.iter().map(of_threads).collect();
    let mut scaled = vec!["what the page does not state are the program's defaults".to_owned()];
    if total < TOTAL_THREADS {
        scaled.push(format!("{total} threads in all instead of {TOTAL_THREADS}"));
    }
    scaled.extend(scale.left_out(THREADS, &threads, "threads"));
    if sizes.len() < SIZES.len() {
        scaled.push(format!("{} of the 13 sizes", sizes.len()));
    }
    Plan { cases: cases.concat(), scaled }
}

fn in_words(threads: u64) -> String {
    if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") }
}

fn t_test1_panels(evidence: &Evidence<'_>) -> Vec<Panel> {
    let places = evidence.places();
    let heads = ["threads", "max size"];
    let table = panel("Seconds of a run", "s", Better::Lower, Chart::Table, &heads, &places);
    vec![Panel { columns: evidence.columns(&places, VALUE), ..table }]
}

/// The places with sizes in a range.
fn sizes(evidence: &Evidence<'_>, of: impl Fn(u64) -> bool) -> Vec<Vec<u64>> {
    evidence.places().into_iter().filter(|place| of(place[1])).collect()
}

fn t_test1_claims(evidence: &Evidence<'_>) -> Vec<Claim> {
    let all = sizes(evidence, |_| true);
    let large = sizes(evidence, |size| size > 65536);
    let hoard = published("Hoard is very slow above 64 KiB");
    let hoard = match evidence.find(HOARD) {
        None => hoard.cannot("libhoard.so was not found on this machine"),
        Some(own) => hoard.found_in_all(&slower_than(evidence, &large, own, 2.0)),
    };
    vec![
        small_and_alone(evidence),
        named_leads(
            evidence,
            published(
                "llalloc is about twice as fast as glibc and jemalloc, two to four times as \
                       fast as tcmalloc",
            ),
            &all,
            TIME,
            LLALLOC,
            &[SYSTEM, JEMALLOC, TCMALLOC],
        ),
        hoard,
        named_leads(
            evidence,
            asked("Freehold, in llalloc's place, is faster than glibc everywhere"),
            &all,
            TIME,
            FREEHOLD,
            &[SYSTEM],
        ),
        named_leads(
            evidence,
            asked("it is faster than jemalloc everywhere"),
            &all,
            TIME,
            FREEHOLD,
            &[JEMALLOC],
        ),
        named_leads(
            evidence,
            asked("it is faster than tcmalloc everywhere"),
            &all,
            TIME,
            FREEHOLD,
            &[TCMALLOC],
        ),
    ]
}

/// At each place, whether an allocator takes so many times as long as the fastest other.
fn slower_than(
    evidence: &Evidence<'_>,
    places: &[Vec<u64>],
    own: usize,
    times: f64,
) -> Vec<(Say, String)> {
    let at = |place: &Vec<u64>| {
        let median = |it: usize| evidence.median(place, it, VALUE);
        let others = (0..evidence.allocators.len()).filter(|it| *it != own).filter_map(median);
        let (Some(own), Some(best)) = (median(own), others.min_by(f64::total_cmp)) else {
            return (Say::Nothing, String::new());
        };
        let text =
            format!("{}: {} s, the fastest {} s", evidence.label(place), number(own), number(best));
        (all_say([own > times * best].into_iter()), text)
    };
    places.iter().map(at).collect()
}

/// With small sizes and one thread there are most bins to fill at first.
fn small_and_alone(evidence: &Evidence<'_>) -> Claim {
    let claim = published(
        "with small sizes and a single thread every allocator takes longer, since \
                           the first filling of the bins is most of the work",
    );
    let places = evidence.places();
    let alone: Vec<_> = places.iter().filter(|place| place[0] == 1).collect();
    let (Some(small), Some(middle)) = (alone.first(), alone.get(alone.len() / 2)) else {
        return claim.cannot("one thread was not run");
    };
    let of = |it: usize| {
        let at = |place: &[u64]| evidence.rounds(place, it, VALUE);
        let (small, middle) = (at(small), at(middle));
        let name = &evidence.allocators[it].name;
        let text = format!("{name}: {} s, {} s", typical(&small), typical(&middle));
        (compare(&small, &middle, |small, middle| small > middle), text)
    };
    let found: Vec<_> = (0..evidence.allocators.len()).map(of).collect();
    claim.there(&format!("{} B, beside {} B", small[1], middle[1])).found_in_all(&found)
}

/// Messages and what goes with them: a part of the harness's default, which is ours.
const MESSAGES: u64 = 1_000_000;
const QUICK_MESSAGES: u64 = 20_000;

/// The original had as many threads as cores.
const CORES: u64 = 4;

static PARALLEL: Published = Published { names: &["llalloc"], rows: &[(&[CORES], &[Some(0.60)])] };

fn parallel_plan(scale: &Scale) -> Plan {
    let messages = if scale.is_quick { QUICK_MESSAGES } else { MESSAGES };
    let options = [("threads", CORES), ("messages", messages)];
    let label = in_words(CORES);
    let cases = vec![Case::new(label, &[CORES], Work::harness("parallel", &options), 2.0)];
    let scaled = vec![
        "the original's program was never published: threads, sizes and counts are ours, so that \
         times cannot be compared with it, only allocators with each other"
            .to_owned(),
        format!("{CORES} threads on {} processors", scale.cpus),
    ];
    Plan { cases, scaled }
}

/// A part of the harness, by its name.
fn part(numbers: &Numbers, name: &str) -> Option<f64> {
    let Numbers::Harness(run) = numbers else { return None };
    run.details.iter().find(|detail| detail.name == name).map(|detail| detail.value)
}

const PARTS: [(&str, Quantity); 3] = [
    ("all to all", |numbers| part(numbers, "all to all")),
    ("within threads", |numbers| part(numbers, "local")),
    ("down a tree of threads", |numbers| part(numbers, "tree")),
];

fn parallel_panels(evidence: &Evidence<'_>) -> Vec<Panel> {
    let places = evidence.places();
    let of = |title: &str, published: Vec<PanelColumn>, quantity| {
        let table = panel(title, "s", Better::Lower, Chart::Table, &["threads"], &places);
        Panel { columns: [published, evidence.columns(&places, quantity)].concat(), ..table }
    };
    let mut panels = vec![of("Seconds of all three parts", PARALLEL.columns(&places), VALUE)];
    panels.extend(
        PARTS.iter().map(|(name, quantity)| {
            of(&format!("Seconds of the part {name}"), Vec::new(), *quantity)
        }),
    );
    panels
}

fn parallel_claims(evidence: &Evidence<'_>) -> Vec<Claim> {
    let places = evidence.places();
    let all_but = [SYSTEM, JEMALLOC, TCMALLOC, HOARD];
    let claim = published("llalloc is three and a half times as fast as any other")
        .there("0.60 s, others at least 2.1 s");
    vec![
        named_leads(evidence, claim, &places, TIME, LLALLOC, &all_but),
        freehold_leads(evidence, "Freehold is the fastest in its place", &places, TIME),
    ]
}

#[cfg(test)]
mod tests {
    use freehold_model::ClaimVerdict::{CannotBeTested, DoesNotHold, Holds};
    use freehold_model::{Detail, HarnessRun};

    use super::*;
    use crate::reproduce::invented::{invented, machine, seconds};

    const ALL: &[&str] = &[FREEHOLD, SYSTEM, JEMALLOC, HOARD];

    #[test]
    fn the_whole_grid_has_the_originals_runs() {
        let plan = t_test1_plan(&machine(8));
        assert_eq!(plan.cases.len(), 117);
        assert!(plan.cases.iter().all(|it| it.arguments().contains(&"--total-threads=500".into())));
    }

    #[test]
    fn no_more_threads_run_at_a_time_than_there_are_in_all() {
        for scale in [machine(1), machine(2), Scale { is_quick: true, ..machine(2) }] {
            let most = t_test1_plan(&scale).cases.iter().map(|it| it.place[0]).max();
            assert!(most.is_some_and(|most| most <= QUICK_TOTAL_THREADS), "{most:?}");
        }
    }

    #[test]
    fn every_place_and_every_allocator_is_asked() {
        let found = invented("lockless-ttest1", machine(2), ALL, |name, place| {
            let alone_and_small = place[0] == 1 && place[1] == FEW_SIZES[0];
            let first = if alone_and_small { 10.0 } else { 1.0 };
            match name {
                FREEHOLD => seconds(first),
                // As fast as Freehold at one place.
                JEMALLOC if place == [20, 2048] => seconds(0.9),
                HOARD if place[1] > 65536 => seconds(5.0),
                _ => seconds(1.5 * first),
            }
        });
        assert_eq!(found.verdict("with small sizes and a single thread").0, Holds);
        assert_eq!(found.verdict("llalloc is about twice").0, CannotBeTested);
        assert_eq!(found.verdict("Hoard is very slow").0, Holds);
        assert_eq!(found.verdict("Freehold, in llalloc's place"), (Holds, "at all 35 places"));
        let (verdict, here) = found.verdict("it is faster than jemalloc");
        assert_eq!(verdict, DoesNotHold);
        assert!(here.contains("20 threads, 2048 B: freehold 1.00, jemalloc 0.900"), "{here}");
        assert_eq!(found.verdict("it is faster than tcmalloc").0, CannotBeTested);
    }

    #[test]
    fn the_parts_are_shown_beside_their_sum() {
        let detail = |name: &str, value: f64| Detail {
            name: name.to_owned(),
            unit: "seconds".to_owned(),
            value,
        };
        let found = invented("lockless-parallel", machine(2), ALL, |_, _| HarnessRun {
            details: vec![detail("all to all", 1.0), detail("local", 2.0), detail("tree", 3.0)],
            ..seconds(6.0)
        });
        let shown: Vec<_> = found
            .panels
            .iter()
            .map(|panel| panel.columns.last().and_then(|column| column.values[0]))
            .collect();
        assert_eq!(shown, [Some(6.0), Some(1.0), Some(2.0), Some(3.0)]);
        assert_eq!(found.verdict("Freehold is the fastest").0, Holds);
    }
}
