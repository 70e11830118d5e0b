//! The processes of one run: the program, its children, theirs, and those that were left by their
//! parents and adopted by us. Read from the kernel's files; nothing is stopped.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{fs, io, process, thread};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::machine::kib_field;

/// The variable by which the processes of a run are told from others.
pub(super) const MARK: &str = "ALLOCATOR_TRIAL";

/// How long processes that were killed may take to disappear.
const DISAPPEAR_WITHIN: Duration = Duration::from_secs(5);

/// Between two looks whether they have.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Makes this process the parent of those that lose theirs, so that a run can be followed to its
/// end. Without it they are neither counted nor ended.
pub fn adopt_orphans() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// Whether the kernel tells the children of a process.
pub fn can_see_children() -> bool {
    let own = process::id();
    PathBuf::from(format!("/proc/{own}/task/{own}/children")).exists()
}

/// A mark that no other run has.
pub(super) fn new_mark() -> String {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    format!("{}-{}", process::id(), RUNS.fetch_add(1, Ordering::Relaxed))
}

/// Memory of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Memory {
    pub(super) rss_bytes: u64,
    pub(super) peak_rss_bytes: u64,
}

/// What a process holds; nothing when it has ended.
pub(super) fn memory_of(pid: u32) -> Memory {
    // Bytes: the name in it need not be text, not even where the program's is, since the kernel
    // cuts it off after fifteen bytes.
    let status = fs::read(format!("/proc/{pid}/status")).unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    Memory { rss_bytes: kib_field(&status, "VmRSS:"), peak_rss_bytes: kib_field(&status, "VmHWM:") }
}

/// Forgets the most that this process ever held: the kernel takes that for the least that any
/// child has held. Where it cannot be forgotten, small programs are seen less exactly.
pub(super) fn forget_own_peak() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// The processes of a run.
#[derive(Debug)]
pub(super) struct Family {
    root: Option<u32>,
    mark: String,
    /// Children of ours that have nothing to do with the run.
    strangers: HashSet<u32>,
}

impl Family {
    /// The family of the program `root`, which was started with this mark.
    pub(super) fn of(root: u32, mark: &str) -> Self {
        Self { root: Some(root), mark: mark.to_owned(), strangers: HashSet::new() }
    }

    /// Everybody who is there now, the program first.
    pub(super) fn members(&mut self) -> Vec<u32> {
        let mut members: Vec<u32> = self.root.into_iter().collect();
        for child in children_of(process::id()) {
            if self.root == Some(child) || self.strangers.contains(&child) {
                continue;
            }
            if has_mark(child, &self.mark) {
                members.push(child);
            } else {
                self.strangers.insert(child);
            }
        }
        let mut next = 0;
        while let Some(&member) = members.get(next) {
            members.extend(children_of(member));
            next += 1;
        }
        members
    }

    /// Ends everybody and waits until they are gone, but the program itself: that is for whoever
    /// started it. Returns how many were still at work.
    pub(super) fn end(&mut self) -> u32 {
        let deadline = Instant::now() + DISAPPEAR_WITHIN;
        let mut ended = HashSet::new();
        loop {
            // Strangers may have become one of the family: by starting the program.
            self.strangers.clear();
            let members = self.members();
            let others: Vec<Pid> = members
                .into_iter()
                .filter(|&member| Some(member) != self.root)
                .filter_map(|member| Pid::from_raw(member.cast_signed()))
                .collect();
            if others.is_empty() || Instant::now() >= deadline {
                return ended.len() as u32;
            }
            for pid in others {
                if memory_of(pid.as_raw_nonzero().get().unsigned_abs()).rss_bytes > 0 {
                    ended.insert(pid);
                }
                // It may be gone already, or be the child of another one that is to take it away.
                let _ = kill_process(pid, Signal::KILL);
                let _ = waitpid(Some(pid), WaitOptions::NOHANG);
            }
            thread::sleep(LOOK_EVERY);
        }
    }
}

/// The children of all threads of a process.
fn children_of(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let numbers = |list: String| -> Vec<u32> {
        list.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect()
    };
    lists.flat_map(numbers).collect()
}

fn has_mark(pid: u32, mark: &str) -> bool {
    let wanted = format!("{MARK}={mark}");
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|&byte| byte == 0).any(|entry| entry == wanted.as_bytes())
}
