//! `freehold allocators`: which allocators are on this machine.

use std::path::PathBuf;

use clap::Args;

use crate::catalogue::Catalogue;
use crate::exit::{Exit, Failure};
use crate::ui;

const EXAMPLES: &str = "\
Examples:
  freehold allocators
  freehold allocators ./target/release/libmine.so   look at this library too
  freehold allocators --search /opt/alloc/lib       look in this directory too
  freehold allocators --json | jq -r '.found[] | .name + \" \" + .library.sha256'

Exit status: 5 when a library that was given is not an allocator.";

/// List the allocators found on this machine, and how to get the others
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Allocators {
    /// Libraries to look at besides, or names of allocators that must be there
    #[arg(value_name = "LIBRARY")]
    libraries: Vec<String>,
    /// Look in this directory first; may be given more than once
    #[arg(long, value_name = "DIRECTORY")]
    search: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Allocators {
    pub(crate) fn execute(self) -> Result<Exit, Failure> {
        let list = Catalogue::new(&self.search)?.list(&self.libraries)?;
        if self.json {
            ui::print_json(&list)?;
        } else {
            ui::print(&freehold_report::allocators(&list))?;
        }
        Ok(Exit::Success)
    }
}
