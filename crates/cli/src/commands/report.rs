//! `freehold report`: stored results as tables, as a page for a browser, or in other forms.

use std::path::{Path, PathBuf};

use clap::Args;
use freehold_model::{Measured, Stored, to_json_line};
use freehold_report::{
    Detail, Shown, compare_failures, compare_markdown, compare_text, csv, failures, grid_failures,
    grid_markdown, grid_text, html, markdown, replay_failures, replay_markdown, replay_text,
    reproduction_markdown, reproduction_text, text, timeline_markdown, timeline_text,
};

use crate::exit::{Exit, Failure};
use crate::{stored, ui};

const EXAMPLES: &str = "\
Examples:
  freehold bench --json results.json
  freehold report results.json
  freehold report --details results.json
  freehold report --markdown results.json > results.md
  freehold report results.json -o report.html          one page for a browser, all within it
  freehold report replay.json -o replay.html           with memory over time
  freehold report shard-*.json -o whole.json           shards of a grid, or machines, made one
  freehold report shard-*.json -o whole.jsonl          a line for each run, for a data base
  freehold timeline --json run.json -- ./server && freehold report run.json -o threads.html
  freehold report monday.json tuesday.json -o all.csv  every number on a line of its own";

/// Show stored results again, without running anything
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Report {
    /// What `bench`, `compare`, `replay`, `reproduce` or `timeline` wrote with --json; - reads
    /// standard input. Grids are shown as one
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Write to this file, in the form that its ending names: .html, .md, .csv, .json, or .jsonl
    /// for a line of JSON with everything about each run of a grid
    #[arg(short, long, value_name = "FILE")]
    output: Option<String>,
    /// Show every case under every allocator, with spreads and waiting times
    #[arg(long)]
    details: bool,
    /// Print Markdown
    #[arg(long, conflicts_with = "output")]
    markdown: bool,
}

impl Report {
    pub(crate) fn execute(self) -> Result<Exit, Failure> {
        let documents = stored::documents(&self.files)?;
        let detail = if self.details { Detail::Full } else { Detail::Summary };
        match &self.output {
            Some(path) => save(path, &documents, detail)?,
            None if self.markdown => ui::print_raw(&all(&documents, detail, as_markdown))?,
            None => ui::print(&all(&documents, detail, as_text))?,
        }
        for warning in documents.iter().flat_map(warnings) {
            ui::warn(&warning);
        }
        Ok(Exit::Success)
    }
}

fn save(path: &str, documents: &[Shown], detail: Detail) -> Result<(), Failure> {
    let ending = Path::new(path).extension().unwrap_or_default().to_string_lossy().to_lowercase();
    match ending.as_str() {
        "html" | "htm" => ui::save(path, &html(documents)),
        "md" => ui::save(path, &all(documents, detail, as_markdown)),
        "csv" => {
            let series = results(documents, "CSV")?.into_iter().flat_map(Measured::series);
            ui::save(path, &csv(&series.collect::<Vec<_>>()))
        }
        "jsonl" => ui::save(path, &lines(documents)?),
        "json" => match stored::only(documents, "JSON")? {
            Shown::Results(Stored::Compare(document)) => ui::save_json(path, &**document),
            Shown::Results(Stored::Bench(document)) => ui::save_json(path, &**document),
            Shown::Results(Stored::Grid(document)) => ui::save_json(path, &**document),
            Shown::Results(Stored::Replay(document)) => ui::save_json(path, &**document),
            Shown::Results(Stored::Reproduction(document)) => ui::save_json(path, &**document),
            Shown::Timeline(timeline) => ui::save_json(path, &**timeline),
        },
        _ => {
            let message = format!("{path}: its ending names no form that a report has");
            Err(Failure::new(Exit::Usage, message).hint("use .html, .md, .csv, .json or .jsonl"))
        }
    }
}

/// The results of measurements, of which alone a form of this kind can be made.
fn results<'a>(documents: &'a [Shown], kind: &str) -> Result<Vec<&'a Stored>, Failure> {
    let results = documents.iter().map(|shown| match shown {
        Shown::Results(stored) => Ok(stored),
        Shown::Timeline(_) => {
            let message = format!("a timeline cannot be written as {kind}");
            Err(Failure::new(Exit::Usage, message).hint("name a file that ends in .html or .md"))
        }
    });
    results.collect()
}

/// A line for each run of the grid among the documents.
fn lines(documents: &[Shown]) -> Result<String, Failure> {
    let [Shown::Results(Stored::Grid(grid))] = documents else {
        let message = "only grids have runs that are written as lines";
        return Err(Failure::new(Exit::Usage, message).hint("name the results of bench HARNESS"));
    };
    let lines: Result<String, _> = grid.rows().map(|row| to_json_line(&row)).collect();
    lines.map_err(|error| Failure::error("cannot write JSON", &error))
}

fn all(documents: &[Shown], detail: Detail, each: fn(&Shown, Detail) -> String) -> String {
    documents.iter().map(|document| each(document, detail)).collect()
}

fn as_text(document: &Shown, detail: Detail) -> String {
    match document {
        Shown::Results(Stored::Compare(document)) => compare_text(document),
        Shown::Results(Stored::Bench(document)) => text(document, detail),
        Shown::Results(Stored::Grid(document)) => grid_text(document, detail),
        Shown::Results(Stored::Replay(document)) => replay_text(document),
        Shown::Results(Stored::Reproduction(document)) => reproduction_text(document),
        Shown::Timeline(timeline) => timeline_text(timeline),
    }
}

fn as_markdown(document: &Shown, detail: Detail) -> String {
    match document {
        Shown::Results(Stored::Compare(document)) => compare_markdown(document),
        Shown::Results(Stored::Bench(document)) => markdown(document, detail),
        Shown::Results(Stored::Grid(document)) => grid_markdown(document, detail),
        Shown::Results(Stored::Replay(document)) => replay_markdown(document),
        Shown::Results(Stored::Reproduction(document)) => reproduction_markdown(document),
        Shown::Timeline(timeline) => timeline_markdown(timeline),
    }
}

fn warnings(document: &Shown) -> Vec<String> {
    let (own, failed) = match document {
        Shown::Results(Stored::Compare(document)) => {
            (&document.warnings, compare_failures(document))
        }
        Shown::Results(Stored::Bench(document)) => (&document.warnings, failures(document)),
        Shown::Results(Stored::Grid(document)) => (&document.warnings, grid_failures(document)),
        Shown::Results(Stored::Replay(document)) => (&document.warnings, replay_failures(document)),
        // Failures are among the warnings of a reproduction.
        Shown::Results(Stored::Reproduction(document)) => (&document.warnings, Vec::new()),
        Shown::Timeline(_) => return Vec::new(),
    };
    own.iter().cloned().chain(failed).collect()
}
