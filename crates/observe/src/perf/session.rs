//! The events of all threads of a process: samples of where they run and fault, and windows in
//! which it is counted how often they call certain functions.

use std::collections::HashMap;
use std::fs;
use std::io;

use super::event::{Event, Wanted};
use super::record::Record;
use super::ring::Ring;
use crate::proc::tree;

/// Pages of a ring: what every user may have, a processor, with the usual settings.
const PAGES: usize = 128;

/// Smaller rings, for systems with less.
const FEW_PAGES: usize = 16;

/// As many as are asked for in a few milliseconds.
const FEW_EVENTS: usize = 1000;

/// What a sample is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Time on a processor in user mode.
    Clock,
    /// Page faults of user code.
    Fault,
}

/// The events of a process.
pub(crate) struct Session {
    is_brief: bool,
    rings: Vec<Ring>,
    kinds: HashMap<u64, Kind>,
    events: Vec<Event>,
    /// Those of the clock.
    clocks: Vec<usize>,
}

impl Session {
    /// Begins to record all threads of a process and of its descendants, and those that they will
    /// start; but time only when that is enabled. A brief session samples time more often.
    pub(crate) fn of(pid: u32, is_brief: bool) -> io::Result<Self> {
        let mut session = Self {
            is_brief,
            rings: Vec::new(),
            kinds: HashMap::new(),
            events: Vec::new(),
            clocks: Vec::new(),
        };
        let threads: Vec<_> = tree::family(pid).into_iter().flat_map(tree::threads).collect();
        for cpu in processors() {
            session.add_processor(&threads, cpu)?;
        }
        Ok(session)
    }

    /// Records these threads on a processor, into a ring of its own.
    fn add_processor(&mut self, threads: &[u32], cpu: u32) -> io::Result<()> {
        let leader = self.events.len();
        let clock = Wanted::Clock { is_brief: self.is_brief };
        for &tid in threads {
            for (wanted, kind) in [(clock, Kind::Clock), (Wanted::Faults, Kind::Fault)] {
                let event = match Event::open(wanted, tid, Some(cpu)) {
                    Ok(event) => event,
                    // It has ended.
                    Err(error) if is_gone(&error) => continue,
                    Err(error) => return Err(error),
                };
                self.kinds.insert(event.id()?, kind);
                if self.events.len() == leader {
                    let ring = Ring::map(&event, PAGES).or_else(|_| Ring::map(&event, FEW_PAGES));
                    self.rings.push(ring?);
                } else {
                    event.output_to(&self.events[leader])?;
                }
                if kind == Kind::Clock {
                    self.clocks.push(self.events.len());
                }
                self.events.push(event);
            }
        }
        Ok(())
    }

    /// Whether it is a brief one.
    pub(crate) fn is_brief(&self) -> bool {
        self.is_brief
    }

    /// Whether it is soon begun again: not for thousands of threads and processors.
    pub(crate) fn is_small(&self) -> bool {
        self.events.len() <= FEW_EVENTS
    }

    /// Samples time, or no longer.
    pub(crate) fn sample_time(&self, on: bool) {
        for &clock in &self.clocks {
            // Fails for a thread that has ended, of which there is nothing to sample.
            let _ = self.events[clock].enable(on);
        }
    }

    /// Gives every record that has come to `take`; samples with their kind. Those of one processor
    /// come in the order of time.
    pub(crate) fn drain(&mut self, take: &mut dyn FnMut(Option<Kind>, Record<'_>)) {
        let Self { rings, kinds, .. } = self;
        for ring in rings {
            ring.drain(&mut |record| {
                let kind = match &record {
                    Record::Sample(sample) => kinds.get(&sample.id).copied(),
                    _ => None,
                };
                take(kind, record);
            });
        }
    }
}

fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ESRCH)
}

/// Processors that are online.
fn processors() -> Vec<u32> {
    let list = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let found = parse_list(&list);
    if found.is_empty() { vec![0] } else { found }
}

/// Reads a list such as `0-3,8`.
fn parse_list(text: &str) -> Vec<u32> {
    let part = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    text.trim().split(',').filter_map(part).flatten().collect()
}

/// Counts how often threads call a function, while it is told to.
pub(crate) struct Passing {
    events: Vec<Event>,
}

impl Passing {
    /// Prepares to count how often the threads of a process, and those that they will start, pass
    /// an address.
    pub(crate) fn of(pid: u32, address: u64) -> io::Result<Self> {
        let threads = tree::threads(pid);
        let events = threads.iter().map(|&tid| Event::open(Wanted::Passing(address), tid, None));
        Ok(Self { events: events.collect::<io::Result<_>>()? })
    }

    /// Counts, or no longer.
    pub(crate) fn enable(&self, on: bool) {
        for event in &self.events {
            // Fails for a thread that has ended, which counts no more.
            let _ = event.enable(on);
        }
    }

    /// What was counted.
    pub(crate) fn count(&self) -> u64 {
        self.events.iter().filter_map(|event| event.count().ok()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_read() {
        assert_eq!(parse_list("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(parse_list("0\n"), [0]);
        assert!(parse_list("").is_empty());
    }
}
