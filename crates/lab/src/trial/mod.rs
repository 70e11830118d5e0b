//! One run of somebody's own program under an allocator: started, watched, driven if it is a
//! server, and taken away with everything that it has left. It must not know which runs there are
//! besides, or what becomes of the numbers.

mod counting;
mod sampler;
mod server;
mod setting;
mod shell;
mod tree;

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use std::{io, process};

use freehold_model::{Failure, FailureKind, Load, TrialOutcome, TrialRun, Usage, Verdict};
use rustix::process::{Pid, Signal, kill_process};

use self::sampler::{Sampler, Samples};
use self::shell::Rest;
use self::tree::{Family, MARK};
use crate::last_words::Tail;
use crate::lifetime::{Lifetime, Wait};
use crate::witness::Witness;

pub use setting::Setting;
pub use tree::{adopt_orphans, can_see_children};

/// How long a server may take to end once it was asked to.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// How long a server may take until it is ready.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// What a child has used, as the kernel tells whoever waits for it.
#[derive(Debug, Clone, Copy)]
pub struct Reaped {
    /// How it ended.
    pub status: ExitStatus,
    /// What it and its children used.
    pub usage: Usage,
    /// Page faults that needed a disk.
    pub major_faults: u64,
    /// The most that it or one of its children held. The kernel begins to count before the child
    /// becomes the program: what its parent held is the least it says.
    pub peak_rss_bytes: u64,
}

/// Waits for a child that has ended, and tells what it used: the one system call for which the
/// safe crates have no name.
pub type Reap = fn(pid: u32) -> io::Result<Reaped>;

/// What is run.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// What it reads; nothing by default.
    pub input: Option<PathBuf>,
    /// What drives it, where it is a server.
    pub load: Option<Load>,
    /// Run by the shell before it.
    pub prepare: Option<String>,
    /// Run by the shell after it.
    pub cleanup: Option<String>,
}

/// Which exit statuses count as success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Accepted {
    /// 0 alone.
    Success,
    /// 0 and these.
    Statuses(Vec<i32>),
    /// All.
    Any,
}

/// How runs are made.
#[derive(Debug, Clone)]
pub struct TrialRunner {
    /// Waits for a child.
    pub reap: Reap,
    /// How long a run may take.
    pub timeout: Duration,
    /// Which exit statuses count as success.
    pub accepted: Accepted,
    /// Whether what the program writes is shown, or thrown away.
    pub shows_output: bool,
}

/// A program that runs.
struct Running {
    child: Child,
    lifetime: Lifetime,
    start: Instant,
    witness: Witness,
    sampler: Sampler,
    errors: Option<Tail>,
    family: Family,
}

/// A program that has ended.
struct Ended {
    reaped: Reaped,
    samples: Samples,
    verdict: Verdict,
    last_words: String,
    left_behind: u32,
    /// Whether it ended before anybody asked it to.
    by_itself: bool,
}

/// What was seen of a run while it went on.
struct Seen {
    wall: Duration,
    /// When what `wall` counts began, and when it ended, since the start.
    from: f64,
    to: f64,
    /// The end of the settle time, since the start.
    settled: Option<f64>,
}

impl TrialRunner {
    /// Runs `job` in `setting`. Setting `give_up` ends the run early, without a number.
    pub fn run(&self, job: &Job, setting: &Setting, give_up: &AtomicBool) -> TrialOutcome {
        match self.around(job, give_up, || self.measure(job, setting, give_up)) {
            Ok(run) => TrialOutcome::Measured(Box::new(run)),
            Err(failure) => TrialOutcome::Failed(failure),
        }
    }

    /// Does something between what prepares a job and what cleans up after it.
    fn around<T>(
        &self,
        job: &Job,
        give_up: &AtomicBool,
        act: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let run = |what, command: &Option<String>, give_up| match command {
            Some(command) => {
                shell::run(what, command, Rest::GoesOn, self.timeout, give_up).map(drop)
            }
            None => Ok(()),
        };
        let done = run("--prepare", &job.prepare, give_up).and_then(|()| act());
        // Whoever cannot wait for the run still wants to find things as they were.
        let cleaned = run("--cleanup", &job.cleanup, &AtomicBool::new(false));
        done.and_then(|done| cleaned.map(|()| done))
    }

    fn measure(
        &self,
        job: &Job,
        setting: &Setting,
        give_up: &AtomicBool,
    ) -> Result<TrialRun, Failure> {
        if let Some(load) = &job.load {
            server::expect_silence(load)?;
        }
        tree::forget_own_peak();
        let own_peak = tree::memory_of(process::id()).peak_rss_bytes;
        let running = self.start(job, setting)?;
        let seen = match &job.load {
            None => self.wait(&running.lifetime, running.start, give_up),
            Some(load) => self.drive(load, &running.lifetime, running.start, give_up),
        };
        let was_seen = seen.is_ok();
        let ended = self.end(running, job.load.is_some() && was_seen)?;
        let seen = seen.map_err(|failure| ended.explain(&failure))?;
        self.judge(&ended, job)?;
        Ok(summarise(&ended, &seen, own_peak, job.load.is_some()))
    }

    fn start(&self, job: &Job, setting: &Setting) -> Result<Running, Failure> {
        let name = job.command[0].to_string_lossy();
        let not_started = |error: io::Error| not_started(format!("{name}: {error}"));
        let mark = tree::new_mark();
        let mut command = self.command(job, &mark).map_err(not_started)?;
        setting.apply(&mut command);
        let start = Instant::now();
        let mut child = command.spawn().map_err(not_started)?;
        let pid = child.id();
        let sampler = Sampler::start(Family::of(pid, &mark), start).map_err(not_started)?;
        let witness = Witness::start(setting.suspect(pid), None, |_| ()).map_err(not_started)?;
        let errors = child.stderr.take().map(Tail::of).transpose().map_err(not_started)?;
        let lifetime = Lifetime::of(pid).map_err(not_started)?;
        let family = Family::of(pid, &mark);
        Ok(Running { child, lifetime, start, witness, sampler, errors, family })
    }

    fn command(&self, job: &Job, mark: &str) -> io::Result<Command> {
        let mut command = Command::new(&job.command[0]);
        command.args(&job.command[1..]).env(MARK, mark);
        // A group of its own: an interrupt from the terminal is for us, who let the run finish.
        command.process_group(0);
        match &job.input {
            Some(path) => command.stdin(File::open(path)?),
            None => command.stdin(Stdio::null()),
        };
        if !self.shows_output {
            command.stdout(Stdio::null()).stderr(Stdio::piped());
        }
        Ok(command)
    }

    /// Waits for a program that ends by itself.
    fn wait(
        &self,
        program: &Lifetime,
        start: Instant,
        give_up: &AtomicBool,
    ) -> Result<Seen, Failure> {
        let waited = program.wait(self.timeout, give_up);
        let wall = start.elapsed();
        match waited.map_err(|error| not_started(error.to_string()))? {
            Wait::Ended => Ok(Seen { wall, from: 0.0, to: wall.as_secs_f64(), settled: None }),
            Wait::TimedOut => Err(Failure {
                kind: FailureKind::TimedOut,
                detail: format!("took more than {} s", self.timeout.as_secs_f64()),
            }),
            Wait::GivenUp => Err(interrupted()),
        }
    }

    /// Drives a server until its load has ended and memory has had time to come back.
    fn drive(
        &self,
        load: &Load,
        server: &Lifetime,
        start: Instant,
        give_up: &AtomicBool,
    ) -> Result<Seen, Failure> {
        server::wait_until_ready(load, server, self.timeout.min(READY_WITHIN), give_up)?;
        let since_start = || start.elapsed().as_secs_f64();
        let from = since_start();
        let wall = shell::run("--load", &load.command, Rest::Ends, self.timeout, give_up)?;
        let to = from + wall.as_secs_f64();
        let settle = Duration::from_secs_f64(load.settle_seconds);
        let died = |error: io::Error| not_started(error.to_string());
        match server.wait(settle, give_up).map_err(died)? {
            Wait::TimedOut => Ok(Seen { wall, from, to, settled: Some(since_start()) }),
            Wait::Ended => Err(Failure {
                kind: FailureKind::Failed,
                detail: "the server ended during the load, or before it was asked to".to_owned(),
            }),
            Wait::GivenUp => Err(interrupted()),
        }
    }

    /// Ends what has not ended by itself: politely where the run is over, and else at once.
    fn end(&self, mut running: Running, politely: bool) -> Result<Ended, Failure> {
        let failed = |error: io::Error| not_started(error.to_string());
        let samples = running.sampler.stop();
        let never = AtomicBool::new(false);
        let by_itself = running.lifetime.has_ended().map_err(failed)?;
        if politely && !by_itself {
            send(&running.child, Signal::TERM);
            // What it takes too long for is done below.
            let _ = running.lifetime.wait(STOP_WITHIN, &never);
        }
        if !running.lifetime.has_ended().map_err(failed)? {
            send(&running.child, Signal::KILL);
            running.lifetime.wait(STOP_WITHIN, &never).map_err(failed)?;
        }
        let verdict = running.witness.conclude();
        let left_behind = running.family.end();
        let reaped = (self.reap)(running.child.id()).map_err(failed)?;
        let last_words = running.errors.map(Tail::last_lines).unwrap_or_default();
        Ok(Ended { reaped, samples, verdict, last_words, left_behind, by_itself })
    }

    /// Whether a run that went to its end counts.
    fn judge(&self, ended: &Ended, job: &Job) -> Result<(), Failure> {
        let words = &ended.last_words;
        let failure = |kind, detail: String| Err(Failure { kind, detail });
        if let Verdict::NotLive { reason } = &ended.verdict {
            return failure(FailureKind::NotLive, format!("{reason}{words}"));
        }
        // A server was told to end; how it does that is its own business.
        if job.load.is_some() {
            return Ok(());
        }
        match (ended.reaped.status.code(), ended.reaped.status.signal(), &self.accepted) {
            (Some(0), ..) | (Some(_), _, Accepted::Any) => Ok(()),
            (Some(code), _, Accepted::Statuses(list)) if list.contains(&code) => Ok(()),
            (Some(code), ..) => failure(FailureKind::Failed, format!("exit status {code}{words}")),
            (None, signal, _) => {
                let signal = signal.unwrap_or_default();
                failure(FailureKind::Crashed, format!("ended by signal {signal}{words}"))
            }
        }
    }
}

impl Ended {
    /// Adds what the program has to say to a failure that was seen from outside.
    fn explain(&self, failure: &Failure) -> Failure {
        let own = if self.by_itself { format!(": {}", self.reaped.status) } else { String::new() };
        let detail = format!("{}{own}{}", failure.detail, self.last_words);
        Failure { kind: failure.kind, detail }
    }
}

fn summarise(ended: &Ended, seen: &Seen, own_peak: u64, is_server: bool) -> TrialRun {
    let Ended { reaped, samples, verdict, .. } = ended;
    // What the kernel tells afterwards is exact, unless it is about us.
    let told = Some(reaped.peak_rss_bytes).filter(|&peak| peak > own_peak).unwrap_or_default();
    let base = if is_server { samples.at(seen.from).unwrap_or_default() } else { 0 };
    let wanted_until = is_server.then_some(seen.to);
    TrialRun {
        verdict: verdict.clone(),
        exit_status: reaped.status.code(),
        wall_seconds: seen.wall.as_secs_f64(),
        user_seconds: reaped.usage.user_seconds,
        system_seconds: reaped.usage.system_seconds,
        peak_rss_bytes: samples.peak().max(told),
        mean_rss_bytes: samples.mean(seen.from, seen.to),
        settled_rss_bytes: seen.settled.and_then(|settled| samples.at(settled)),
        return_seconds: samples.return_seconds(base, wanted_until),
        minor_faults: reaped.usage.minor_faults,
        major_faults: reaped.major_faults,
        voluntary_switches: reaped.usage.voluntary_switches,
        involuntary_switches: reaped.usage.involuntary_switches,
        processes: samples.processes.max(1),
        left_behind: ended.left_behind,
        curve: samples.thinned(),
    }
}

fn send(child: &Child, signal: Signal) {
    if let Some(pid) = Pid::from_raw(child.id().cast_signed()) {
        // It may have ended a moment ago; then there is nobody to tell.
        let _ = kill_process(pid, signal);
    }
}

fn interrupted() -> Failure {
    Failure { kind: FailureKind::Failed, detail: "interrupted".to_owned() }
}

fn not_started(detail: String) -> Failure {
    Failure { kind: FailureKind::NotStarted, detail }
}
