//! The `freehold` command: runs programs under an allocator, tells which allocator a process
//! uses, finds the allocators of a machine, and measures them against each other.
//!
//! `main` reads as a sentence. Each subcommand is one file in `commands`, definition and all;
//! texts that advise are in `advice`, exit statuses in `exit`.
#![forbid(unsafe_code)]

mod advice;
mod args;
mod asker;
mod attend;
mod catalogue;
mod commands;
mod counter;
mod exit;
mod interrupt;
mod progress;
mod provenance;
mod recorder;
mod screen;
mod start;
mod stored;
mod subject;
mod suggest;
mod ui;

use std::process::ExitCode;

use clap::Parser;

use crate::args::Cli;
use crate::exit::Exit;
use crate::ui::Ui;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let ui = Ui::new(&cli.global);
    let exit = cli.command.run(ui).unwrap_or_else(|failure| ui::explain(&failure));
    end(exit)
}

/// Ends the program with this status, or by the same signal as a command that ended by one.
fn end(exit: Exit) -> ExitCode {
    if let Exit::Signal(signal) = exit {
        attend::end_by(signal);
    }
    ExitCode::from(exit.code())
}
