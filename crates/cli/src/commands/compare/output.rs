//! Where the results of a comparison go.

use clap::Args;
use freehold_model::{CompareDocument, Measured};
use freehold_report::{compare_failures, compare_markdown, compare_text, csv};

use crate::exit::Failure;
use crate::ui;

/// Where results go besides the terminal, and what is left out of them.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(super) struct Output {
    /// Write everything that was measured, with its provenance, to this file; - prints it
    #[arg(long, value_name = "FILE")]
    json: Option<String>,
    /// Write the tables as Markdown to this file; - prints them
    #[arg(long, value_name = "FILE")]
    markdown: Option<String>,
    /// Write every number on a line of its own to this file; - prints them
    #[arg(long, value_name = "FILE")]
    csv: Option<String>,
    /// Hide this text wherever results would show it; passwords in options, variables and
    /// addresses are hidden anyway; may be given more than once
    #[arg(long, value_name = "TEXT")]
    pub(super) redact: Vec<String>,
}

impl Output {
    fn files(&self) -> Vec<&str> {
        [&self.json, &self.markdown, &self.csv].into_iter().flatten().map(String::as_str).collect()
    }

    /// Makes sure before the first run that results will find their place.
    pub(super) fn check(&self) -> Result<(), Failure> {
        ui::check_places(&self.files())
    }

    /// Shows and stores results. What goes to standard output for machines goes there alone.
    pub(super) fn publish(&self, document: &CompareDocument) -> Result<(), Failure> {
        if !self.files().contains(&ui::STANDARD_OUTPUT) {
            ui::print(&compare_text(document))?;
        }
        for warning in document.warnings.iter().chain(&compare_failures(document)) {
            ui::warn(warning);
        }
        if let Some(path) = &self.json {
            ui::save_json(path, document)?;
        }
        if let Some(path) = &self.markdown {
            ui::save(path, &compare_markdown(document))?;
        }
        if let Some(path) = &self.csv {
            ui::save(path, &csv(&document.series()))?;
        }
        Ok(())
    }
}
