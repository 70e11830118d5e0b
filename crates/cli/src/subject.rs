//! What is observed: a process that runs already, or a command that is started for it. It must not
//! know what is observed of it.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::Args;
use freehold_lab::launch;
use freehold_model::Allocator;
use freehold_observe::{TargetError, hold};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::asker::Asker;
use crate::catalogue::Catalogue;
use crate::counter::Counter;
use crate::exit::{Exit, Failure};
use crate::ui::Ui;
use crate::{advice, start};

/// Which process to observe.
#[derive(Debug, Args)]
pub(crate) struct SubjectArgs {
    /// Observe this process, and those that descend from it
    #[arg(short, long, value_name = "PID", conflicts_with = "command")]
    pid: Option<u32>,
    /// Start the command under this allocator: a name, or the path of a library
    #[arg(short, long, value_name = "ALLOCATOR", conflicts_with = "pid")]
    allocator: Option<String>,
    /// Where the standard output of the command goes: null, inherit, or a file
    #[arg(long, value_name = "WHERE", default_value = "null", conflicts_with = "pid")]
    output: String,
    /// Start this command, and observe it
    #[arg(
        required_unless_present = "pid",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    command: Vec<OsString>,
}

impl SubjectArgs {
    /// A command that is to be observed, as other arguments give it.
    pub(crate) fn of(command: Vec<OsString>, allocator: Option<String>, output: String) -> Self {
        Self { pid: None, allocator, output, command }
    }

    /// What makes the allocators of the command ready to be asked, or why that cannot be.
    pub(crate) fn asker(&self) -> Result<Result<Asker, String>, Failure> {
        Asker::new(self.command.first().map(OsString::as_os_str).unwrap_or_default())
    }

    /// The command, made ready to be started; `None` when a process is to be observed.
    fn prepare(&self) -> Result<Option<Command>, Failure> {
        let Some((name, arguments)) = self.command.split_first() else { return Ok(None) };
        let program = launch::resolve(name).ok_or_else(|| start::not_found(name))?;
        let mut command = Command::new(name);
        command.args(arguments).stdout(start::standard_output(&self.output)?);
        if let Some(allocator) = &self.allocator {
            put_under(&mut command, &program, &Catalogue::new(&[])?.get(allocator)?)?;
        }
        Ok(Some(command))
    }

    /// A counter for the calls of the command.
    pub(crate) fn counter(&self) -> Result<Counter, Failure> {
        let name = self.command.first().map(OsString::as_os_str).unwrap_or_default();
        Counter::new(name, self.allocator.as_deref())
    }

    /// What is to be traced; the tracer starts a command itself.
    pub(crate) fn to_be_traced(&self) -> Result<(Traced, Interrupt), Failure> {
        let interrupt = Interrupt::prepare()?;
        let traced = match (self.prepare()?, self.pid) {
            (Some(command), _) => Traced::Command(command),
            (None, pid) => Traced::Process(pid.unwrap_or_default()),
        };
        Ok((traced, interrupt))
    }

    /// The command could not be started, or the process may not be traced.
    pub(crate) fn untraceable(&self, error: &TargetError) -> Failure {
        if let (Some(command), TargetError::Refused(error)) = (self.command.first(), error) {
            return start::not_started(command, error);
        }
        let pid = self.pid.unwrap_or_default();
        let failure = Failure::error(format!("process {pid}"), error);
        let is_refused = matches!(error, TargetError::Refused(_));
        if is_refused { failure.hint(advice::not_traceable()) } else { failure }
    }

    /// Starts the command, if there is one, with `adjust` applied to it first.
    pub(crate) fn begin(&self, adjust: impl FnOnce(&mut Command)) -> Result<Subject, Failure> {
        let interrupt = Interrupt::prepare()?;
        let child = match (self.prepare()?, self.pid) {
            (Some(mut command), _) => {
                adjust(&mut command);
                let started = command.spawn();
                Ok(started.map_err(|error| start::not_started(&self.command[0], &error))?)
            }
            (None, pid) => Err(pid.unwrap_or_default()),
        };
        let words = self.command.iter().map(|word| word.to_string_lossy().into()).collect();
        Ok(Subject { child, words, interrupt })
    }

    /// The same, and holds the command until the guard is dropped, so that nothing of it is missed
    /// while observing is prepared: it stands before its first instruction, or, where it may not be
    /// traced, is stopped as soon as it was started. A process that was there before is left alone.
    pub(crate) fn begin_held(
        &self,
        adjust: impl FnOnce(&mut Command),
    ) -> Result<(Subject, Held), Failure> {
        let program = self.command.first().and_then(|name| launch::resolve(name));
        // What is traced may not change its user.
        let may_be_traced = program.is_some_and(|program| !launch::is_elevated(&program));
        let subject = self.begin(|command| {
            adjust(command);
            if may_be_traced {
                hold::prepare(command);
            }
        })?;
        let held = subject.hold();
        Ok((subject, held))
    }
}

/// Makes a command use this allocator.
fn put_under(command: &mut Command, program: &Path, allocator: &Allocator) -> Result<(), Failure> {
    if let Some(reason) = launch::obstacle(program, allocator) {
        return Err(Failure::new(Exit::NotLive, reason));
    }
    let preload = launch::preload_value(allocator)
        .map_err(|error| Failure::new(Exit::NotLive, error.to_string()))?;
    if let Some(preload) = preload {
        command.env(launch::PRELOAD, preload);
    }
    Ok(())
}

/// What is to be traced.
pub(crate) enum Traced {
    /// A command, which is not yet started.
    Command(Command),
    /// A process that runs.
    Process(u32),
}

/// The process that is observed.
pub(crate) struct Subject {
    /// The command that was started, or the number of a process that was there before.
    child: Result<Child, u32>,
    /// The words of the command.
    words: Vec<String>,
    interrupt: Interrupt,
}

impl Subject {
    pub(crate) fn pid(&self) -> u32 {
        match &self.child {
            Ok(child) => child.id(),
            Err(pid) => *pid,
        }
    }

    /// Whether it is a command that was started to be observed.
    pub(crate) fn is_command(&self) -> bool {
        self.child.is_ok()
    }

    /// Holds a command that was just started.
    fn hold(&self) -> Held {
        let Ok(child) = &self.child else { return Held(None) };
        let stands = hold::take_over(child.id());
        let pid = Pid::from_raw(child.id().cast_signed());
        Held(pid.filter(|&pid| stands || stop(pid)))
    }

    /// Its command line.
    pub(crate) fn command_line(&self) -> Vec<String> {
        if self.is_command() {
            return self.words.clone();
        }
        let bytes = fs::read(format!("/proc/{}/cmdline", self.pid())).unwrap_or_default();
        let words = bytes.split(|&byte| byte == 0).filter(|word| !word.is_empty());
        words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
    }

    /// The process cannot be observed. A command that was started for it goes on unobserved.
    pub(crate) fn refused(&self, error: &TargetError) -> Failure {
        Failure::error(format!("process {}", self.pid()), error)
    }

    /// Waits for this long, less if there is an interrupt.
    pub(crate) fn pause(&self, duration: Duration) -> ControlFlow<()> {
        thread::sleep(duration);
        if self.interrupt.has_come() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Whether the command has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        let status = self.child.as_mut().ok().map(Child::try_wait);
        matches!(status, Some(Ok(Some(_))))
    }

    /// Ends observing, and then fails if what was observed could not be shown: a command is not
    /// left alone for that.
    pub(crate) fn end_after(self, shown: Result<(), Failure>, ui: Ui) -> Result<Exit, Failure> {
        let ended = self.end(ui);
        shown.and(ended)
    }

    /// Ends observing. A process that was there before goes on as it was; a command is waited for,
    /// since its end is ours, and ended before if we were interrupted.
    pub(crate) fn end(self, ui: Ui) -> Result<Exit, Failure> {
        let interrupted = self.interrupt.has_come();
        let own = if interrupted { Exit::Interrupted } else { Exit::Success };
        let Ok(mut child) = self.child else { return Ok(own) };
        let waiting = |error: io::Error| Failure::error("cannot wait for the command", &error);
        if child.try_wait().map_err(waiting)?.is_none() {
            if interrupted {
                terminate(child.id());
            } else {
                ui.note(WAITING);
            }
        }
        let status = child.wait().map_err(waiting)?;
        Ok(if interrupted { own } else { start::ended_as(status) })
    }
}

/// A command that is held.
#[must_use = "the command goes on when this is dropped"]
pub(crate) struct Held(Option<Pid>);

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            // It cannot have gone: it was stopped, and nobody has waited for it.
            let _ = kill_process(pid, Signal::CONT);
        }
    }
}

/// Stops a child of ours, and waits until it stands or has ended; false if that is not allowed.
fn stop(pid: Pid) -> bool {
    let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    kill_process(pid, Signal::STOP).is_ok() && waitid(WaitId::Pid(pid), options).is_ok()
}

/// Said before a command is waited for that is no longer observed.
pub(crate) const WAITING: &str = "observing is over; waiting for the command to end";

/// Ends a child of ours that has not been waited for.
pub(crate) fn terminate(pid: u32) {
    if let Some(pid) = Pid::from_raw(pid.cast_signed()) {
        // It may have ended a moment ago; then there is nobody to tell.
        let _ = kill_process(pid, Signal::TERM);
    }
}

/// Interrupts: the first ends observing, a second ends us at once.
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    fn prepare() -> Result<Self, Failure> {
        Self::listen().map_err(|error| Failure::error("cannot listen for signals", &error))
    }

    fn listen() -> io::Result<Self> {
        let come = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let code = Exit::Interrupted.code().into();
            // In this order: the second finds what the first has set only when it is the second.
            signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(&come))?;
            signal_hook::flag::register(signal, Arc::clone(&come))?;
        }
        Ok(Self(come))
    }

    pub(crate) fn has_come(&self) -> bool {
        // Nothing else is read by way of the flag.
        self.0.load(Ordering::Relaxed)
    }
}
