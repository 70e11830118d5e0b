//! `freehold report`: the tables of a stored benchmark.

use std::fs;
use std::io::{self, Read};
use std::path::PathBuf;

use clap::Args;
use freehold_model::{BenchDocument, from_json};
use freehold_report::{Detail, failures, markdown, text};

use crate::exit::{Exit, Failure};
use crate::ui;

const EXAMPLES: &str = "\
Examples:
  freehold bench --json results.json
  freehold report results.json
  freehold report --details results.json
  freehold report --markdown results.json > results.md";

/// Show a stored benchmark again, without running anything
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Report {
    /// What `bench --json` wrote; - reads standard input
    file: PathBuf,
    /// Show every case under every allocator, with spreads and waiting times
    #[arg(long)]
    details: bool,
    /// Print Markdown
    #[arg(long)]
    markdown: bool,
}

impl Report {
    pub(crate) fn execute(self) -> Result<Exit, Failure> {
        let name = self.file.display();
        let stored =
            self.read().map_err(|error| Failure::error(format!("cannot read {name}"), &error))?;
        let document: BenchDocument =
            from_json(&stored).map_err(|error| Failure::error(name.to_string(), &error))?;
        let detail = if self.details { Detail::Full } else { Detail::Summary };
        if self.markdown {
            ui::print_raw(&markdown(&document, detail))?;
        } else {
            ui::print(&text(&document, detail))?;
        }
        for warning in document.warnings.iter().chain(&failures(&document)) {
            ui::warn(warning);
        }
        Ok(Exit::Success)
    }

    fn read(&self) -> io::Result<String> {
        if self.file.as_os_str() != "-" {
            return fs::read_to_string(&self.file);
        }
        let mut text = String::new();
        io::stdin().read_to_string(&mut text)?;
        Ok(text)
    }
}
