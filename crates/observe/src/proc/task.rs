//! The files of one thread, kept open and read again and again without being opened anew.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;

use super::schedstat::{self, SchedStat};
use super::stat::{self, Stat};
use super::status::{self, Switches};
use super::syscall::{self, Doing};

/// More than any of the files has.
const LONGEST: usize = 4096;

/// What a file is read into; one serves all threads.
pub(crate) type Buffer = [u8; LONGEST];

/// A buffer to read into.
pub(crate) fn buffer() -> Box<Buffer> {
    Box::new([0; LONGEST])
}

/// The files of a thread.
#[derive(Debug)]
pub(crate) struct TaskFiles {
    stat: File,
    schedstat: Option<File>,
    status: File,
    syscall: Option<File>,
    wchan: Option<File>,
    children: Option<File>,
}

/// What a thread waits for, as far as this user may know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The system call with its arguments.
    Doing(Doing),
    /// Only whether it waits, and whether for a futex: from the name of the kernel's function.
    Outline {
        /// Whether it waits at all.
        is_waiting: bool,
        /// Whether for a futex.
        is_futex: bool,
    },
}

impl Seen {
    /// Whether the thread neither runs nor wants to.
    pub(crate) fn is_waiting(&self) -> bool {
        match self {
            Self::Doing(doing) => *doing != Doing::Running,
            Self::Outline { is_waiting, .. } => *is_waiting,
        }
    }
}

impl TaskFiles {
    /// Opens the files. A file that this kernel does not have, or that this user may not read, is
    /// done without, but for those that everybody can read.
    pub(crate) fn open(pid: u32, tid: u32) -> io::Result<Self> {
        let open = |name: &str| File::open(format!("/proc/{pid}/task/{tid}/{name}"));
        let stat = open("stat")?;
        let status = open("status")?;
        let schedstat = open("schedstat").ok();
        let readable = |file: &File| !is_refused(&file.read_at(&mut [0; 16], 0));
        let syscall = open("syscall").ok().filter(readable);
        // Who may not look at a process is told 0 there, as if it did not wait.
        let may_look = fs::read_link(format!("/proc/{pid}/exe")).is_ok();
        let wchan = if syscall.is_none() && may_look { open("wchan").ok() } else { None };
        let children = open("children").ok();
        Ok(Self { stat, schedstat, status, syscall, wchan, children })
    }

    pub(crate) fn stat(&self, buffer: &mut Buffer) -> Option<Stat> {
        stat::parse(&text(&self.stat, buffer)?)
    }

    pub(crate) fn switches(&self, buffer: &mut Buffer) -> Option<Switches> {
        status::parse(&text(&self.status, buffer)?)
    }

    pub(crate) fn schedstat(&self, buffer: &mut Buffer) -> Option<SchedStat> {
        schedstat::parse(&text(self.schedstat.as_ref()?, buffer)?)
    }

    /// The processes that the thread started; those of a thread that has ended are its process'.
    pub(crate) fn children(&self, buffer: &mut Buffer) -> Vec<u32> {
        let text = self.children.as_ref().and_then(|file| text(file, buffer));
        let text = text.unwrap_or_default();
        text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
    }

    /// Whether the arguments of system calls can be seen.
    pub(crate) fn shows_calls(&self) -> bool {
        self.syscall.is_some()
    }

    /// Whether it can be seen what the thread waits for.
    pub(crate) fn shows_waits(&self) -> bool {
        self.syscall.is_some() || self.wchan.is_some()
    }

    /// What the thread does right now.
    pub(crate) fn doing(&self, buffer: &mut Buffer) -> Option<Seen> {
        if let Some(file) = &self.syscall {
            return syscall::parse(&text(file, buffer)?).map(Seen::Doing);
        }
        let function = text(self.wchan.as_ref()?, buffer)?;
        let function = function.trim_end();
        let is_waiting = !function.is_empty() && function != "0";
        Some(Seen::Outline { is_waiting, is_futex: function.starts_with("futex") })
    }
}

fn is_refused(read: &io::Result<usize>) -> bool {
    read.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// The contents of a file; nothing once its thread has ended.
fn text<'buffer>(file: &File, buffer: &'buffer mut Buffer) -> Option<Cow<'buffer, str>> {
    let read = file.read_at(buffer, 0).ok()?;
    // A thread can be named by any bytes.
    Some(String::from_utf8_lossy(&buffer[..read]))
}
