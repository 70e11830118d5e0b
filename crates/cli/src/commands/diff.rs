//! `freehold diff`: two stored results beside each other, with rules for continuous integration.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use freehold_lab::diff::{Changes, Rule, RuleError, changes, check, discrepancies};
use freehold_lab::statistics::{CLAIM_LEVEL, fewest_each};
use freehold_model::{DiffDocument, MEASURES, Measured, RuleOutcome, Side, Stored};
use freehold_report::{DiffDetail, diff_markdown, diff_text};

use crate::exit::{Exit, Failure};
use crate::{advice, suggest, ui};

const EXAMPLES: &str = "\
Examples:
  freehold compare -a freehold --json before.json -- ./batch    and, after a change, after.json
  freehold diff before.json after.json
  freehold diff --label main,branch --markdown comment.md before.json after.json
  freehold diff --fail-if 'rss.peak > +5%' --fail-if 'wall > +10%' before.json after.json
  freehold diff --fail-if 'freehold:speed < -5%' before.json after.json

Results are those that compare and bench write with --json. What both have is matched by case,
allocator and measure. A rule is broken when a change beyond its limit is shown at 99 %
confidence; it needs 5 runs on both sides or more.

Measures: wall, speed, user, system, rss.peak, rss.mean, rss.freed, rss.settled, rss.return,
faults.minor, faults.major, switches.voluntary, switches.involuntary (docs/compare.md).

Exit status:
  0  no rule is broken
  1  a result cannot be read
  2  a rule cannot be understood, or is about nothing that the earlier result has
  3  a rule is broken
  4  no rule is broken, but the measurements are too few, too noisy or 0 to tell of one";

/// Show what changed from one stored result to another, and fail if it is too much
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Diff {
    /// The earlier result
    before: PathBuf,
    /// The later result
    after: PathBuf,
    /// Exit with 3 if this comes true, such as 'rss.peak > +5%' or 'freehold:speed < -5%'; may be
    /// given more than once
    #[arg(long, value_name = "RULE")]
    fail_if: Vec<String>,
    /// What to call the two
    #[arg(long, value_name = "BEFORE,AFTER", value_delimiter = ',', num_args = 1)]
    label: Vec<String>,
    /// Show every measure, not only time, speed and memory
    #[arg(long)]
    all: bool,
    /// Write everything to this file as JSON; - prints it
    #[arg(long, value_name = "FILE")]
    json: Option<String>,
    /// Write the table as Markdown to this file, as for a comment; - prints it
    #[arg(long, value_name = "FILE")]
    markdown: Option<String>,
}

impl Diff {
    pub(crate) fn execute(self) -> Result<Exit, Failure> {
        let rules: Result<Vec<Rule>, Failure> =
            self.fail_if.iter().map(|text| rule(text)).collect();
        let rules = rules?;
        let places: Vec<&str> =
            [&self.json, &self.markdown].into_iter().flatten().map(String::as_str).collect();
        ui::check_places(&places)?;
        let (before, after) = (read(&self.before)?, read(&self.after)?);
        let document = self.document(&before, &after, &rules)?;
        self.publish(&document, &places)?;
        let worst = document.rules.iter().map(|check| check.outcome).max();
        Ok(match worst {
            Some(RuleOutcome::Broken) => Exit::RuleBroken,
            Some(RuleOutcome::NotEnoughEvidence) => Exit::NotEnoughEvidence,
            Some(RuleOutcome::Kept) | None => Exit::Success,
        })
    }

    fn document(
        &self,
        before: &Stored,
        after: &Stored,
        rules: &[Rule],
    ) -> Result<DiffDocument, Failure> {
        let found = changes(&before.series(), &after.series());
        for rule in rules {
            if !rule.concerns_any(&found) {
                return Err(about_nothing(rule, &found.changes));
            }
        }
        let checks = check(rules, &found);
        let Changes { changes, gone, new, .. } = found;
        let (first, second) = self.labels()?;
        let only = |label: &str, names: Vec<String>| {
            let label = label.to_owned();
            names.into_iter().map(move |name| advice::only_in(&label, &name))
        };
        let mut warnings: Vec<String> = discrepancies(before, after)
            .iter()
            .map(|found| advice::discrepancy(found, &first, &second))
            .collect();
        let needed = fewest_each(CLAIM_LEVEL) as u32;
        if changes.iter().any(|own| own.runs_before.min(own.runs_after) < needed) {
            warnings.push(advice::few_runs(needed));
        }
        Ok(DiffDocument {
            level: CLAIM_LEVEL,
            rules: checks,
            unmatched: only(&first, gone).chain(only(&second, new)).collect(),
            before: side(&first, before),
            after: side(&second, after),
            changes,
            warnings,
        })
    }

    /// What the two are called.
    fn labels(&self) -> Result<(String, String), Failure> {
        match self.label.as_slice() {
            [] => Ok((self.before.display().to_string(), self.after.display().to_string())),
            [before, after] => Ok((before.clone(), after.clone())),
            _ => Err(Failure::new(Exit::Usage, "--label takes two names: BEFORE,AFTER")),
        }
    }

    fn publish(&self, document: &DiffDocument, places: &[&str]) -> Result<(), Failure> {
        let detail = if self.all { DiffDetail::Everything } else { DiffDetail::Headlines };
        if !places.contains(&ui::STANDARD_OUTPUT) {
            ui::print(&diff_text(document, detail))?;
        }
        for warning in document.warnings.iter().chain(&document.unmatched) {
            ui::warn(warning);
        }
        if let Some(path) = &self.json {
            ui::save_json(path, document)?;
        }
        if let Some(path) = &self.markdown {
            ui::save(path, &diff_markdown(document, detail))?;
        }
        Ok(())
    }
}

fn read(path: &PathBuf) -> Result<Stored, Failure> {
    let name = path.display();
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::error(format!("cannot read {name}"), &error))?;
    Stored::from_json(&text).map_err(|error| Failure::error(name.to_string(), &error))
}

fn side(label: &str, stored: &Stored) -> Side {
    let provenance = stored.provenance();
    Side {
        label: label.to_owned(),
        started: provenance.map(|own| own.started.clone()).unwrap_or_default(),
        tool_version: provenance.map(|own| own.tool_version.clone()).unwrap_or_default(),
    }
}

fn rule(text: &str) -> Result<Rule, Failure> {
    Rule::parse(text).map_err(|error| {
        let failure = Failure::new(Exit::Usage, format!("{text}: {error}"));
        let RuleError::UnknownMeasure { name } = &error else { return failure };
        let names = || MEASURES.iter().map(|measure| measure.name);
        match suggest::closest(name, names()) {
            Some(close) => failure.hint(format!("did you mean \"{close}\"?")),
            None => failure.hint(format!("they are {}", names().collect::<Vec<_>>().join(", "))),
        }
    })
}

/// A rule that is about nothing: a slip that must not look like success.
fn about_nothing(rule: &Rule, changes: &[freehold_model::Change]) -> Failure {
    let mut there: Vec<String> =
        changes.iter().map(|change| format!("{}:{}", change.allocator, change.measure)).collect();
    there.sort_unstable();
    there.dedup();
    let message = format!("{rule}: the results have nothing that this is about");
    Failure::new(Exit::Usage, message).hint(format!("both have {}", there.join(", ")))
}
