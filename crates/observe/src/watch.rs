//! Watching the threads of a process and of those that descend from it: counters at the ends of an
//! interval, looks at what they wait for in between. It must not know what is made of it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::clock;
use crate::counters::{Reading, ticks};
use crate::counting::{Counting, Policy, Precision};
use crate::micro::{Counted, Waits};
use crate::pace::Pace;
use crate::perf::tracepoint::{Counts, Tracepoints};
use crate::proc::pagemap;
use crate::proc::schedstat::SchedStat;
use crate::proc::status::Switches;
use crate::proc::syscall::{Call, Doing};
use crate::proc::task::{Buffer, Seen, TaskFiles, buffer};
use crate::proc::tree;
use crate::syscalls::is_futex_wait;

/// How long a new thread may stay unnoticed.
const DISCOVERY_NS: u64 = 100_000_000;

/// How long a new process may stay unnoticed.
const DESCENT_NS: u64 = 500_000_000;

/// How long counters may stay unread: what a thread counts after that is lost if it ends.
const READING_NS: u64 = 1_000_000_000;

/// A thread, by its process and number.
pub(crate) type ThreadKey = (u32, u32);

/// How many threads each process had, in the order of processes, before those that are known were
/// read.
type Headcount = Vec<(u32, Option<u64>)>;

/// A thread that was seen waiting in a system call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sighting {
    /// The thread.
    pub(crate) thread: ThreadKey,
    /// The call that it waits in.
    pub(crate) call: Call,
    /// How often the thread had been given a processor: another number is another wait.
    pub(crate) turns: Option<u64>,
    /// When it was seen.
    pub(crate) at_ns: u64,
}

/// Who is told of threads that wait. The second argument tells whether the thread still waits in
/// the same call, so that what was read of it meanwhile belongs together.
pub(crate) type See<'a> = dyn FnMut(&Sighting, &mut dyn FnMut() -> bool) + 'a;

/// What happened to a thread in an interval.
#[derive(Debug, Clone, Default)]
pub(crate) struct ThreadTime {
    /// Its process.
    pub(crate) pid: u32,
    /// Its number.
    pub(crate) tid: u32,
    /// Its name.
    pub(crate) name: String,
    /// Whether it has ended.
    pub(crate) has_ended: bool,
    /// Times and looks.
    pub(crate) counted: Counted,
    /// Switches.
    pub(crate) switches: Switches,
    /// Faults without a disk.
    pub(crate) minor_faults: u64,
    /// Faults with one.
    pub(crate) major_faults: u64,
    /// System calls and signals, where they are counted.
    pub(crate) counts: Option<Counts>,
}

/// What happened in an interval.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interval {
    /// When it ended, in nanoseconds since watching began.
    pub(crate) end_ns: u64,
    /// How long it was.
    pub(crate) ns: u64,
    /// The threads that there were.
    pub(crate) threads: Vec<ThreadTime>,
    /// Processor time of threads that were never seen.
    pub(crate) unseen_ns: u64,
    /// Looks that were taken.
    pub(crate) looks: u32,
    /// Processor time of the observer.
    pub(crate) observer_ns: u64,
    /// The part of it that went into looks.
    pub(crate) looks_ns: u64,
    /// How system calls and signals were counted.
    pub(crate) counted: Precision,
}

struct Thread {
    files: TaskFiles,
    counting: Counting,
    /// What the counters said at the beginning of the interval.
    first: Reading,
    /// What they said last.
    last: Reading,
    /// What it was last seen waiting for, and what the scheduler said then.
    seen: Option<(SchedStat, Seen)>,
    /// Since when it is watched in this interval, and until when.
    from_ns: u64,
    until_ns: u64,
    /// How often it was looked at in this interval, and what it was seen waiting for.
    looks: u32,
    waits: Waits,
    /// Waiting for a processor that was counted before the scheduler did, which counts it when it
    /// is over.
    ahead_ns: u64,
    has_ended: bool,
}

/// Watches a process and its descendants.
pub(crate) struct Watch {
    root: u32,
    threads: BTreeMap<ThreadKey, Thread>,
    /// The processes, with the processor time of each at the beginning of the interval.
    processes: BTreeMap<u32, u64>,
    buffer: Box<Buffer>,
    pace: Pace,
    /// When to look next.
    due_ns: u64,
    began_ns: u64,
    interval_ns: u64,
    discovered_ns: u64,
    descended_ns: u64,
    /// When counters were read last.
    read_ns: u64,
    looks: u32,
    looks_ns: u64,
    observer_ns: u64,
    /// How system calls and signals are counted.
    policy: Policy,
    /// Whether calls, and times, could be seen of threads that have ended since.
    has_shown_calls: bool,
    has_shown_times: bool,
}

impl Watch {
    /// Begins to watch, for this part of a processor. What happened before does not count.
    pub(crate) fn new(root: u32, budget: f64) -> Self {
        Self::counting(root, budget, None)
    }

    /// The same, with system calls and signals counted at these tracepoints.
    pub(crate) fn counting(root: u32, budget: f64, tracepoints: Option<Tracepoints>) -> Self {
        allow_many_files();
        let now = clock::now_ns();
        let mut watch = Self {
            root,
            threads: BTreeMap::new(),
            processes: BTreeMap::new(),
            buffer: buffer(),
            pace: Pace::new(now, budget),
            due_ns: now,
            began_ns: now,
            interval_ns: now,
            discovered_ns: 0,
            descended_ns: 0,
            read_ns: now,
            looks: 0,
            looks_ns: 0,
            policy: Policy::new(tracepoints, now),
            observer_ns: clock::own_thread_ns(),
            has_shown_calls: false,
            has_shown_times: false,
        };
        watch.discover(now, &Headcount::new());
        watch.due_ns += watch.pace.next().as_nanos() as u64;
        for thread in watch.threads.values_mut() {
            thread.first = thread.last.clone();
            thread.from_ns = now;
        }
        watch
    }

    /// The processes that are watched.
    pub(crate) fn processes(&self) -> Vec<u32> {
        self.processes.keys().copied().collect()
    }

    /// Whether there is anything left to watch.
    pub(crate) fn is_over(&self) -> bool {
        self.threads.values().all(|thread| thread.has_ended)
    }

    /// Whether the calls that threads wait in can be seen.
    pub(crate) fn shows_calls(&self) -> bool {
        self.has_shown_calls || self.threads.values().any(|thread| thread.files.shows_calls())
    }

    /// From now on looking may take this part of a processor.
    pub(crate) fn allow(&mut self, budget: f64) {
        self.pace.allow(budget);
    }

    /// Whether the scheduler's exact times can be had.
    pub(crate) fn shows_times(&self) -> bool {
        let shows = |thread: &Thread| thread.last.sched.is_some();
        self.has_shown_times || self.threads.values().any(shows)
    }

    /// Looks again and again for this long, or until `pause` says that it is enough. Between two
    /// looks it calls `pause`, which is to wait for the given time. A look that is due only after
    /// the end is made in the next interval.
    pub(crate) fn look_for(
        &mut self,
        duration: Duration,
        pause: &mut dyn FnMut(Duration) -> ControlFlow<()>,
        see: &mut See<'_>,
    ) -> ControlFlow<()> {
        let end = self.interval_ns + duration.as_nanos() as u64;
        self.policy.open_window(countings(&mut self.threads), clock::now_ns());
        loop {
            let now = clock::now_ns();
            self.pause_until(end.min(self.due_ns), pause)?;
            if end <= self.due_ns.max(now) {
                return ControlFlow::Continue(());
            }
            self.look(see);
            self.due_ns = clock::now_ns() + self.pace.next().as_nanos() as u64;
            if self.is_over() {
                return ControlFlow::Break(());
            }
        }
    }

    /// Waits until then, and ends the window in which calls are counted meanwhile.
    fn pause_until(
        &mut self,
        end_ns: u64,
        pause: &mut dyn FnMut(Duration) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        loop {
            let until = self.policy.until_ns();
            pause(Duration::from_nanos(end_ns.min(until).saturating_sub(clock::now_ns())))?;
            let now = clock::now_ns();
            if until <= now {
                let countings = countings(&mut self.threads).map(|(_, counting)| counting);
                self.policy.close_window(countings, now);
            }
            if end_ns <= until {
                return ControlFlow::Continue(());
            }
        }
    }

    /// Looks once at every thread, and tells `see` of those that wait in a system call.
    pub(crate) fn look(&mut self, see: &mut See<'_>) {
        let before = clock::own_thread_ns();
        let now = clock::now_ns();
        let headcount = (now - self.discovered_ns >= DISCOVERY_NS).then(|| self.headcount());
        if now - self.read_ns >= READING_NS {
            self.read_ns = now;
            for thread in self.threads.values_mut() {
                thread.refresh(&mut self.buffer);
            }
        }
        for (&key, thread) in self.threads.iter_mut().filter(|(_, thread)| !thread.has_ended) {
            thread.show(key, &mut self.buffer, see);
        }
        if let Some(headcount) = headcount {
            for key in self.discover(now, &headcount) {
                if let Some(thread) = self.threads.get_mut(&key) {
                    thread.show(key, &mut self.buffer, see);
                }
            }
        }
        self.looks += 1;
        let took = clock::own_thread_ns() - before;
        self.looks_ns += took;
        self.pace.looked(Duration::from_nanos(took));
    }

    /// Ends the interval and begins the next.
    pub(crate) fn close(&mut self) -> Interval {
        let now = clock::now_ns();
        let headcount = self.headcount();
        let mut interval = Interval {
            end_ns: now - self.began_ns,
            ns: now - self.interval_ns,
            looks: std::mem::take(&mut self.looks),
            looks_ns: std::mem::take(&mut self.looks_ns),
            counted: self.policy.precision(),
            ..Interval::default()
        };
        for (&(pid, tid), thread) in &mut self.threads {
            interval.threads.push(thread.close(pid, tid, &mut self.buffer));
        }
        for (pid, tid) in self.discover(now, &headcount) {
            if let Some(thread) = self.threads.get_mut(&(pid, tid)) {
                interval.threads.push(thread.close(pid, tid, &mut self.buffer));
            }
        }
        interval.threads.sort_by_key(|thread| (thread.pid, thread.tid));
        let calls = interval.threads.iter().filter_map(|thread| thread.counts);
        let calls = calls.map(|counts| counts.calls).sum();
        let countings = countings(&mut self.threads);
        self.policy.close_interval(countings, calls, interval.ns, clock::now_ns());
        self.has_shown_calls = self.shows_calls();
        self.has_shown_times = self.shows_times();
        self.threads.retain(|_, thread| !thread.has_ended);
        interval.unseen_ns = self.unseen(&interval.threads);
        let observer_ns = clock::own_thread_ns();
        interval.observer_ns = observer_ns - std::mem::replace(&mut self.observer_ns, observer_ns);
        self.interval_ns = now;
        self.read_ns = now;
        interval
    }

    /// Counts the threads of each process.
    fn headcount(&self) -> Headcount {
        self.processes.keys().map(|&pid| (pid, tree::thread_count(pid))).collect()
    }

    /// Whether nobody was new when heads were counted: those that were known before, and were found
    /// to be there still since, were as many.
    fn knows_all(&self, pid: u32, headcount: &Headcount) -> bool {
        let Ok(at) = headcount.binary_search_by_key(&pid, |&(pid, _)| pid) else { return false };
        let threads = self.threads.range((pid, 0)..=(pid, u32::MAX));
        let known = threads.filter(|(_, thread)| !thread.has_ended).count();
        headcount[at].1 == Some(known as u64)
    }

    /// Finds processes and threads that are new, where heads were counted and all threads read
    /// since; without a count everywhere. Returns the threads.
    fn discover(&mut self, now: u64, headcount: &Headcount) -> Vec<ThreadKey> {
        let mut found = Vec::new();
        self.discovered_ns = now;
        let is_due = now - self.descended_ns >= DESCENT_NS;
        let mut known: Vec<u32> = self.processes.keys().copied().collect();
        if known.is_empty() {
            known.push(self.root);
        }
        while let Some(pid) = known.pop() {
            self.discover_threads(now, pid, headcount, &mut found);
            if is_due {
                let new = self.children(pid);
                known.extend(new.iter().filter(|child| !self.processes.contains_key(child)));
            }
        }
        if is_due {
            self.descended_ns = now;
        }
        found
    }

    /// Finds the threads of a process that are new.
    fn discover_threads(
        &mut self,
        now: u64,
        pid: u32,
        headcount: &Headcount,
        found: &mut Vec<ThreadKey>,
    ) {
        let is_beginning = self.began_ns == self.interval_ns && self.descended_ns == 0;
        self.processes.entry(pid).or_insert_with(|| {
            // A process that is new has used all its time within the interval.
            if is_beginning { clock::process_ns(pid).unwrap_or(0) } else { 0 }
        });
        if self.knows_all(pid, headcount) {
            return;
        }
        for tid in tree::threads(pid) {
            if !self.threads.contains_key(&(pid, tid))
                && let Some(mut thread) = Thread::new(pid, tid, self.interval_ns, &mut self.buffer)
            {
                self.policy.begin(&mut thread.counting, tid, now);
                self.threads.insert((pid, tid), thread);
                found.push((pid, tid));
            }
        }
    }

    /// The processes that a process has started.
    fn children(&mut self, pid: u32) -> Vec<u32> {
        let threads = self.threads.range((pid, 0)..=(pid, u32::MAX));
        threads.flat_map(|(_, thread)| thread.files.children(&mut self.buffer)).collect()
    }

    /// The processor time of all processes that none of the threads accounts for.
    fn unseen(&mut self, threads: &[ThreadTime]) -> u64 {
        let mut unseen = 0;
        self.processes.retain(|&pid, before| {
            let Some(now) = clock::process_ns(pid) else { return false };
            let own = threads.iter().filter(|thread| thread.pid == pid);
            let seen: u64 = own.map(|thread| thread.counted.run_ns).sum();
            unseen += (now - std::mem::replace(before, now)).saturating_sub(seen);
            true
        });
        unseen
    }
}

impl Thread {
    /// A thread that is new; nothing for one that has ended already.
    fn new(pid: u32, tid: u32, interval_ns: u64, buffer: &mut Buffer) -> Option<Self> {
        let files = TaskFiles::open(pid, tid).ok()?;
        let sched = files.schedstat(buffer);
        let last = Reading::of(&files, sched, buffer)?;
        if matches!(last.stat.state, 'Z' | 'X') {
            return None;
        }
        Some(Self {
            files,
            counting: Counting::default(),
            first: Reading::default(),
            from_ns: clock::from_boot_ticks(last.stat.began_ticks).max(interval_ns),
            until_ns: clock::now_ns(),
            last,
            seen: None,
            looks: 0,
            waits: Waits::default(),
            ahead_ns: 0,
            has_ended: false,
        })
    }

    /// Looks at what the thread does, and tells `see` if it waits in a system call.
    fn show(&mut self, key: ThreadKey, buffer: &mut Buffer, see: &mut See<'_>) {
        if let Some(call) = self.look(key.0, buffer) {
            let turns = self.seen.map(|(sched, _)| sched.turns);
            let sighting = Sighting { thread: key, call, turns, at_ns: self.until_ns };
            see(&sighting, &mut || self.waits_on(buffer));
        }
    }

    /// Looks at what the thread does, and returns the system call that it waits in.
    fn look(&mut self, pid: u32, buffer: &mut Buffer) -> Option<Call> {
        let sched = self.files.schedstat(buffer);
        // A thread that was given no processor since waits on.
        let waits_on = self.seen.filter(|(before, _)| Some(*before) == sched);
        let Some(seen) = waits_on.map(|(_, seen)| seen).or_else(|| self.files.doing(buffer)) else {
            // Of somebody else's it cannot be seen; that it is there still tell the counters.
            self.has_ended = self.files.shows_waits() || self.files.stat(buffer).is_none();
            return None;
        };
        self.until_ns = clock::now_ns();
        self.looks += 1;
        self.last.sched = sched.or(self.last.sched);
        self.seen = sched.filter(|_| seen.is_waiting()).map(|sched| (sched, seen));
        let (waits, call) = match seen {
            Seen::Doing(Doing::Running) | Seen::Outline { is_waiting: false, .. } => return None,
            Seen::Doing(Doing::Call(call)) => (waits_in(&call), Some(call)),
            Seen::Doing(Doing::Fault { pc, .. }) => (self.outside_of_calls(pid, pc, buffer)?, None),
            Seen::Outline { is_futex: true, .. } => (Waits { futex: 1, ..Waits::default() }, None),
            Seen::Outline { is_futex: false, .. } => (OTHER, None),
        };
        self.waits += waits;
        call
    }

    /// Whether the thread still waits for what it was seen waiting for.
    fn waits_on(&self, buffer: &mut Buffer) -> bool {
        match self.seen {
            Some((sched, _)) => self.files.schedstat(buffer) == Some(sched),
            None => false,
        }
    }

    /// A thread that waits outside of system calls is in a fault, was stopped, or has ended. The
    /// fault is of the program's text if what the thread is to run next is not there.
    fn outside_of_calls(&mut self, pid: u32, pc: u64, buffer: &mut Buffer) -> Option<Waits> {
        match self.files.stat(buffer).map_or('X', |stat| stat.state) {
            'S' | 'D' if pagemap::is_present(pid, pc) == Some(false) => {
                Some(Waits { text_fault: 1, ..Waits::default() })
            }
            'S' | 'D' => Some(Waits { data_fault: 1, ..Waits::default() }),
            'R' => None,
            'Z' | 'X' => {
                self.has_ended = true;
                None
            }
            _ => Some(OTHER),
        }
    }

    /// Reads the counters, and tells whether they can have moved in the interval: not if the thread
    /// was given no processor.
    fn refresh(&mut self, buffer: &mut Buffer) -> bool {
        let sched = self.files.schedstat(buffer);
        if sched.is_some() && sched == self.first.sched && self.seen.is_some() {
            return false;
        }
        match Reading::of(&self.files, sched, buffer) {
            Some(reading) => self.last = reading,
            None => self.has_ended = true,
        }
        true
    }

    /// What happened to the thread in the interval; the next one begins.
    fn close(&mut self, pid: u32, tid: u32, buffer: &mut Buffer) -> ThreadTime {
        let has_moved = self.refresh(buffer);
        // Of a thread that has ended but not been waited for the counters are final.
        self.has_ended |= matches!(self.last.stat.state, 'Z' | 'X');
        if !self.has_ended {
            self.until_ns = clock::now_ns();
        }
        let counted = self.counted();
        let counts = self.counting.counts(has_moved, counted.run_ns, self.until_ns);
        let (first, last) = (&self.first, &self.last);
        let time = ThreadTime {
            pid,
            tid,
            name: last.stat.name.clone(),
            has_ended: self.has_ended,
            counted,
            switches: Switches {
                voluntary: last.switches.voluntary - first.switches.voluntary,
                involuntary: last.switches.involuntary - first.switches.involuntary,
            },
            minor_faults: last.stat.minor_faults - first.stat.minor_faults,
            major_faults: last.stat.major_faults - first.stat.major_faults,
            counts,
        };
        if has_moved {
            self.first = self.last.clone();
        }
        self.from_ns = self.until_ns;
        (self.looks, self.waits) = (0, Waits::default());
        time
    }

    /// The times of the interval.
    fn counted(&mut self) -> Counted {
        let (first, last) = (&self.first, &self.last);
        let (user_ticks, system_ticks) = ticks(&first.stat, &last.stat);
        let (before, after) = (first.times(), last.times());
        let voluntary = last.switches.voluntary - first.switches.voluntary;
        let mut counted = Counted {
            wall_ns: self.until_ns.saturating_sub(self.from_ns),
            run_ns: after.run_ns.saturating_sub(before.run_ns),
            wait_ns: after.wait_ns.saturating_sub(before.wait_ns + self.ahead_ns),
            user_ticks,
            system_ticks,
            looks: self.looks,
            waits: self.waits,
            shows_waits: self.files.shows_waits(),
        };
        let never_waited = voluntary == 0 && self.waits.total() == 0;
        let ahead_ns = if never_waited { counted.rest_ns() } else { 0 };
        counted.wait_ns += ahead_ns;
        // What the scheduler has counted meanwhile is no longer ahead of it.
        let caught_up = after.wait_ns.saturating_sub(before.wait_ns);
        self.ahead_ns = self.ahead_ns.saturating_sub(caught_up) + ahead_ns;
        counted
    }
}

/// Allows this process as many open files as it may have: there are some for each thread.
fn allow_many_files() {
    let limits = getrlimit(Resource::Nofile);
    // Where it is refused, threads beyond the limit are not seen.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limits.maximum, ..limits });
}

/// What counts the calls of each thread.
fn countings(
    threads: &mut BTreeMap<ThreadKey, Thread>,
) -> impl Iterator<Item = (u32, &mut Counting)> {
    threads.iter_mut().map(|(&(_, tid), thread)| (tid, &mut thread.counting))
}

const OTHER: Waits = Waits { futex: 0, text_fault: 0, data_fault: 0, other: 1 };

fn waits_in(call: &Call) -> Waits {
    if is_futex_wait(call) { Waits { futex: 1, ..Waits::default() } } else { OTHER }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_that_are_rarer_than_intervals_are_made_all_the_same() {
        // So little that half a second passes between two looks.
        let mut watch = Watch::new(std::process::id(), 1e-9);
        let mut pause = |time| {
            std::thread::sleep(time);
            ControlFlow::Continue(())
        };
        let mut looks = 0;
        for _ in 0..30 {
            let _ = watch.look_for(Duration::from_millis(50), &mut pause, &mut |_, _| ());
            looks += watch.close().looks;
        }
        assert!(looks >= 1, "no look in a second and a half");
    }
}
