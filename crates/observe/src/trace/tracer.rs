//! Following all threads of a process, and of those that descend from it, from one system call to
//! the next. It must not know what is made of them.

use std::collections::HashMap;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, getpid, kill_process, waitpid};

use super::stop::{self, Phase, Stop};
use crate::clock;
use crate::proc::tree;

/// How long to wait for a stop before asking whether to go on.
const PATIENCE: Duration = Duration::from_millis(50);
const PATIENCE_NS: u64 = PATIENCE.as_nanos() as u64;

/// How long to wait for what takes next to no time.
const SHORT: Duration = Duration::from_micros(200);

/// How often to look for a stop that must come, with as much time in between.
const LOOKS: u32 = 50_000;

/// A system call that a thread is in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entered {
    /// Its number.
    pub(crate) number: u64,
    /// When it began.
    pub(crate) at_ns: u64,
}

/// Who is told of system calls.
pub(crate) trait Seer {
    /// A call of a thread is over, or, where `is_error` is `None`, goes on as tracing ends.
    fn saw(&mut self, tid: u32, call: Entered, now_ns: u64, is_error: Option<bool>);
}

/// Traces a process.
pub(crate) struct Tracer {
    root: u32,
    /// The threads that are traced, each with the call that it is in.
    threads: HashMap<u32, Option<Entered>>,
    /// Becomes readable when a thread stops.
    stops: SignalFd,
    /// How the process ended, if it has.
    status: Option<ExitStatus>,
}

impl Tracer {
    /// Starts a command, to be traced from its first instruction.
    pub(crate) fn start(mut command: Command) -> io::Result<Self> {
        let stops = hear_of_stops()?;
        let (mut numbers, number) = io::pipe()?;
        let wait_to_be_traced = move || {
            rustix::io::write(&number, &std::process::id().to_ne_bytes())?;
            kill_process(getpid(), rustix::process::Signal::STOP)?;
            Ok(())
        };
        // SAFETY: between fork and exec the closure makes system calls alone, on descriptors that
        // the new process has, and allocates nothing.
        unsafe { command.pre_exec(wait_to_be_traced) };
        // Starting waits for the program to be executed, which waits for us.
        let starting = thread::spawn(move || command.spawn());
        let mut pid = [0; 4];
        if numbers.read_exact(&mut pid).is_err() {
            // It was not even forked: whoever starts it knows why.
            let started = starting.join().map_err(|_| io::Error::other("nobody starts it"))?;
            return Err(started.err().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into()));
        }
        let root = u32::from_ne_bytes(pid);
        seize_stopped(root)?;
        until_executed(root, starting)?;
        stop::go_on(root, 0)?;
        Ok(Self { root, threads: HashMap::from([(root, None)]), stops, status: None })
    }

    /// Traces a process that is there, with all its threads.
    pub(crate) fn attach(root: u32) -> io::Result<Self> {
        let stops = hear_of_stops()?;
        let mut tracer = Self { root, threads: HashMap::new(), stops, status: None };
        // Threads may start others until the last of them is traced.
        while tracer.seize_new()? {}
        for &tid in tracer.threads.keys() {
            // One that has ended meanwhile needs no stopping.
            let _ = stop::interrupt(tid);
        }
        Ok(tracer)
    }

    /// Begins to trace threads that are not; tells whether there were any.
    fn seize_new(&mut self) -> io::Result<bool> {
        let mut found = false;
        for tid in tree::threads(self.root) {
            if self.threads.contains_key(&tid) {
                continue;
            }
            match stop::seize(tid) {
                Ok(()) => found = self.threads.insert(tid, None).is_none(),
                // It has ended, or is traced because the thread that started it is.
                Err(_) if !self.threads.is_empty() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// The process.
    pub(crate) fn pid(&self) -> u32 {
        self.root
    }

    /// Traces until nothing is left, or `goes_on` says that it is enough, which is asked often.
    pub(crate) fn run(&mut self, goes_on: &mut dyn FnMut() -> bool, seer: &mut dyn Seer) {
        let mut asked = clock::now_ns();
        loop {
            let now = clock::now_ns();
            if now - asked > PATIENCE_NS {
                asked = now;
                if !goes_on() {
                    break;
                }
            }
            match stop::next() {
                Ok(Some((tid, stop))) => self.stopped(tid, stop, seer),
                Ok(None) => self.wait(),
                Err(_) => break,
            }
        }
        self.detach(seer);
    }

    /// How a command that was started ended: nothing while it runs.
    pub(crate) fn status(&self) -> Option<ExitStatus> {
        self.status
    }

    /// Waits for the process, a child of ours that is no longer traced, to end.
    pub(crate) fn wait_for_the_end(&mut self) -> io::Result<ExitStatus> {
        while self.status.is_none() {
            let root = Pid::from_raw(self.root.cast_signed());
            match waitpid(root, WaitOptions::empty()) {
                Ok(Some((_, ended))) => self.status = Some(ExitStatus::from_raw(ended.as_raw())),
                Ok(None) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.status.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Waits for a stop, but not for long.
    fn wait(&mut self) {
        let mut polled = [PollFd::new(self.stops.as_fd(), PollFlags::POLLIN)];
        let patience = PollTimeout::try_from(PATIENCE).unwrap_or(PollTimeout::ZERO);
        // Whatever comes of it, it is looked for stops next.
        let _ = poll(&mut polled, patience);
        while let Ok(Some(_)) = self.stops.read_signal() {}
    }

    /// A thread has stopped: it is let go again, as if it had not.
    fn stopped(&mut self, tid: u32, stop: Stop, seer: &mut dyn Seer) {
        // A thread that was killed meanwhile cannot be let go; its end is told next.
        let _ = match stop {
            Stop::Call => {
                self.at_call(tid, seer);
                stop::go_on(tid, 0)
            }
            Stop::Signal(signal) => stop::go_on(tid, signal),
            Stop::Event | Stop::Exec => {
                self.threads.entry(tid).or_default();
                stop::go_on(tid, 0)
            }
            Stop::Group(_) => stop::listen(tid),
            Stop::Ended(status) => {
                self.gone(tid, seer);
                if tid == self.root {
                    self.status = Some(ExitStatus::from_raw(status));
                }
                Ok(())
            }
        };
    }

    fn at_call(&mut self, tid: u32, seer: &mut dyn Seer) {
        let now = clock::now_ns();
        let current = self.threads.entry(tid).or_default();
        match stop::phase(tid) {
            Ok(Phase::Entry(number)) => *current = Some(Entered { number, at_ns: now }),
            Ok(Phase::Exit { is_error }) => {
                if let Some(call) = current.take() {
                    seer.saw(tid, call, now, Some(is_error));
                }
            }
            Ok(Phase::None) | Err(_) => {}
        }
    }

    /// A thread is gone, or no longer traced.
    fn gone(&mut self, tid: u32, seer: &mut dyn Seer) {
        if let Some(Some(call)) = self.threads.remove(&tid) {
            seer.saw(tid, call, clock::now_ns(), None);
        }
    }

    /// Lets all threads go for good.
    fn detach(&mut self, seer: &mut dyn Seer) {
        for &tid in self.threads.keys() {
            // Fails for one that has ended.
            let _ = stop::interrupt(tid);
        }
        while !self.threads.is_empty() {
            let Ok(stopped) = stop::next() else { break };
            let Some((tid, stop)) = stopped else {
                self.wait();
                continue;
            };
            self.gone(tid, seer);
            // Fails for one that has ended.
            let _ = match stop {
                Stop::Signal(signal) => stop::detach(tid, signal),
                Stop::Call | Stop::Event | Stop::Exec | Stop::Group(_) => stop::detach(tid, 0),
                Stop::Ended(status) => {
                    if tid == self.root {
                        self.status = Some(ExitStatus::from_raw(status));
                    }
                    Ok(())
                }
            };
        }
    }
}

/// Begins to trace a child that stops itself, and lets it go on.
fn seize_stopped(pid: u32) -> io::Result<()> {
    while stop::next_of(pid)?.is_none() {
        thread::sleep(SHORT);
    }
    stop::seize(pid)?;
    let pid = Pid::from_raw(pid.cast_signed()).ok_or(io::ErrorKind::NotFound)?;
    Ok(kill_process(pid, rustix::process::Signal::CONT)?)
}

/// Lets a child go on until it runs its program, before the first instruction of which it is
/// stopped. Fails with what whoever starts it says if it has no program to run.
fn until_executed(pid: u32, starting: JoinHandle<io::Result<Child>>) -> io::Result<()> {
    let mut starting = Some(starting);
    let mut looks = 0;
    while looks < LOOKS {
        match stop::next_of(pid) {
            Ok(Some(Stop::Exec)) => return starting.map_or(Ok(()), started),
            Ok(Some(Stop::Group(_))) => stop::listen(pid)?,
            Ok(Some(Stop::Signal(signal))) => stop::go_on(pid, signal)?,
            Ok(Some(_)) => stop::go_on(pid, 0)?,
            // Whoever starts it hears of its success before it has come to the stop.
            Ok(None) | Err(_) => {
                let finished = starting.take_if(|starting| starting.is_finished());
                finished.map_or(Ok(()), started)?;
                looks += u32::from(starting.is_none());
                thread::sleep(SHORT);
            }
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// Whether a command was started.
fn started(starting: JoinHandle<io::Result<Child>>) -> io::Result<()> {
    let started = starting.join().map_err(|_| io::Error::other("nobody starts it"))?;
    started.map(drop)
}

/// Keeps the signal that tells of stops, so that it can be waited for with a limit. Programs are
/// started without what is kept here.
fn hear_of_stops() -> io::Result<SignalFd> {
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGCHLD);
    mask.thread_block()?;
    Ok(SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?)
}
