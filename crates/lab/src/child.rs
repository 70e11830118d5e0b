//! Running one measurement in a child process, and making sure of what it measured: a run in
//! which the wanted allocator was not live is an error and never a number. It must not know which
//! runs there are besides.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::AtomicBool;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use freehold_model::{
    Allocator, Document, Failure, FailureKind, GridCase, GridOutcome, HarnessRun, Length, Outcome,
    PairsParams, PairsRun, ParamValue, Proof, Sizes, from_json,
};

use crate::last_words::last_lines;
use crate::launch::PRELOAD;
use crate::lifetime::{Lifetime, Wait};

/// How children are run.
#[derive(Debug)]
pub struct Runner {
    /// The executable, which must understand [`arguments`] and [`FOLLOW_PARENT`].
    pub program: PathBuf,
    /// How long a run may take.
    pub timeout: Duration,
}

/// The argument that makes a child end when its parent does, however that ends.
pub const FOLLOW_PARENT: &str = "--die-with-parent";

/// The command-line arguments that ask for a run with these parameters.
pub fn arguments(params: &PairsParams) -> Vec<String> {
    let mut arguments: Vec<String> = ["workload", "pairs"].map(String::from).to_vec();
    let mut option = |name: &str, value: String| arguments.push(format!("--{name}={value}"));
    option("pairs", params.pairs.to_string());
    option("min", params.min_bytes.to_string());
    option("max", params.max_bytes.to_string());
    option("allocations", params.allocations.to_string());
    option("depth", params.depth.to_string());
    option("handoff", params.handoff.as_str().to_owned());
    option("seed", params.seed.to_string());
    option("settle", params.settle_seconds.to_string());
    match params.length {
        Length::Samples { count, seconds, warmup_seconds } => {
            option("samples", count.to_string());
            option("seconds", seconds.to_string());
            option("warmup", warmup_seconds.to_string());
        }
        Length::Loops { total } => option("loops", total.to_string()),
    }
    if params.sizes == Sizes::Fixed {
        arguments.push("--fixed-size".to_owned());
    }
    if params.memset {
        arguments.push("--memset".to_owned());
    }
    arguments
}

/// The command-line arguments that ask for a run of this case.
pub fn case_arguments(case: &GridCase) -> Vec<String> {
    let mut arguments = vec!["workload".to_owned(), case.harness.clone()];
    arguments.extend(case.params.iter().filter_map(|(name, value)| match value {
        ParamValue::Flag(given) => given.then(|| format!("--{name}")),
        ParamValue::Text(text) if text.is_empty() => None,
        value => Some(format!("--{name}={value}")),
    }));
    arguments
}

/// What a child is to do.
pub struct Task<'a> {
    /// Its arguments. [`FOLLOW_PARENT`] is added to them.
    pub arguments: Vec<String>,
    /// Variables that are set for it, besides those of this process. They come before those that
    /// the allocator needs.
    pub environment: Vec<(String, OsString)>,
    /// Told the number of the process as soon as it has been started.
    pub started: &'a dyn Fn(u32),
}

impl Task<'_> {
    /// A task with these arguments and nothing besides.
    pub fn of(arguments: Vec<String>) -> Self {
        Self { arguments, environment: Vec::new(), started: &|_| () }
    }
}

/// How a child ended, and what it wrote.
struct Ended {
    status: ExitStatus,
    output: String,
    errors: String,
}

impl Runner {
    /// Runs `params` under `allocator`. Setting `give_up` ends the run early, without a number.
    pub fn run(
        &self,
        params: &PairsParams,
        allocator: &Allocator,
        give_up: &AtomicBool,
    ) -> Outcome {
        let task = Task::of(arguments(params));
        match self.measure(task, allocator, give_up, |run: &PairsRun| &run.proof) {
            Ok(run) => Outcome::Measured(Box::new(run)),
            Err(failure) => Outcome::Failed(failure),
        }
    }

    /// Runs a case of a grid under `allocator`, in the same way.
    pub fn run_harness(
        &self,
        case: &GridCase,
        allocator: &Allocator,
        give_up: &AtomicBool,
    ) -> GridOutcome {
        let task = Task::of(case_arguments(case));
        match self.measure(task, allocator, give_up, |run: &HarnessRun| &run.proof) {
            Ok(run) => GridOutcome::Measured(Box::new(run)),
            Err(failure) => GridOutcome::Failed(failure),
        }
    }

    /// Lets a child measure, and makes sure of what it measured. `proof` is what the child found
    /// out about itself.
    pub fn measure<R: Document>(
        &self,
        mut task: Task<'_>,
        allocator: &Allocator,
        give_up: &AtomicBool,
        proof: fn(&R) -> &Proof,
    ) -> Result<R, Failure> {
        task.arguments.push(FOLLOW_PARENT.to_owned());
        let ended = self.complete(&task, allocator, give_up)?;
        let (run, last_words) = understand(&ended)?;
        verify(proof(&run), allocator, &last_words)?;
        Ok(run)
    }

    /// Starts a child and waits for its end.
    fn complete(
        &self,
        task: &Task<'_>,
        allocator: &Allocator,
        give_up: &AtomicBool,
    ) -> Result<Ended, Failure> {
        let not_started = |error: io::Error| Failure {
            kind: FailureKind::NotStarted,
            detail: format!("cannot start {}: {error}", self.program.display()),
        };
        let mut child = self.start(task, allocator).map_err(not_started)?;
        (task.started)(child.id());
        // Read from threads: a child that fills one pipe while we wait for the other would wait
        // for ever.
        let output = read_all(child.stdout.take());
        let errors = read_all(child.stderr.take());
        let life = Lifetime::of(child.id()).map_err(not_started)?;
        let waited = life.wait(self.timeout, give_up);
        // An allocator may have started somebody who holds the pipes open for ever.
        life.end_group();
        let status = child.wait().map_err(not_started)?;
        let ended = Ended { status, output: join(output), errors: join(errors) };
        let failure = |kind, detail| Err(Failure { kind, detail });
        match waited.map_err(not_started)? {
            Wait::Ended => Ok(ended),
            Wait::TimedOut => failure(
                FailureKind::TimedOut,
                format!("took more than {} s", self.timeout.as_secs_f64()),
            ),
            Wait::GivenUp => failure(FailureKind::Failed, "interrupted".to_owned()),
        }
    }

    fn start(&self, task: &Task<'_>, allocator: &Allocator) -> io::Result<Child> {
        let mut command = Command::new(&self.program);
        command
            .args(&task.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // A group of its own: an interrupt from the terminal is for us, who let the run finish.
        command.process_group(0);
        if allocator.needs_preload() {
            command.env(PRELOAD, OsString::from(&allocator.library.path));
        } else {
            command.env_remove(PRELOAD);
        }
        command.envs(task.environment.iter().map(|(name, it)| (name, it)));
        command.spawn()
    }
}

fn read_all(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What was read before an error is still worth showing.
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn join(reader: JoinHandle<String>) -> String {
    reader.join().unwrap_or_default()
}

/// Makes a result of what a child left behind, with what it said besides.
fn understand<R: Document>(ended: &Ended) -> Result<(R, String), Failure> {
    let last_words = last_lines(&ended.errors);
    if let Some(signal) = ended.status.signal() {
        let detail = format!("ended by signal {signal}{last_words}");
        return Err(Failure { kind: FailureKind::Crashed, detail });
    }
    if !ended.status.success() {
        let code = ended.status.code().unwrap_or_default();
        let detail = format!("exit status {code}{last_words}");
        return Err(Failure { kind: FailureKind::Failed, detail });
    }
    let run = from_json(&ended.output).map_err(|error| Failure {
        kind: FailureKind::Unreadable,
        detail: format!("{error}{last_words}"),
    })?;
    Ok((run, last_words))
}

/// Makes sure that both `malloc` and `free` of the child came from the allocator's library.
fn verify(proof: &Proof, allocator: &Allocator, last_words: &str) -> Result<(), Failure> {
    let wanted = Path::new(&allocator.library.path);
    for (call, object) in [("malloc", &proof.malloc_object), ("free", &proof.free_object)] {
        let real = fs::canonicalize(object).unwrap_or_else(|_| PathBuf::from(object));
        if real != wanted {
            let detail = format!("{call} came from {object}{last_words}");
            return Err(Failure { kind: FailureKind::NotLive, detail });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use freehold_model::{Library, Origin};

    use super::*;
    use crate::plan::tests::params;

    fn system() -> Allocator {
        Allocator {
            name: "system".into(),
            family: Some("system".into()),
            version: None,
            origin: Origin::CLibrary,
            library: Library { path: "/lib/libc.so.6".into(), bytes: 0, sha256: String::new() },
        }
    }

    /// Lets a shell run `script` in the place of a measuring child.
    fn outcome_of(script: &str, timeout: Duration) -> Failure {
        let runner = Runner { program: "/bin/sh".into(), timeout };
        let task = Task::of(vec!["-c".to_owned(), script.to_owned()]);
        runner
            .complete(&task, &system(), &AtomicBool::new(false))
            .and_then(|ended| understand::<PairsRun>(&ended))
            .map(|_| ())
            .expect_err("no script prints a result")
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_child_that_fails_is_reported_with_its_status_and_last_words() {
        let failure = outcome_of("echo 'malloc(77) returned null' >&2; exit 3", LONG);
        assert_eq!(failure.kind, FailureKind::Failed);
        assert_eq!(failure.detail, "exit status 3: malloc(77) returned null");
    }

    #[test]
    fn a_child_that_crashes_is_reported_with_the_signal() {
        let failure = outcome_of("kill -SEGV $$", LONG);
        assert_eq!(failure.kind, FailureKind::Crashed);
        assert_eq!(failure.detail, "ended by signal 11");
    }

    #[test]
    fn a_child_that_hangs_is_ended() {
        let failure = outcome_of("exec sleep 1000", Duration::from_millis(50));
        assert_eq!(failure.kind, FailureKind::TimedOut);
        assert_eq!(failure.detail, "took more than 0.05 s");
    }

    #[test]
    fn a_child_is_not_waited_for_longer_because_it_has_left_somebody() {
        let start = Instant::now();
        let failure = outcome_of("sleep 37 & exit 3", LONG);
        assert_eq!(failure.detail, "exit status 3");
        let failure = outcome_of("sleep 37 & wait", Duration::from_millis(50));
        assert_eq!(failure.kind, FailureKind::TimedOut);
        assert!(start.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_child_that_prints_nonsense_gives_no_number() {
        assert_eq!(outcome_of("echo hello", LONG).kind, FailureKind::Unreadable);
    }

    #[test]
    fn a_program_that_is_missing_is_reported_as_not_started() {
        let runner = Runner { program: "/nowhere/at/all".into(), timeout: LONG };
        let outcome = runner.run(&params(1, 256), &system(), &AtomicBool::new(false));
        assert!(matches!(outcome, Outcome::Failed(Failure { kind: FailureKind::NotStarted, .. })));
    }
}
