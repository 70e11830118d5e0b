//! `freehold top`: where the time of each thread goes, while it goes there.

use std::io::{self, IsTerminal};
use std::ops::ControlFlow;
use std::process::Stdio;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use freehold_model::TopReport;
use freehold_observe::top::{By, Top as Watching, by_process};
use freehold_report::{TopColumn, provenance, sort_top, top};

use crate::args::parse_positive_seconds;
use crate::exit::{Exit, Failure};
use crate::screen::{self, Key, Screen};
use crate::subject::{Subject, SubjectArgs};
use crate::ui::{self, Ui};

const EXAMPLES: &str = "\
Examples:
  freehold top -p $(pgrep -n server)                 a screen that is redrawn; p adds up by process
  freehold top --count 5 --sort lck -p 4242 | cat    five tables, the longest waits first
  freehold top --by process -- make -j4              processes rather than threads
  freehold top --json --interval 0.5 -- ./server     a line of JSON every half second

Columns, as prstat -mL has them. Shares of the thread's time, which add up to 100 %:
  USR SYS  on a processor, in the program and in the kernel
  TRP      traps: Linux does not tell, so they are within the others
  TFL DFL  waiting for a page, of what is run or of data: a disk, or the lock of the address space
  LCK      waiting for a lock or a condition variable (a futex): freehold locks tells them apart
  SLP      asleep: input, output, timers
  LAT      runnable, but no processor was free
Counts in the interval: VCX and ICX voluntary and involuntary switches, SCL system calls, SIG
signals, MNF and MJF page faults without and with a disk. What this system cannot count is a dash.
IN is the system call that the thread was most often seen waiting in.

SCL and SIG are counted for root only, which costs the process a fraction of a microsecond a call.

A process that runs already is not stopped or traced, a command only before its first instruction,
for a moment. A process can be observed by its owner and by root.";

/// Show where each thread's time goes: running, waiting for locks, asleep, without a processor
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Top {
    /// Seconds from one table to the next
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_positive_seconds)]
    interval: f64,
    /// How many tables to show before it ends
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// The column that rows are sorted by
    #[arg(long, value_name = "COLUMN", default_value = "cpu", value_parser = column())]
    sort: TopColumn,
    /// What is a row
    #[arg(long, value_name = "WHAT", default_value = "thread")]
    by: Row,
    /// Print a line of JSON for each interval
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    subject: SubjectArgs,
}

/// A last interval that is shorter is not shown.
const SHORTEST_SECONDS: f64 = 0.02;

/// What is a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Row {
    Thread,
    Process,
}

fn column() -> impl TypedValueParser<Value = TopColumn> {
    // The parser lets nothing through that is not a column.
    PossibleValuesParser::new(TopColumn::NAMES)
        .map(|name| TopColumn::named(&name).unwrap_or(TopColumn::Cpu))
}

impl Top {
    pub(crate) fn execute(self, ui: Ui) -> Result<Exit, Failure> {
        let is_screen = !self.json && io::stdout().is_terminal() && io::stdin().is_terminal();
        let (subject, held) = self.subject.begin_held(|command| {
            if is_screen {
                // The keys are ours, and so is what is to be seen.
                command.stdin(Stdio::null()).stderr(Stdio::null());
            }
        })?;
        let by = match self.by {
            // The screen can show both.
            Row::Process if !is_screen => By::Process,
            _ => By::Thread,
        };
        let watching = Watching::of(subject.pid(), by).map_err(|error| subject.refused(&error))?;
        drop(held);
        let shown = if is_screen {
            let live = Live::open(&subject, self.sort, self.by);
            live.and_then(|mut live| self.intervals(watching, &mut live))
        } else {
            let (is_json, sort) = (self.json, self.sort);
            let mut printed = Printed { ui, subject: &subject, is_json, sort, is_first: true };
            self.intervals(watching, &mut printed)
        };
        subject.end_after(shown, ui)
    }

    /// Shows the intervals that were asked for, until the process ends or the audience has had
    /// enough.
    fn intervals(
        &self,
        mut watching: Watching,
        audience: &mut dyn Audience,
    ) -> Result<(), Failure> {
        let duration = Duration::from_secs_f64(self.interval);
        let mut shown = 0;
        while self.count.is_none_or(|count| shown < count) {
            let (report, flow) = watching.interval(duration, &mut |pause| audience.pause(pause));
            // What is left of an interval when the process ends may be next to nothing.
            if shown == 0 || report.seconds >= SHORTEST_SECONDS {
                audience.show(report)?;
                shown += 1;
            }
            if flow.is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// Who is shown the intervals.
trait Audience {
    /// Waits for this long; breaks when nothing more is to be shown.
    fn pause(&mut self, duration: Duration) -> ControlFlow<()>;

    /// Shows an interval.
    fn show(&mut self, report: TopReport) -> Result<(), Failure>;
}

/// A pipe or a file, or a terminal that is not to be redrawn.
struct Printed<'a> {
    ui: Ui,
    subject: &'a Subject,
    is_json: bool,
    sort: TopColumn,
    is_first: bool,
}

impl Audience for Printed<'_> {
    fn pause(&mut self, duration: Duration) -> ControlFlow<()> {
        self.subject.pause(duration)
    }

    fn show(&mut self, mut report: TopReport) -> Result<(), Failure> {
        sort_top(&mut report.rows, self.sort);
        if self.is_json {
            return ui::print_json_line(&report);
        }
        if std::mem::take(&mut self.is_first) {
            for line in provenance(&report.sources, &report.missing) {
                self.ui.note(&line);
            }
        }
        ui::print(&format!("{}\n", top(&report, usize::MAX)))
    }
}

/// A terminal.
struct Live<'a> {
    subject: &'a Subject,
    screen: Screen,
    /// Index of the column among its names.
    sort: usize,
    by: Row,
    /// With a row a thread.
    latest: Option<TopReport>,
}

impl<'a> Live<'a> {
    fn open(subject: &'a Subject, sort: TopColumn, by: Row) -> Result<Self, Failure> {
        let is_it = |name: &str| TopColumn::named(name) == Some(sort);
        let sort = TopColumn::NAMES.iter().position(|name| is_it(name)).unwrap_or_default();
        Ok(Self { subject, screen: Screen::open()?, sort, by, latest: None })
    }

    /// Shows processes instead of threads, or the other way round.
    fn toggle(&mut self) -> Result<(), Failure> {
        self.by = if self.by == Row::Process { Row::Thread } else { Row::Process };
        self.draw()
    }

    /// Sorts by the column that many places to the right.
    fn sort_by_another(&mut self, step: usize) -> Result<(), Failure> {
        self.sort = (self.sort + step) % TopColumn::NAMES.len();
        self.draw()
    }

    fn draw(&mut self) -> Result<(), Failure> {
        let Some(latest) = &self.latest else { return Ok(()) };
        let mut report = latest.clone();
        if self.by == Row::Process {
            report.rows = by_process(&report.rows);
        }
        let name = TopColumn::NAMES[self.sort];
        if let Some(column) = TopColumn::named(name) {
            sort_top(&mut report.rows, column);
        }
        // The head, the sum, and what the keys do.
        let rows = screen::height().saturating_sub(3);
        let other = if self.by == Row::Process { "threads" } else { "processes" };
        let keys =
            format!("  sorted by {name}; left and right change that, p shows {other}, q ends");
        Ok(self.screen.draw(&format!("{}{keys}", top(&report, rows)))?)
    }
}

impl Audience for Live<'_> {
    fn pause(&mut self, duration: Duration) -> ControlFlow<()> {
        let drawn = match screen::key_within(duration) {
            Some(Key::Quit) => return ControlFlow::Break(()),
            Some(Key::Right) => self.sort_by_another(1),
            Some(Key::Left) => self.sort_by_another(TopColumn::NAMES.len() - 1),
            Some(Key::Process) => self.toggle(),
            None => Ok(()),
        };
        if drawn.is_ok() { self.subject.pause(Duration::ZERO) } else { ControlFlow::Break(()) }
    }

    fn show(&mut self, report: TopReport) -> Result<(), Failure> {
        self.latest = Some(report);
        self.draw()
    }
}
