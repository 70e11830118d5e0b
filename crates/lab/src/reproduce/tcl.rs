//! G. Neumann, "Thread Mallocs for Tcl", 2012: threads that exchange blocks in an array of cells.
//!
//! The document has pictures; what it says of them in words is here as claims. Tcl's own
//! allocator and nedmalloc cannot be preloaded; glibc, jemalloc and tcmalloc are measured in their
//! versions of today.

use freehold_model::{Better, Chart, Claim, Panel};

use crate::known::{FREEHOLD, SYSTEM};
use crate::reproduce::claims::{asked, published};
use crate::reproduce::evidence::{Evidence, Quantity, VALUE, panel};
use crate::reproduce::plan::{Case, Experiment, Plan, Scale, Work};
use crate::reproduce::standing::{Measure, RATE, freehold_leads, named_leads};

const SOURCE: &str = "G. Neumann, Thread Mallocs for Tcl, next-scripting.org, 2012";
const METHOD: &str = "24 processors, Fedora 17; Tcl's zippy 8.5.13, glibc, jemalloc 3.1.0, \
                      TCMalloc 2.0, nedmalloc 1.0.5; 64,000 cells, 1 to 128 threads; a picture, of \
                      which the numbers are not given";

const JEMALLOC: &str = "jemalloc";
const TCMALLOC: &str = "tcmalloc";
const NO_ZIPPY: &str = "Tcl's allocator is a part of Tcl and cannot be preloaded";

const UNIFORM: &str = "uniform";
const SAMPLE_32: &str = "sample-32";
const SAMPLE_64: &str = "sample-64";

pub(super) static EXPERIMENTS: [&Experiment; 5] = [
    &Experiment {
        name: "tcl-figure1",
        title: "Figure 1: operations per second by threads, sizes uniform to 8 KiB",
        source: SOURCE,
        method: METHOD,
        models: &[],
        plan: |scale| plan(scale, UNIFORM),
        panels: |evidence| speed(evidence, "uniform sizes"),
        claims: claims1,
    },
    &Experiment {
        name: "tcl-figure2",
        title: "Figure 2: operations per second by threads, sizes of a 32-bit Tcl server",
        source: SOURCE,
        method: METHOD,
        models: &[],
        plan: |scale| plan(scale, SAMPLE_32),
        panels: |evidence| speed(evidence, "sizes of the 32-bit sample"),
        claims: claims2,
    },
    &Experiment {
        name: "tcl-figure3",
        title: "Figure 3: operations per second by threads, sizes of a 64-bit Tcl server",
        source: SOURCE,
        method: METHOD,
        models: &[],
        plan: |scale| plan(scale, SAMPLE_64),
        panels: |evidence| speed(evidence, "sizes of the 64-bit sample"),
        claims: claims3,
    },
    &Experiment {
        name: "tcl-figure4",
        title: "Figure 4: resident memory by threads, sizes of a 64-bit Tcl server",
        source: SOURCE,
        method: METHOD,
        models: &[],
        plan: |scale| plan(scale, SAMPLE_64),
        panels: |evidence| memory(evidence, "Resident memory at the end", RESIDENT),
        claims: claims4,
    },
    &Experiment {
        name: "tcl-figure5",
        title: "Figure 5: address space by threads, sizes of a 64-bit Tcl server",
        source: SOURCE,
        method: METHOD,
        models: &[],
        plan: |scale| plan(scale, SAMPLE_64),
        panels: |evidence| memory(evidence, "Address space at the end", VIRTUAL),
        claims: claims5,
    },
];

const THREADS: &[u64] = &[1, 2, 4, 8, 16, 32, 64, 128];
const CELLS: u64 = 64_000;

/// Passes of all threads together, which are divided among them.
const PASSES: u64 = 64;
const QUICK_PASSES: u64 = 2;

const MIB: f64 = 1_048_576.0;
const RESIDENT: Quantity =
    |numbers| numbers.memory().end.map(|end| end.resident.rss_bytes as f64 / MIB);
const VIRTUAL: Quantity = |numbers| numbers.memory().end.map(|end| end.virtual_bytes as f64 / MIB);

fn plan(scale: &Scale, sizes: &str) -> Plan {
    let threads = scale.threads(THREADS, 1);
    let all = if scale.is_quick { QUICK_PASSES } else { PASSES };
    let case = |count: &u64| {
        let passes = (all / count).max(1);
        let options = [("threads", *count), ("cells", CELLS), ("passes", passes)];
        let plural = if *count == 1 { "" } else { "s" };
        let work = Work::harness("tcl-cells", &options).and("sizes", sizes);
        Case::new(format!("{count} thread{plural}"), &[*count], work, 1.0)
    };
    let mut scaled = vec![
        format!(
            "{all} passes over the cells, divided among the threads; the original's are not known"
        ),
        "cells are shared, so that most blocks are freed by another thread; whether they were is \
         not known"
            .to_owned(),
    ];
    if sizes != UNIFORM {
        scaled.push(
            "of the sample, the three most frequent sizes were published; the rest is our choice, \
             every octave half as often as the one below"
                .to_owned(),
        );
    }
    scaled.extend(scale.left_out(THREADS, &threads, "threads"));
    Plan { cases: threads.iter().map(case).collect(), scaled }
}

fn speed(evidence: &Evidence<'_>, what: &str) -> Vec<Panel> {
    let title = format!("Operations per second by threads, {what}");
    chart(evidence, &title, "operations/s", Better::Higher, VALUE)
}

fn memory(evidence: &Evidence<'_>, title: &str, of: Quantity) -> Vec<Panel> {
    chart(evidence, title, "MiB", Better::Lower, of)
}

fn chart(
    evidence: &Evidence<'_>,
    title: &str,
    unit: &str,
    better: Better,
    of: Quantity,
) -> Vec<Panel> {
    let places = evidence.places();
    let chart = panel(title, unit, better, Chart::Bars, &["threads"], &places);
    vec![Panel { columns: evidence.columns(&places, of), ..chart }]
}

/// The place with most threads.
fn most_threads(evidence: &Evidence<'_>) -> Vec<Vec<u64>> {
    evidence.places().into_iter().last().into_iter().collect()
}

/// How many that are, in words, beside the 128 of the original.
fn with_most(evidence: &Evidence<'_>, text: &str) -> String {
    match most_threads(evidence).first() {
        Some(place) if place[0] < 128 => format!("{text}, here with {}", place[0]),
        _ => text.to_owned(),
    }
}

fn freehold_is_first(evidence: &Evidence<'_>) -> Claim {
    let text = "Freehold is the fastest with any number of threads";
    freehold_leads(evidence, text, &evidence.places(), RATE)
}

fn claims1(evidence: &Evidence<'_>) -> Vec<Claim> {
    vec![
        published("with 128 threads jemalloc is more than 20 times as fast as zippy")
            .cannot(NO_ZIPPY),
        published("with 4 threads nedmalloc is the fastest")
            .cannot("nedmalloc is compiled into programs and cannot be preloaded"),
        named_leads(
            evidence,
            asked(&with_most(evidence, "with most threads jemalloc is faster than glibc")),
            &most_threads(evidence),
            RATE,
            JEMALLOC,
            &[SYSTEM],
        ),
        freehold_is_first(evidence),
    ]
}

/// That tcmalloc wins with most threads.
fn tcmalloc_wins(evidence: &Evidence<'_>) -> Claim {
    named_leads(
        evidence,
        published(&with_most(evidence, "with 128 threads TCMalloc is the clear winner")),
        &most_threads(evidence),
        RATE,
        TCMALLOC,
        &[SYSTEM, JEMALLOC],
    )
}

fn claims2(evidence: &Evidence<'_>) -> Vec<Claim> {
    vec![
        tcmalloc_wins(evidence),
        published("zippy is among the best three with any number of threads").cannot(NO_ZIPPY),
        freehold_is_first(evidence),
    ]
}

fn claims3(evidence: &Evidence<'_>) -> Vec<Claim> {
    vec![
        tcmalloc_wins(evidence),
        published("jemalloc is better than with the 32-bit sample, others are worse")
            .cannot("it takes Figure 2 as well"),
        freehold_is_first(evidence),
    ]
}

const LEAST: Measure = Measure { of: RESIDENT, better: Better::Lower };
const MOST: Measure = Measure { of: RESIDENT, better: Better::Higher };

fn claims4(evidence: &Evidence<'_>) -> Vec<Claim> {
    let alone: Vec<Vec<u64>> = evidence.places().into_iter().take(1).collect();
    vec![
        named_leads(
            evidence,
            published("with one thread jemalloc needs least"),
            &alone,
            LEAST,
            JEMALLOC,
            &[SYSTEM, TCMALLOC],
        ),
        named_leads(
            evidence,
            published(&with_most(evidence, "with 128 threads jemalloc needs most")),
            &most_threads(evidence),
            MOST,
            JEMALLOC,
            &[SYSTEM, TCMALLOC],
        ),
        published("zippy is best from four threads on").cannot(NO_ZIPPY),
        named_leads(
            evidence,
            asked("Freehold needs less than any other with any number of threads"),
            &evidence.places(),
            LEAST,
            FREEHOLD,
            &[SYSTEM, JEMALLOC, TCMALLOC],
        ),
    ]
}

fn claims5(evidence: &Evidence<'_>) -> Vec<Claim> {
    let least = Measure { of: VIRTUAL, better: Better::Lower };
    vec![
        published("with 128 threads zippy's address space is 82 times that of TCMalloc")
            .cannot(NO_ZIPPY),
        named_leads(
            evidence,
            asked("TCMalloc needs less address space than glibc and jemalloc with most threads"),
            &most_threads(evidence),
            least,
            TCMALLOC,
            &[SYSTEM, JEMALLOC],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use freehold_model::ClaimVerdict::{CannotBeTested, DoesNotHold, Holds};
    use freehold_model::{End, HarnessRun, Memory, Resident};

    use super::*;
    use crate::reproduce::invented::{invented, machine, rate};

    const ALL: &[&str] = &[FREEHOLD, SYSTEM, JEMALLOC, TCMALLOC];

    #[test]
    fn all_threads_of_the_figure_are_run_where_there_are_processors_for_them() {
        let of = |cpus| plan(&machine(cpus), UNIFORM).cases.iter().map(|it| it.place[0]).collect();
        let (few, many): (Vec<u64>, Vec<u64>) = (of(2), of(24));
        assert_eq!(few, [1, 2, 4, 8, 16, 32, 64]);
        assert_eq!(many, THREADS);
    }

    #[test]
    fn the_winner_with_most_threads_is_told_from_that_with_few() {
        let found = invented("tcl-figure3", machine(2), ALL, |name, place| match name {
            TCMALLOC if place[0] == 64 => rate(9.0),
            FREEHOLD if place[0] < 64 => rate(9.0),
            _ => rate(1.0),
        });
        let (verdict, here) = found.verdict("with 128 threads TCMalloc is the clear winner, here");
        assert_eq!(verdict, Holds);
        assert!(here.contains("64 threads"), "{here}");
        assert_eq!(found.verdict("Freehold is the fastest").0, DoesNotHold);
        assert_eq!(found.verdict("jemalloc is better").0, CannotBeTested);
    }

    /// A run that ends with so many bytes resident and so many mapped.
    fn ends_with(rss_bytes: u64, virtual_bytes: u64) -> HarnessRun {
        let run = rate(1.0);
        let resident = Resident { rss_bytes, ..Resident::default() };
        let end = End { resident, virtual_bytes, ..End::default() };
        HarnessRun { memory: Memory { end: Some(end), ..run.memory }, ..run }
    }

    #[test]
    fn of_memory_less_is_better_and_address_space_is_not_resident_memory() {
        let of = |name: &str, place: &[u64]| match name {
            JEMALLOC => ends_with(if place[0] == 1 { 2 << 20 } else { 90 << 20 }, 100 << 20),
            TCMALLOC => ends_with(40 << 20, 50 << 20),
            FREEHOLD => ends_with(1 << 20, 1 << 40),
            _ => ends_with(10 << 20, 100 << 20),
        };
        let resident = invented("tcl-figure4", machine(2), ALL, of);
        assert_eq!(resident.panels[0].columns[2].values[0], Some(2.0));
        assert_eq!(resident.verdict("with one thread jemalloc needs least").0, Holds);
        assert_eq!(resident.verdict("with 128 threads jemalloc needs most").0, Holds);
        assert_eq!(resident.verdict("Freehold needs less").0, Holds);
        let mapped = invented("tcl-figure5", machine(2), ALL, of);
        assert_eq!(mapped.verdict("TCMalloc needs less address space").0, Holds);
    }
}
