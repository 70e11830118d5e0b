//! `freehold timeline`: where each thread's time goes over the whole of a run, as a picture.

use std::time::Duration;

use clap::Args;
use freehold_model::Timeline as Recorded;
use freehold_observe::timeline::Recorder;
use freehold_report::{provenance, timeline_svg};

use crate::args::parse_positive_seconds;
use crate::exit::{Exit, Failure};
use crate::subject::SubjectArgs;
use crate::ui::{self, STANDARD_OUTPUT, Ui};

const EXAMPLES: &str = "\
Examples:
  freehold timeline --svg run.svg -- ./server --bench
  freehold timeline --seconds 60 -p $(pgrep -n server) > run.svg
  freehold timeline --json run.json --svg run.svg -- ./batch

Each thread is a bar, each column of it the whole of the thread's time there: green in the program,
red in the kernel, orange waiting for a lock or a condition variable, yellow waiting for a
processor, purple in page faults, grey asleep. Resident memory is beneath, and the part of it that
the program has in use, where that is known: with --count, and under Freehold. There are at most
400 columns and 512 threads, however long it takes.";

/// Draw where each thread's time goes over a whole run, with memory beneath, as SVG
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Timeline {
    /// Record for so long; without it until the process ends, or an interrupt
    #[arg(long, value_name = "SECONDS", value_parser = parse_positive_seconds)]
    seconds: Option<f64>,
    /// Write the picture to this file
    #[arg(long, value_name = "FILE", default_value = STANDARD_OUTPUT)]
    svg: String,
    /// Write the numbers to this file
    #[arg(long, value_name = "FILE")]
    json: Option<String>,
    /// Count the allocation calls of the command, which slows it down a little: shows the memory in
    /// use beneath the resident memory
    #[arg(long, conflicts_with = "pid")]
    count: bool,
    #[command(flatten)]
    subject: SubjectArgs,
}

impl Timeline {
    pub(crate) fn execute(self, ui: Ui) -> Result<Exit, Failure> {
        for path in self.json.iter().chain([&self.svg]) {
            ui::check_writable(path)?;
        }
        let counter = self.count.then(|| self.subject.counter()).transpose()?;
        let (subject, held) = self.subject.begin_held(|command| {
            if let Some(counter) = &counter {
                counter.apply(command);
            }
        })?;
        let words = subject.command_line();
        let live = |processes: &[u32]| counter.as_ref()?.live_bytes(processes);
        let recorder = Recorder::of(subject.pid(), Box::new(live));
        let mut recorder = recorder.map_err(|error| subject.refused(&error))?;
        drop(held);
        let duration = self.seconds.map(Duration::from_secs_f64);
        recorder.record(duration, &mut |pause| subject.pause(pause));
        let recorded = Recorded { subject: words, ..recorder.timeline() };
        for line in provenance(&recorded.sources, &recorded.missing) {
            ui.note(&line);
        }
        let saved = self.json.as_ref().map_or(Ok(()), |path| ui::save_json(path, &recorded));
        let saved = saved.and_then(|()| ui::save(&self.svg, &timeline_svg(&recorded)));
        subject.end_after(saved, ui)
    }
}
