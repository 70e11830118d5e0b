//! What of each kind of document is on the page.

use freehold_model::{
    BenchDocument, CompareDocument, GridDocument, HarnessRun, Outcome, PairsRun, Purpose,
    ReplayDocument, ReplayOutcome, Reproduction, Stored, Timeline, TrialOutcome,
};

use super::chart::{Chart, Curve};
use super::curves::{Meaning, Number, charts, timeline};
use super::intervals::{self, Row};
use super::{Article, Part, lanes};
use crate::bench::{self, Detail};
use crate::{
    compare, compare_failures, failures, grid, grid_failures, replay, replay_failures, reproduce,
    tables,
};

const MIB: f64 = 1_048_576.0;

/// What is shown of a document.
pub(super) fn article(document: &Stored) -> Article {
    match document {
        Stored::Compare(document) => of_comparison(document),
        Stored::Bench(document) => of_bench(document),
        Stored::Grid(document) => of_grid(document),
        Stored::Replay(document) => of_replay(document),
        Stored::Reproduction(document) => of_reproduction(document),
    }
}

/// Words and tables: its figures are bars and lines of characters, as on a terminal.
fn of_reproduction(document: &Reproduction) -> Article {
    let sections = reproduce::sections(document).into_iter().map(Part::Section);
    let parts = warnings(&document.warnings, Vec::new()).into_iter().chain(sections);
    Article { heading: document.name.clone(), parts: parts.collect() }
}

/// What is shown of a timeline, which is the `number`-th on the page.
pub(super) fn of_timeline(timeline: &Timeline, number: usize) -> Article {
    let heading = "Threads over time".to_owned();
    let drawing = Part::Lanes { heading, html: lanes::html(timeline, number) };
    let section = Part::Section(crate::timeline::section(timeline));
    Article { heading: timeline.subject.join(" "), parts: vec![drawing, section] }
}

fn drawn(charts: &[Chart]) -> Vec<String> {
    charts.iter().map(Chart::html).collect()
}

fn figures(heading: &str, drawings: Vec<String>) -> Option<Part> {
    let heading = heading.to_owned();
    (!drawings.is_empty()).then_some(Part::Figures { heading, drawings })
}

fn warnings(own: &[String], failures: Vec<String>) -> Option<Part> {
    let all: Vec<String> = own.iter().cloned().chain(failures).collect();
    (!all.is_empty()).then_some(Part::Warnings(all))
}

fn of_bench(document: &BenchDocument) -> Article {
    let names: Vec<String> = document.allocators.iter().map(|own| own.name.clone()).collect();
    let numbers = |value: fn(&freehold_model::CellSummary) -> Option<f64>| -> Vec<Number> {
        let cells = tables::cases(document, Purpose::Speed).flat_map(|(_, cells)| cells);
        cells
            .filter_map(|cell| {
                let params = &document.plan.cases[cell.case].params;
                Some(Number {
                    threads: u64::from(params.pairs),
                    size: Some(u64::from(params.max_bytes)),
                    allocator: cell.allocator,
                    value: value(cell)?,
                })
            })
            .collect()
    };
    let of = |subject, label, value| {
        let meaning = Meaning { subject, label, threads: "pairs", allocators: &names };
        drawn(&charts(&numbers(value), meaning))
    };
    let speed = of("Speed", "loops/s", |cell| cell.loops_per_second.map(|own| own.median));
    let memory = of("Peak memory", "MiB", |cell| cell.peak_rss.map(|own| own.median / MIB));
    let ratios = document.summary.overall.iter().map(|own| Row {
        name: names[own.allocator].clone(),
        look: own.allocator,
        ratio: own.ratio,
    });
    let reference = names.get(document.summary.reference).cloned().unwrap_or_default();
    let title = format!("Speed relative to {reference}: right is faster");
    let ratios = intervals::html(&title, &ratios.collect::<Vec<_>>());
    let sections = bench::sections(document, Detail::Full);
    let parts = [
        warnings(&document.warnings, failures(document)),
        figures("Ratios", ratios.into_iter().collect()),
        figures("Speed", speed),
        figures("Memory", memory),
        figures("Memory over time", drawn(&bench_timelines(document))),
    ];
    let parts = parts.into_iter().flatten().chain(sections.into_iter().map(Part::Section));
    Article { heading: "pairs".to_owned(), parts: parts.collect() }
}

/// Resident memory over time of the first run of each case and allocator that took samples.
fn bench_timelines(document: &BenchDocument) -> Vec<Chart> {
    let charts = (0..document.plan.cases.len()).filter_map(|case| {
        let params = &document.plan.cases[case].params;
        let own = document.runs.iter().filter(|run| run.case == case && run.round == 0);
        let curves = own.filter_map(|run| match &run.outcome {
            Outcome::Measured(measured) => {
                let name = document.allocators[run.allocator].name.clone();
                Some(Curve { name, look: run.allocator, points: samples(measured) })
            }
            Outcome::Failed(_) => None,
        });
        let title = format!("{} pairs, size {}", params.pairs, params.max_bytes);
        timeline(&title, "MiB", curves.collect())
    });
    charts.collect()
}

fn samples(run: &PairsRun) -> Vec<(f64, f64)> {
    run.samples.iter().map(|own| (own.end_seconds, own.rss_bytes as f64 / MIB)).collect()
}

fn of_comparison(document: &CompareDocument) -> Article {
    let names: Vec<String> = document.allocators.iter().map(|own| own.name.clone()).collect();
    let reference = names.get(document.summary.reference).cloned().unwrap_or_default();
    let ratios = |measure: &str, title: &str| {
        let rows = document.summary.cells.iter().filter_map(|cell| {
            let name = format!("{} {}", names[cell.allocator], document.plan.case_name(cell.case));
            Some(Row { name, look: cell.allocator, ratio: cell.measures.get(measure)?.ratio? })
        });
        intervals::html(&format!("{title} relative to {reference}"), &rows.collect::<Vec<_>>())
    };
    let drawings = [ratios("wall", "Time"), ratios("rss.peak", "Peak memory")];
    let parts = [
        warnings(&document.warnings, compare_failures(document)),
        figures("Ratios: right is more", drawings.into_iter().flatten().collect()),
        figures("Memory over time", drawn(&comparison_timelines(document))),
    ];
    let sections = compare::sections(document).into_iter().map(Part::Section);
    Article {
        heading: document.plan.command.join(" "),
        parts: parts.into_iter().flatten().chain(sections).collect(),
    }
}

/// Resident memory over time in the first round of each case.
fn comparison_timelines(document: &CompareDocument) -> Vec<Chart> {
    let charts = (0..document.plan.cases.len()).filter_map(|case| {
        let own = document.trials.iter().filter(|own| own.case == case && own.round == Some(0));
        let curves = own.filter_map(|trial| match &trial.outcome {
            TrialOutcome::Measured(run) => {
                let name = document.allocators[trial.allocator].name.clone();
                let points = run.curve.iter().map(|own| (own.seconds, own.rss_bytes as f64 / MIB));
                Some(Curve { name, look: trial.allocator, points: points.collect() })
            }
            TrialOutcome::Failed(_) => None,
        });
        let name = document.plan.case_name(case);
        let title = if name.is_empty() { "memory" } else { &name };
        timeline(title, "MiB", curves.collect())
    });
    charts.collect()
}

fn of_grid(document: &GridDocument) -> Article {
    let mut parts: Vec<Part> =
        warnings(&document.warnings, grid_failures(document)).into_iter().collect();
    parts.extend(figures("Ratios", grid_ratios(document)));
    for harness in grid::harnesses(document) {
        let title = format!("{harness}: curves");
        parts.extend(figures(&title, grid_curves(document, harness)));
    }
    parts.extend(grid::sections(document, Detail::Full).into_iter().map(Part::Section));
    Article { heading: grid::harnesses(document).join(", "), parts }
}

fn grid_ratios(document: &GridDocument) -> Vec<String> {
    let name = |harness: Option<&str>, allocator: usize| {
        format!("{}, {}", harness.unwrap_or("all"), document.allocators[allocator].name)
    };
    let overall = &document.summary.overall;
    let rows = |of: fn(&freehold_model::GridOverall) -> Option<(u32, freehold_model::Interval)>| {
        let rows = overall.iter().filter_map(|own| {
            let (_, ratio) = of(own)?;
            let name = name(own.harness.as_deref(), own.allocator);
            Some(Row { name, look: own.allocator, ratio })
        });
        rows.collect::<Vec<_>>()
    };
    let reference = document.allocators.get(document.summary.reference);
    let reference = reference.map(|own| own.name.as_str()).unwrap_or_default();
    let speed = format!("Speed relative to {reference}: right is faster");
    let peak = format!("Peak memory relative to {reference}: right is more");
    let drawings = [
        intervals::html(&speed, &rows(|own| own.speed)),
        intervals::html(&peak, &rows(|own| own.peak)),
    ];
    drawings.into_iter().flatten().collect()
}

fn grid_curves(document: &GridDocument, harness: &str) -> Vec<String> {
    let Some(metric) = document.metric(harness) else { return Vec::new() };
    let names: Vec<String> = document.allocators.iter().map(|own| own.name.clone()).collect();
    let numbers = |value: &dyn Fn(&freehold_model::GridCell) -> Option<f64>| -> Vec<Number> {
        let cells =
            grid::cases(document, harness).flat_map(|(case, _)| grid::cells(document, case));
        cells
            .filter_map(|cell| {
                let case = &document.plan.cases[cell.case];
                let (threads, size, allocator) = (case.threads, case.size, cell.allocator);
                Some(Number { threads, size, allocator, value: value(cell)? })
            })
            .collect()
    };
    let of = |subject: &str, label: &str, value: &dyn Fn(&_) -> Option<f64>| {
        let meaning = Meaning { subject, label, threads: "threads", allocators: &names };
        charts(&numbers(value), meaning)
    };
    let mut all = of(&metric.name, &metric.unit, &|cell| cell.metric.map(|own| own.median));
    all.extend(of("peak memory", "MiB", &|cell| cell.median("rss.peak").map(|own| own / MIB)));
    all.extend(of("memory after free", "MiB", &|cell| {
        cell.median("rss.settled").map(|own| own / MIB)
    }));
    all.extend(grid_timeline(document, harness));
    drawn(&all)
}

/// Resident memory over time in the last case, which has the most threads, under each allocator.
fn grid_timeline(document: &GridDocument, harness: &str) -> Option<Chart> {
    let (last, _) = grid::cases(document, harness).last()?;
    let mut curves: Vec<Curve> = Vec::new();
    for run in document.runs.iter().filter(|run| run.case == last) {
        if let Some(measured) = run.measured()
            && curves.iter().all(|curve| curve.look != run.allocator)
        {
            let name = document.allocators[run.allocator].name.clone();
            curves.push(Curve { name, look: run.allocator, points: readings(measured) });
        }
    }
    curves.sort_by_key(|curve| curve.look);
    timeline(&format!("memory over time, {}", document.plan.name(last)), "MiB", curves)
}

fn readings(run: &HarnessRun) -> Vec<(f64, f64)> {
    run.timeline.iter().map(|own| (own.at_seconds, own.rss_bytes as f64 / MIB)).collect()
}

fn of_replay(document: &ReplayDocument) -> Article {
    let name = |allocator: usize| document.allocators[allocator].name.clone();
    let others = document.summary.iter().filter(|own| own.allocator != document.reference);
    let ratios = others.filter_map(|own| {
        Some(Row { name: name(own.allocator), look: own.allocator, ratio: own.ratio? })
    });
    let title = format!("Processor time relative to {}: right is slower", name(document.reference));
    let ratios = intervals::html(&title, &ratios.collect::<Vec<_>>());
    let parts = [
        warnings(&document.warnings, replay_failures(document)),
        figures("Ratios", ratios.into_iter().collect()),
        figures("Memory over time", drawn(replay_timeline(document).as_slice())),
        Some(Part::Section(replay::section(document))),
    ];
    Article { heading: replay::heading(document), parts: parts.into_iter().flatten().collect() }
}

/// Resident memory over time in the first run under each allocator, over the bytes alive.
fn replay_timeline(document: &ReplayDocument) -> Option<Chart> {
    let measured = (0..document.allocators.len()).filter_map(|allocator| {
        let mut own = document.runs.iter().filter(|run| run.allocator == allocator);
        own.find_map(|run| match &run.outcome {
            ReplayOutcome::Measured(measured) => Some((allocator, measured)),
            ReplayOutcome::Failed(_) => None,
        })
    });
    let mut curves = Vec::new();
    for (look, run) in measured {
        let points = |bytes: &dyn Fn(&freehold_model::Reading) -> f64| {
            run.timeline.iter().map(|own| (own.at_seconds, bytes(own) / MIB)).collect()
        };
        let name = document.allocators[look].name.clone();
        curves.push(Curve { name, look, points: points(&|own| run.beyond(own.rss_bytes)) });
        if look == document.reference {
            let (name, look) = (format!("alive, under {}", curves[curves.len() - 1].name), 0);
            let look = look + document.allocators.len();
            curves.push(Curve { name, look, points: points(&|own| own.live_bytes as f64) });
        }
    }
    timeline("Resident memory over time", "MiB", curves)
}
