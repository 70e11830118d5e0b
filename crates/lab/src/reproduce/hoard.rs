//! E. Berger et al., "Hoard", ASPLOS 2000, and slides of 2002: speed-up with the number of
//! processors, relative to the one-processor time of the C library's allocator.

use freehold_model::{Better, Chart, Claim, Numbers, Panel, PanelColumn, Whose};

use crate::known::FREEHOLD;
use crate::reproduce::claims::{Judged, Say, all_say, asked, number, published, typical};
use crate::reproduce::evidence::{Evidence, Published, Rounds, VALUE, middle, panel};
use crate::reproduce::plan::{Case, Experiment, FLAG, Plan, Scale, Work};

const SOURCE: &str = "E. Berger, K. McKinley, R. Blumofe, P. Wilson, Hoard, ASPLOS 2000; \
                      E. Berger, Scalable Memory Management for Multithreaded Applications, 2002";
const METHOD: &str = "14 processors, Sun Enterprise 5000, 400 MHz, Solaris 7; Hoard 2.0.2, \
                      ptmalloc, mtmalloc, Solaris' own. Speed-up over the time of Solaris' on one \
                      processor";

const SOLARIS: &str = "model:serial";
const MTMALLOC: &str = "model:mtmalloc";
const HOARD: &str = "hoard";
const MODELS: &[&str] = &[SOLARIS, MTMALLOC, "model:ownership"];

const NO_HOARD: &str = "libhoard.so was not found on this machine";

/// Processors of the original's machine.
const PROCESSORS: u64 = 14;

pub(super) static EXPERIMENTS: [&Experiment; 3] = [
    &Experiment {
        name: "hoard-threadtest",
        title: "threadtest: speed-up of threads that allocate and free objects of their own",
        source: SOURCE,
        method: METHOD,
        models: MODELS,
        plan: threadtest_plan,
        panels: |evidence| panels(evidence, TIME, Some(&THREADTEST)),
        claims: threadtest_claims,
    },
    &Experiment {
        name: "hoard-larson",
        title: "Larson: speed-up of threads that replace blocks, and hand them on",
        source: SOURCE,
        method: METHOD,
        models: MODELS,
        plan: larson_plan,
        panels: |evidence| panels(evidence, RATE, None),
        claims: larson_claims,
    },
    &Experiment {
        name: "hoard-cache-scratch",
        title: "cache-scratch: speed-up of threads that write to objects of their own, and false \
                sharing",
        source: SOURCE,
        method: METHOD,
        models: MODELS,
        plan: scratch_plan,
        panels: scratch_panels,
        claims: scratch_claims,
    },
];

/// What the speed-up of is told from: a time, or a rate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Time,
    Rate,
}
const TIME: What = What::Time;
const RATE: What = What::Rate;

/// One-processor times of Table 2.
static THREADTEST: Published =
    Published { names: &["Solaris", "Hoard"], rows: &[(&[1], &[Some(16.549), Some(15.599)])] };
static SCRATCH: Published =
    Published { names: &["Solaris", "Hoard"], rows: &[(&[1], &[Some(18.898), Some(18.955)])] };

/// The original's 1 to 14 processors, as far as threads beyond twice the processors make sense.
fn threads(scale: &Scale) -> Vec<u64> {
    let most = (2 * u64::from(scale.cpus)).clamp(4, PROCESSORS);
    if scale.is_quick { vec![1, 2] } else { (1..=most).collect() }
}

fn scaled(scale: &Scale, threads: &[u64]) -> Vec<String> {
    vec![
        format!(
            "up to {} threads on {} processors; no speed-up can be larger than that number",
            threads.last().copied().unwrap_or(1),
            scale.cpus
        ),
        "the mtmalloc of the paper chose heaps in turn for each call; the model is of a later one, \
         which chooses by thread"
            .to_owned(),
    ]
}

fn cases(threads: &[u64], seconds: f64, work: impl Fn(u64) -> Work) -> Vec<Case> {
    let of = |count: &u64| {
        let plural = if *count == 1 { "" } else { "s" };
        Case::new(format!("{count} thread{plural}"), &[*count], work(*count), seconds)
    };
    threads.iter().map(of).collect()
}

const OBJECTS: u64 = 100_000;
const ITERATIONS: u64 = 100;
const QUICK_ITERATIONS: u64 = 5;

fn threadtest_plan(scale: &Scale) -> Plan {
    let threads = threads(scale);
    let iterations = if scale.is_quick { QUICK_ITERATIONS } else { ITERATIONS };
    let work = |count| {
        let options =
            [("threads", count), ("objects", OBJECTS), ("size", 8), ("iterations", iterations)];
        Work::harness("threadtest", &options)
    };
    Plan { cases: cases(&threads, 1.0, work), scaled: scaled(scale, &threads) }
}

fn larson_plan(scale: &Scale) -> Plan {
    let threads = threads(scale);
    let work = |count| {
        let options = [("threads", count), ("blocks", 10_000), ("min", 10), ("max", 100)];
        Work::harness("larson", &options).and("seconds", &scale.seconds.to_string())
    };
    let mut told = scaled(scale, &threads);
    told.push(format!("{} s a run instead of 30 s", number(scale.seconds)));
    Plan { cases: cases(&threads, scale.seconds + 0.3, work), scaled: told }
}

const SCRATCH_REPETITIONS: u64 = 1_000_000;
const FEW_REPETITIONS: u64 = 200_000;
const QUICK_REPETITIONS: u64 = 5_000;

/// Threads at least of a run that counts shared lines.
const FEWEST_COUNTED: u64 = 4;

/// The second part of the place of a run that counts shared lines.
const COUNTED: u64 = 1;

fn scratch_plan(scale: &Scale) -> Plan {
    let threads = threads(scale);
    let repetitions = if scale.is_quick { QUICK_REPETITIONS } else { FEW_REPETITIONS };
    let work = |count, repetitions| {
        let options =
            [("threads", count), ("iterations", 1000), ("size", 1), ("repetitions", repetitions)];
        Work::harness("cache-scratch", &options)
    };
    let mut all = cases(&threads, 1.0, |count| work(count, repetitions));
    // The count depends neither on how often a block is written nor on the processors. With four
    // threads, at least two of the blocks that are given away lie on one line.
    let most = threads.last().copied().unwrap_or(1).max(FEWEST_COUNTED);
    let counting = work(most, QUICK_REPETITIONS).and("false-sharing", FLAG);
    let label = format!("shared lines, {most} threads");
    all.push(Case::new(label, &[most, COUNTED], counting, 0.5));
    let mut told = scaled(scale, &threads);
    told.push(format!("{repetitions} repetitions instead of {SCRATCH_REPETITIONS}"));
    Plan { cases: all, scaled: told }
}

/// The places of the curve.
fn curve(evidence: &Evidence<'_>) -> Vec<Vec<u64>> {
    evidence.places().into_iter().filter(|place| place.len() == 1).collect()
}

/// Speed-ups over a number, round by round.
fn over(base: &Rounds, own: &Rounds, what: What) -> Rounds {
    let ratio = |base: f64, own: f64| if what == TIME { base / own } else { own / base };
    own.iter().filter_map(|(round, own)| Some((*round, ratio(*base.get(round)?, *own)))).collect()
}

/// Speed-ups of an allocator over another's single thread.
fn speedup(evidence: &Evidence<'_>, base: usize, own: usize, threads: u64, what: What) -> Rounds {
    let base = evidence.rounds(&[1], base, VALUE);
    over(&base, &evidence.rounds(&[threads], own, VALUE), what)
}

/// Speed-ups, and what they are of, beside the published times of one processor.
fn panels(evidence: &Evidence<'_>, what: What, one_processor: Option<&Published>) -> Vec<Panel> {
    let places = curve(evidence);
    let base = evidence.find(SOLARIS).unwrap_or(0);
    let column = |own: usize| PanelColumn {
        name: evidence.allocators[own].name.clone(),
        whose: Whose::Here,
        values: places
            .iter()
            .map(|place| {
                let found = speedup(evidence, base, own, place[0], what);
                middle(&found)
            })
            .collect(),
    };
    let title = format!("Speed-up over one thread under {}", evidence.allocators[base].name);
    let chart = panel(&title, "times", Better::Higher, Chart::Bars, &["threads"], &places);
    let (unit, better) = match what {
        What::Time => ("s", Better::Lower),
        What::Rate => ("operations/s", Better::Higher),
    };
    let table = panel("As measured", unit, better, Chart::Table, &["threads"], &places);
    let published = one_processor.map(|published| published.columns(&places)).unwrap_or_default();
    vec![
        Panel { columns: (0..evidence.allocators.len()).map(column).collect(), ..chart },
        Panel { columns: [published, evidence.columns(&places, VALUE)].concat(), ..table },
    ]
}

/// What is claimed of Hoard, which is here or not.
fn of_hoard(evidence: &Evidence<'_>, text: &str, what: What) -> Claim {
    let claim = published(text);
    match evidence.find(HOARD) {
        None => claim.cannot(NO_HOARD),
        Some(own) => {
            let found = near_linear(evidence, own, what);
            claim.found_in_all(&found)
        }
    }
}

/// Whether each number of threads up to the processors gives at least four fifths of what it could,
/// over the allocator's own single thread.
fn near_linear(evidence: &Evidence<'_>, own: usize, what: What) -> Vec<(Say, String)> {
    let cpus = u64::from(evidence.scale.cpus);
    let places = curve(evidence).into_iter().map(|place| place[0]);
    let told = places.filter(|threads| *threads > 1 && *threads <= cpus).map(|threads| {
        let found = speedup(evidence, own, own, threads, what);
        let say = all_say(found.values().map(|times| *times >= 0.8 * threads as f64));
        (say, format!("{threads} threads: {}-fold", typical(&found)))
    });
    told.collect()
}

/// Whether the C library's allocator gains nothing from threads.
fn solaris_gains_nothing(evidence: &Evidence<'_>, what: What) -> Claim {
    let claim = published("Solaris' allocator, with one lock, gains nothing from more processors");
    let Some(own) = evidence.find(SOLARIS) else { return claim.cannot("its model was not run") };
    let places = curve(evidence).into_iter().map(|place| place[0]).filter(|threads| *threads > 1);
    let told = places.map(|threads| {
        let found = speedup(evidence, own, own, threads, what);
        let say = all_say(found.values().map(|times| *times < 1.2));
        (say, format!("{threads} threads: {}-fold", typical(&found)))
    });
    claim.found_in_all(&told.collect::<Vec<_>>())
}

fn freehold_scales(evidence: &Evidence<'_>, what: What) -> Claim {
    let claim = asked("Freehold gains at least four fifths of each processor");
    match evidence.find(FREEHOLD) {
        None => claim.cannot("it was not run"),
        Some(_) if evidence.scale.cpus < 2 => claim.cannot("there is one processor"),
        Some(own) => claim.found_in_all(&near_linear(evidence, own, what)),
    }
}

fn at_14(text: &str) -> Claim {
    published(text).cannot("14 processors, and the allocators of that time, would be needed")
}

/// What one processor took, which is about what allocators cost without any waiting.
fn one_processor(of: &Published) -> String {
    let value = |name| of.value(&[1], name).map_or_else(String::new, number);
    format!("Solaris {} s, Hoard {} s", value("Solaris"), value("Hoard"))
}

fn threadtest_claims(evidence: &Evidence<'_>) -> Vec<Claim> {
    let cost = published("on one processor Hoard costs about what Solaris' allocator does")
        .there(&one_processor(&THREADTEST));
    vec![
        of_hoard(evidence, "Hoard's speed-up is nearly linear", TIME),
        solaris_gains_nothing(evidence, TIME),
        at_14("with 14 processors Hoard is 278 % faster than ptmalloc"),
        match evidence.find(HOARD).zip(evidence.find(SOLARIS)) {
            None => cost.cannot(NO_HOARD),
            Some((hoard, solaris)) => {
                let found = speedup(evidence, solaris, hoard, 1, TIME);
                let say = all_say(found.values().map(|times| (0.67..1.5).contains(times)));
                cost.found(say, format!("{}-fold", typical(&found)))
            }
        },
        freehold_scales(evidence, TIME),
    ]
}

fn larson_claims(evidence: &Evidence<'_>) -> Vec<Claim> {
    vec![
        of_hoard(evidence, "Hoard's speed-up is nearly linear", RATE),
        solaris_gains_nothing(evidence, RATE),
        at_14("with 14 processors Hoard does 18 times as much as ptmalloc"),
        freehold_scales(evidence, RATE),
    ]
}

fn shared(numbers: &Numbers) -> Option<u64> {
    let Numbers::Harness(run) = numbers else { return None };
    run.false_sharing.map(|counted| counted.shared_blocks)
}

fn counted_place(evidence: &Evidence<'_>) -> Vec<u64> {
    evidence.places().into_iter().find(|place| place.len() == 2).unwrap_or_default()
}

fn scratch_panels(evidence: &Evidence<'_>) -> Vec<Panel> {
    let mut all = panels(evidence, TIME, Some(&SCRATCH));
    let place = counted_place(evidence);
    let of = |numbers: &Numbers| shared(numbers).map(|blocks| blocks as f64);
    let title = "Objects that shared a cache line with another thread's";
    let threads = vec![place[..1].to_vec()];
    let table = panel(title, "objects", Better::Lower, Chart::Table, &["threads"], &threads);
    all.push(Panel { columns: evidence.columns(&[place], of), ..table });
    all
}

fn scratch_claims(evidence: &Evidence<'_>) -> Vec<Claim> {
    let place = counted_place(evidence);
    let counts = |name: &str| -> Vec<u64> {
        let runs = evidence.find(name).into_iter().flat_map(|it| evidence.measured(&place, it));
        runs.filter_map(shared).collect()
    };
    // The objects that the first thread gave away lie on one line whatever the allocator does; they
    // are freed before anything is written.
    let given = place.first().copied().unwrap_or(0);
    let judge = |claim: Judged, name: &str, why: &str, is_none: bool| {
        let counts = counts(name);
        let Some(most) = counts.iter().max() else { return claim.cannot(why) };
        claim.found(
            all_say(counts.iter().map(|blocks| (*blocks <= given) == is_none)),
            format!(
                "{most} objects; the {given} that the first thread gave away may be among them"
            ),
        )
    };
    vec![
        of_hoard(
            evidence,
            "Hoard's speed-up is nearly linear, and bends after 12 processors",
            TIME,
        ),
        judge(
            published("Hoard lets no objects share a line").there("Table 3: 0"),
            HOARD,
            NO_HOARD,
            true,
        ),
        judge(
            published("one heap for all puts objects of different threads on one line"),
            SOLARIS,
            "its model was not run",
            false,
        ),
        at_14("ptmalloc and mtmalloc gain nothing beyond four processors"),
        judge(asked("Freehold lets no objects share a line"), FREEHOLD, "it was not run", true),
        freehold_scales(evidence, TIME),
    ]
}

#[cfg(test)]
mod tests {
    use freehold_model::ClaimVerdict::{CannotBeTested, DoesNotHold, Holds};
    use freehold_model::{FalseSharing, HarnessRun};

    use super::*;
    use crate::reproduce::invented::{invented, machine, rate, seconds};

    const ALL: &[&str] = &[SOLARIS, FREEHOLD, HOARD];

    #[test]
    fn speed_up_is_over_the_single_thread_of_the_allocator_with_one_lock() {
        // One lock makes two threads no faster; the others are twice as fast to begin with.
        let found = invented("hoard-threadtest", machine(4), ALL, |name, place| match name {
            SOLARIS => seconds(8.0),
            _ => seconds(4.0 / place[0] as f64),
        });
        let bars = &found.panels[0];
        assert_eq!(bars.columns[0].values[..2], [Some(1.0), Some(1.0)]);
        assert_eq!(bars.columns[1].values[..2], [Some(2.0), Some(4.0)]);
        assert_eq!(found.panels[1].columns[0].values[..2], [Some(16.549), None]);
        assert_eq!(found.verdict("Solaris' allocator").0, Holds);
        assert_eq!(found.verdict("Freehold gains").0, Holds);
        assert_eq!(found.verdict("Hoard's speed-up").0, Holds);
        // Twice as fast is not about the same.
        assert_eq!(found.verdict("on one processor").0, DoesNotHold);
        assert_eq!(found.verdict("with 14 processors").0, CannotBeTested);
    }

    #[test]
    fn a_rate_that_does_not_rise_with_the_threads_is_no_speed_up() {
        let found = invented("hoard-larson", machine(4), ALL, |name, place| match name {
            FREEHOLD => rate(100.0),
            _ => rate(100.0 * place[0] as f64),
        });
        assert_eq!(found.verdict("Freehold gains").0, DoesNotHold);
        assert_eq!(found.verdict("Solaris' allocator").0, DoesNotHold);
        assert_eq!(found.verdict("Hoard's speed-up").0, Holds);
    }

    #[test]
    fn more_shared_objects_than_were_given_away_are_false_sharing() {
        let found = invented("hoard-cache-scratch", machine(2), ALL, |name, place| {
            let shared_blocks = if name == SOLARIS { 2000 } else { 4 };
            let counted = FalseSharing { blocks: 4000, shared_blocks, peak_shared_lines: 1 };
            HarnessRun { false_sharing: (place.len() == 2).then_some(counted), ..seconds(1.0) }
        });
        assert_eq!(found.verdict("one heap for all").0, Holds);
        assert_eq!(found.verdict("Freehold lets no objects").0, Holds);
        assert_eq!(found.verdict("Hoard lets no objects").0, Holds);
        let counts = &found.panels.last().expect("a table of counts").columns;
        assert_eq!(counts[0].values, [Some(2000.0)]);
    }
}
