//! Tables of what was measured: time and peak memory of each program under each allocator,
//! relative to the least.

use std::fmt::Write as _;

use serde_json::Value;

/// What is put into tables: its name there, and in the results.
const MEASURES: [(&str, &str); 3] =
    [("Time", "wall"), ("Processor time", "cpu"), ("Peak of resident memory", "rss.peak")];

/// A program, with its medians for each measure under each allocator; none where it failed, or was
/// not measured.
pub(crate) struct Row {
    name: String,
    allocators: Vec<String>,
    medians: Vec<Vec<Option<f64>>>,
}

/// Reads what `freehold compare` has written of a program.
pub(crate) fn read(name: &str, result: &Value) -> Option<Row> {
    let names = result["allocators"].as_array()?.iter();
    let allocators: Vec<_> =
        names.filter_map(|it| it["name"].as_str()).map(str::to_owned).collect();
    let mut medians = vec![vec![None; allocators.len()]; MEASURES.len()];
    for cell in result["summary"]["cells"].as_array()? {
        let allocator = usize::try_from(cell["allocator"].as_u64()?).ok()?;
        if cell["failed"].as_u64()? > 0 {
            continue;
        }
        let median = |measure: &str| cell["measures"][measure]["median"]["estimate"].as_f64();
        for (medians, (_, measure)) in medians.iter_mut().zip(MEASURES) {
            let number = if measure == "cpu" {
                median("user").zip(median("system")).map(|(user, system)| user + system)
            } else {
                median(measure)
            };
            *medians.get_mut(allocator)? = number.filter(|&number| number > 0.0);
        }
    }
    Some(Row { name: name.to_owned(), allocators, medians })
}

/// A table for each measure. The last line has geometric means over the programs that were measured
/// under every allocator.
pub(crate) fn of(rows: &[Row]) -> String {
    let mut text = String::new();
    let Some(first) = rows.first() else { return text };
    let names = &first.allocators;
    for (n, (title, _)) in MEASURES.iter().enumerate() {
        let _ = writeln!(text, "{title}, relative to the least\n");
        let _ = writeln!(text, "| program | {} |", names.join(" | "));
        let _ = writeln!(text, "|---|{}", "---:|".repeat(names.len()));
        let ratios: Vec<_> = rows.iter().map(|row| (&row.name, ratios(&row.medians[n]))).collect();
        for (name, ratios) in &ratios {
            let cells =
                ratios.iter().map(|it| it.map_or("–".to_owned(), |it| format!("{it:.2}")));
            let _ = writeln!(text, "| {name} | {} |", cells.collect::<Vec<_>>().join(" | "));
        }
        let whole: Vec<Vec<f64>> =
            ratios.iter().filter_map(|(_, it)| it.iter().copied().collect()).collect();
        let means = (0..names.len()).map(|n| format!("{:.2}", mean(whole.iter().map(|it| it[n]))));
        let means = means.collect::<Vec<_>>().join(" | ");
        let _ = writeln!(text, "| **geometric mean of {}** | {means} |\n", whole.len());
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
        assert!(time.contains("| **geometric mean of 2** | 4.00 | 1.00 |"), "{text}");
        let peak = text.split("Peak").nth(1).expect("last");
        assert!(peak.contains("| **geometric mean of 2** | 1.00 | 1.41 |"), "{text}");
    }
}
