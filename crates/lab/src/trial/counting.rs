//! One more run of a program, in which a tracer counts its system calls. The tracer is a process of
//! its own, which starts the program: it waits for whatever descends from it, and must not find
//! children of ours. It runs under the same allocator, since the program is to have the very
//! environment with which the other runs have shown that the allocator is live.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use freehold_model::{CallRow, Failure, FailureKind, Load, SyscallsReport, from_json};
use rustix::process::{Pid, Signal, kill_process_group};

use super::tree::{self, Family, MARK};
use super::{Job, STOP_WITHIN, Setting, TrialRunner, not_started, server};
use crate::last_words::Tail;
use crate::lifetime::Lifetime;

impl TrialRunner {
    /// Runs `job` in `setting` once more, and returns its system calls, those made most often
    /// first. `tracer` is the executable whose command `syscalls` counts them.
    pub fn count_calls(
        &self,
        tracer: &Path,
        job: &Job,
        setting: &Setting,
        give_up: &AtomicBool,
    ) -> Result<Vec<CallRow>, Failure> {
        self.around(job, give_up, || {
            if let Some(load) = &job.load {
                server::expect_silence(load)?;
            }
            let mut calls = self.traced(tracer, job, setting, give_up)?.calls;
            calls.sort_by(|a, b| b.count.cmp(&a.count).then(a.name.cmp(&b.name)));
            Ok(calls)
        })
    }

    fn traced(
        &self,
        tracer: &Path,
        job: &Job,
        setting: &Setting,
        give_up: &AtomicBool,
    ) -> Result<SyscallsReport, Failure> {
        let failed = |error: io::Error| not_started(format!("{}: {error}", tracer.display()));
        let mark = tree::new_mark();
        let start = Instant::now();
        let mut child = command(tracer, job, setting, &mark).spawn().map_err(failed)?;
        let mut family = Family::of(child.id(), &mark);
        let errors = child.stderr.take().map(Tail::of).transpose().map_err(failed)?;
        let output = child.stdout.take();
        let reader = thread::spawn(move || {
            let mut text = String::new();
            // What cannot be read is no report, which is said below.
            let _ = output.map(|mut pipe| pipe.read_to_string(&mut text));
            text
        });
        let life = Lifetime::of(child.id()).map_err(failed)?;
        let seen = match &job.load {
            None => self.wait(&life, start, give_up),
            // Nothing is to be seen of memory.
            Some(load) => {
                let load = Load { settle_seconds: 0.0, ..load.clone() };
                self.drive(&load, &life, start, give_up)
            }
        };
        end(&mut child, &life).map_err(failed)?;
        family.end();
        let words = errors.map(Tail::last_lines).unwrap_or_default();
        let text = reader.join().unwrap_or_default();
        seen?;
        from_json(&text).map_err(|_| Failure {
            kind: FailureKind::Failed,
            detail: format!("no system calls were counted{words}"),
        })
    }
}

fn command(tracer: &Path, job: &Job, setting: &Setting, mark: &str) -> Command {
    let mut command = Command::new(tracer);
    command.args(["syscalls", "--json", "--"]).args(&job.command).env(MARK, mark);
    setting.apply(&mut command);
    command.process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Ends the tracer and its program, if they have not ended by themselves. Both are told: the
/// program to end, and the tracer to say what it has seen.
fn end(child: &mut Child, life: &Lifetime) -> io::Result<()> {
    let never = AtomicBool::new(false);
    for signal in [Signal::TERM, Signal::KILL] {
        if life.has_ended()? {
            break;
        }
        if let Some(pid) = Pid::from_raw(child.id().cast_signed()) {
            // It may have ended a moment ago; then there is nobody to tell.
            let _ = kill_process_group(pid, signal);
        }
        life.wait(STOP_WITHIN + Duration::from_secs(1), &never)?;
    }
    child.wait().map(drop)
}
