//! Tables of what was measured: time and memory of each program and harness under each allocator,
//! relative to the least.

use std::fmt::Write as _;

use serde_json::Value;

/// What is put into tables: its name there, and in the results.
const MEASURES: [(&str, &str); 4] = [
    ("Time", "wall"),
    ("Processor time", "cpu"),
    ("Peak of resident memory", "rss.peak"),
    ("Resident a second after everything was freed", "rss.settled"),
];

/// What a row is of, and what the means of such rows are called.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Program,
    Harness,
}

/// A program or harness, with its medians for each measure under each allocator; none where it
/// failed, or was not measured.
pub(crate) struct Row {
    name: String,
    kind: Kind,
    allocators: Vec<String>,
    medians: Vec<Vec<Option<f64>>>,
}

/// The names of the allocators in a result.
fn allocators(result: &Value) -> Option<Vec<String>> {
    let names = result["allocators"].as_array()?.iter();
    Some(names.filter_map(|it| it["name"].as_str()).map(str::to_owned).collect())
}

/// Reads what `freehold compare` has written of a program.
pub(crate) fn read(name: &str, result: &Value) -> Option<Row> {
    let mut row = Row::new(name, Kind::Program, allocators(result)?);
    for cell in result["summary"]["cells"].as_array()? {
        let median = |measure: &str| cell["measures"][measure]["median"]["estimate"].as_f64();
        row.fill(cell, |measure| match measure {
            "cpu" => processor_time(median),
            // A server has not freed everything when its load is done.
            "rss.settled" => None,
            _ => median(measure),
        })?;
    }
    Some(row)
}

/// Reads what `freehold bench` has written of harnesses, each a case.
pub(crate) fn read_grid(result: &Value) -> Option<Vec<Row>> {
    let allocators = allocators(result)?;
    let cases = result["plan"]["cases"].as_array()?.iter();
    let names = cases.map(|case| case["harness"].as_str());
    let mut rows = names
        .map(|name| Some(Row::new(name?, Kind::Harness, allocators.clone())))
        .collect::<Option<Vec<_>>>()?;
    let units: Vec<_> = (0..rows.len()).map(|case| unit(result, case)).collect();
    for cell in result["summary"]["cells"].as_array()? {
        let case = usize::try_from(cell["case"].as_u64()?).ok()?;
        let unit = *units.get(case)?;
        let median = |measure: &str| cell["measures"][measure]["median"].as_f64();
        rows[case].fill(cell, |measure| match (measure, unit) {
            ("wall", "seconds") => cell["metric"]["median"].as_f64(),
            ("wall", RATE) => cell["metric"]["median"].as_f64().map(f64::recip),
            // What runs for a set time takes as much of it as it can get; and some harnesses say
            // how much memory they took, and nothing of time.
            ("cpu", RATE) | ("wall", _) => None,
            ("cpu", _) => processor_time(median),
            _ => median(measure),
        })?;
    }
    Some(rows)
}

/// The unit of harnesses that say how much they did, some of which run for a set time.
const RATE: &str = "operations/s";

/// The unit of what a harness says.
fn unit(result: &Value, case: usize) -> &str {
    let of_case = |run: &&Value| run["case"].as_u64() == Some(case as u64);
    let runs = result["runs"].as_array().into_iter().flatten().filter(of_case);
    let mut units = runs.filter_map(|run| run["outcome"]["measured"]["metric"]["unit"].as_str());
    units.next().unwrap_or_default()
}

/// In user mode and in the kernel, of what tells the median of each.
fn processor_time(median: impl Fn(&str) -> Option<f64>) -> Option<f64> {
    median("user").zip(median("system")).map(|(user, system)| user + system)
}

impl Row {
    fn new(name: &str, kind: Kind, allocators: Vec<String>) -> Self {
        let medians = vec![vec![None; allocators.len()]; MEASURES.len()];
        Self { name: name.to_owned(), kind, allocators, medians }
    }

    /// Enters the medians of a cell, unless something failed there. `None` if it is not as
    /// expected.
    fn fill(&mut self, cell: &Value, median: impl Fn(&str) -> Option<f64>) -> Option<()> {
        let allocator = usize::try_from(cell["allocator"].as_u64()?).ok()?;
        if cell["failed"].as_u64()? > 0 {
            return Some(());
        }
        for (medians, (_, measure)) in self.medians.iter_mut().zip(MEASURES) {
            *medians.get_mut(allocator)? = median(measure).filter(|&number| number > 0.0);
        }
        Some(())
    }
}

/// A table for each measure. The last lines have geometric means over the programs, the harnesses,
/// and both that were measured under every allocator.
pub(crate) fn of(rows: &[Row]) -> String {
    let mut text = String::new();
    let Some(first) = rows.first() else { return text };
    let names = &first.allocators;
    for (n, (title, _)) in MEASURES.iter().enumerate() {
        let measured = |row: &&Row| row.medians[n].iter().any(Option::is_some);
        let of_row = |row: &Row| (row.name.clone(), row.kind, ratios(&row.medians[n]));
        let ratios: Vec<_> = rows.iter().filter(measured).map(of_row).collect();
        let _ = writeln!(text, "{title}, relative to the least\n");
        let _ = writeln!(text, "| program | {} |", names.join(" | "));
        let _ = writeln!(text, "|---|{}", "---:|".repeat(names.len()));
        for (name, _, ratios) in &ratios {
            let cells =
                ratios.iter().map(|it| it.map_or("–".to_owned(), |it| format!("{it:.2}")));
            let _ = writeln!(text, "| {name} | {} |", cells.collect::<Vec<_>>().join(" | "));
        }
        let all = [Kind::Program, Kind::Harness];
        for (what, kinds) in [("programs", &all[..1]), ("harnesses", &all[1..]), ("all", &all)] {
            let some = ratios.iter().filter(|(_, kind, _)| kinds.contains(kind));
            let whole: Vec<Vec<f64>> =
                some.filter_map(|(_, _, it)| it.iter().copied().collect()).collect();
            if whole.is_empty() {
                continue;
            }
            let means =
                (0..names.len()).map(|n| format!("{:.2}", mean(whole.iter().map(|it| it[n]))));
            let means = means.collect::<Vec<_>>().join(" | ");
            let _ = writeln!(text, "| **geometric mean of {what}, {}** | {means} |", whole.len());
        }
        text.push('\n');
    }
    text
}

/// Numbers relative to the least of them.
fn ratios(numbers: &[Option<f64>]) -> Vec<Option<f64>> {
    let least = numbers.iter().flatten().copied().fold(f64::INFINITY, f64::min);
    numbers.iter().map(|number| number.map(|number| number / least)).collect()
}

/// The geometric mean.
fn mean(numbers: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = numbers.len() as f64;
    (numbers.map(f64::ln).sum::<f64>() / count).exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn cell(allocator: usize, failed: usize, wall: f64, peak: f64) -> Value {
        let median = |number: f64| json!({"median": {"estimate": number}});
        json!({"allocator": allocator, "failed": failed, "measures": {
            "wall": median(wall), "user": median(wall / 2.0), "system": median(wall / 2.0),
            "rss.peak": median(peak)}})
    }

    fn row(name: &str, cells: &[Value]) -> Row {
        let result = json!({"allocators": [{"name": "a"}, {"name": "b"}],
            "summary": {"cells": cells}});
        read(name, &result).expect("as expected")
    }

    #[test]
    fn numbers_are_relative_to_the_least_and_means_leave_out_what_failed_somewhere() {
        let rows = [
            row("p", &[cell(0, 0, 2.0, 30.0), cell(1, 0, 1.0, 60.0)]),
            row("q", &[cell(0, 0, 8.0, 10.0), cell(1, 0, 1.0, 10.0)]),
            row("r", &[cell(0, 0, 5.0, 10.0), cell(1, 1, 1.0, 10.0)]),
        ];
        let text = of(&rows);
        let time = text.split("Processor time").next().expect("first");
        assert!(time.contains("| p | 2.00 | 1.00 |"), "{text}");
        assert!(time.contains("| r | 1.00 | – |"), "{text}");
        assert!(time.contains("| **geometric mean of programs, 2** | 4.00 | 1.00 |"), "{text}");
        let peak = text.split("Peak").nth(1).expect("third");
        assert!(peak.contains("| **geometric mean of programs, 2** | 1.00 | 1.41 |"), "{text}");
    }

    #[test]
    fn of_harnesses_time_is_what_they_say_of_time_for_each_thing_done() {
        let cell = |case: usize, allocator: usize, metric: f64| {
            let median = json!({"median": metric});
            json!({"case": case, "allocator": allocator, "failed": 0, "metric": median,
                "measures": {"user": median, "system": median, "rss.peak": median,
                    "rss.settled": median}})
        };
        let run = |case: usize, unit: &str| {
            let measured = json!({"metric": {"unit": unit}});
            json!({"case": case, "outcome": {"measured": measured}})
        };
        let names = ["time", "rate", "memory"].map(|name| json!({"harness": name}));
        let units = ["seconds", "operations/s", "resident/requested"];
        let runs: Vec<_> = units.iter().enumerate().map(|(n, unit)| run(n, unit)).collect();
        let result = json!({"allocators": [{"name": "a"}, {"name": "b"}],
            "plan": {"cases": names}, "runs": runs,
            "summary": {"cells": [cell(0, 0, 1.0), cell(0, 1, 2.0), cell(1, 0, 1.0),
                cell(1, 1, 8.0), cell(2, 0, 1.0), cell(2, 1, 3.0)]}});
        let mut program = super::tests::cell(0, 0, 1.0, 1.0);
        program["measures"]["rss.settled"] = json!({"median": {"estimate": 1.0}});
        let mut rows = vec![row("p", &[program])];
        rows.extend(read_grid(&result).expect("as expected"));
        let text = of(&rows);
        let tables: Vec<_> = text.split("relative to the least").collect();
        assert!(tables[1].contains("| time | 1.00 | 2.00 |"), "{text}");
        assert!(tables[1].contains("| rate | 8.00 | 1.00 |"), "{text}");
        assert!(!tables[1].contains("| memory |"), "{text}");
        assert!(tables[1].contains("| **geometric mean of harnesses, 2** | 2.83 | 1.41 |"));
        assert!(tables[1].contains("| **geometric mean of all, 2** |"), "p failed under b: {text}");
        assert!(tables[2].contains("| memory | 1.00 | 3.00 |") && !tables[2].contains("| rate |"));
        assert!(tables[4].contains("| rate | 1.00 | 8.00 |") && !tables[4].contains("| p |"));
    }
}
