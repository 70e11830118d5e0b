//! `freehold sizes`: which sizes a program asks for, how long objects live, and who frees them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use freehold_lab::trace::{Linear, sizes};
use freehold_report::weights;

use crate::attend::Attendant;
use crate::exit::{Exit, Failure};
use crate::recorder::{RecorderArgs, TraceArgs, scratch, unreadable};
use crate::ui::Ui;
use crate::{start, ui};

const EXAMPLES: &str = "\
Examples:
  freehold sizes freehold.trace
  freehold sizes -- python3 app.py              record a command, and show its sizes when it ends
  freehold sizes --linear 0,65536,4096 freehold.trace
  freehold sizes --weights sizes.txt freehold.trace
  freehold workload tcl-cells --distribution sizes.txt    draw sizes as this program did

The histograms are those of DTrace's quantize and lquantize: a row of the first holds the sizes
from its value to below twice that; a row of the second, from its value to below the next.";

/// Show which sizes a program asks for, how long objects live, and who frees them
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Sizes {
    /// What `freehold record` wrote
    #[arg(value_name = "FILE", required_unless_present = "command")]
    file: Option<PathBuf>,
    #[command(flatten)]
    trace: TraceArgs,
    /// The bounds and the width of a row of the linear histogram
    #[arg(long, value_name = "LOWER,UPPER,STEP", default_value = "0,16384,1024",
          value_parser = parse_linear)]
    linear: Linear,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write every size and how often it was asked for to this file, a line each; - prints it
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    weights: Option<String>,
    #[command(flatten)]
    recorder: RecorderArgs,
    /// Where the standard output of the command goes: null, inherit, or a file
    #[arg(long, value_name = "WHERE", default_value = "null", conflicts_with = "file")]
    output: String,
    /// Record this command, and show its sizes when it ends
    #[arg(last = true, conflicts_with = "file", value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// More rows than anybody reads.
const MOST_ROWS: u64 = 100_000;

fn parse_linear(text: &str) -> Result<Linear, String> {
    let numbers: Result<Vec<u64>, _> = text.split(',').map(str::parse).collect();
    let Ok([lower, upper, step]) = numbers.as_deref() else {
        return Err("must be three numbers, such as 0,16384,1024".to_owned());
    };
    let is_sound = *step > 0 && lower < upper && (upper - lower) / step < MOST_ROWS;
    if is_sound {
        Ok(Linear { lower: *lower, upper: *upper, step: *step })
    } else {
        Err(format!("the lower bound must be below the upper, with 1 to {MOST_ROWS} steps between"))
    }
}

impl Sizes {
    pub(crate) fn execute(self, ui: Ui) -> Result<Exit, Failure> {
        if let Some(path) = &self.weights {
            ui::check_writable(path)?;
        }
        match &self.file {
            Some(path) => self.show(path).map(|()| Exit::Success),
            None => self.record(ui),
        }
    }

    /// Records the command, shows what it did, and ends as it has ended.
    fn record(&self, ui: Ui) -> Result<Exit, Failure> {
        let output = start::standard_output(&self.output)?;
        let attendant = Attendant::begin()?;
        let (_directory, path) = scratch()?;
        let recorded = self.recorder.record(attendant, &self.command, &path, |command| {
            command.stdout(output);
        })?;
        ui.note(&format!("the command has ended: {}", recorded.status));
        self.show(&path)?;
        Ok(start::ended_as(recorded.status))
    }

    fn show(&self, path: &Path) -> Result<(), Failure> {
        let trace = self.trace.open(path)?;
        let process = self.trace.choose(&trace, path)?;
        let document =
            sizes(&trace, process, self.linear).map_err(|error| unreadable(path, &error))?;
        match &self.weights {
            Some(file) => ui::save(file, &weights(&document)),
            None if self.json => ui::print_json(&document),
            None => ui::print(&freehold_report::sizes(&document)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_three_numbers_with_rows_between() {
        assert_eq!(parse_linear("0,16384,1024"), Ok(Linear { lower: 0, upper: 16384, step: 1024 }));
        for text in ["", "1,2", "5,5,1", "0,10,0", "0,10,x", "0,99999999999,1"] {
            assert!(parse_linear(text).is_err(), "{text}");
        }
    }
}
