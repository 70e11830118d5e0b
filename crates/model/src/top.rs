//! Where each thread's time goes: what `freehold top` shows of an interval.

use serde::{Deserialize, Serialize};

use crate::evidence::{Cost, Gap, Source};
use crate::schema::Document;

/// Shares of a thread's time, from 0 to 1. Together they make 1; what this system cannot tell is
/// `None` and is part of another share, as `missing` of the report says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Shares {
    /// On a processor in user mode.
    pub usr: f64,
    /// On a processor in the kernel.
    pub sys: f64,
    /// In traps.
    pub trp: Option<f64>,
    /// Waiting for a fault of the program's text.
    pub tfl: Option<f64>,
    /// Waiting for a fault of its data.
    pub dfl: Option<f64>,
    /// Waiting for a lock or a condition of the program.
    pub lck: Option<f64>,
    /// Asleep for another reason.
    pub slp: f64,
    /// Runnable, waiting for a processor.
    pub lat: f64,
}

impl Shares {
    /// The sum, which is 1 for a thread that was seen at all.
    pub fn total(&self) -> f64 {
        let told = [self.trp, self.tfl, self.dfl, self.lck];
        self.usr + self.sys + self.slp + self.lat + told.into_iter().flatten().sum::<f64>()
    }

    /// Waiting for faults of text and data.
    pub fn faults(&self) -> f64 {
        self.tfl.unwrap_or_default() + self.dfl.unwrap_or_default()
    }

    /// Adds another's shares, weighted.
    pub fn add(&mut self, other: &Self, weight: f64) {
        let add_told = |own: &mut Option<f64>, more: Option<f64>| {
            if let Some(more) = more {
                *own = Some(own.unwrap_or_default() + more * weight);
            }
        };
        self.usr += other.usr * weight;
        self.sys += other.sys * weight;
        self.slp += other.slp * weight;
        self.lat += other.lat * weight;
        add_told(&mut self.trp, other.trp);
        add_told(&mut self.tfl, other.tfl);
        add_told(&mut self.dfl, other.dfl);
        add_told(&mut self.lck, other.lck);
    }
}

/// A thread, or a process with all its threads.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TopRow {
    /// The process.
    pub pid: u32,
    /// The thread; `None` for a process with all its threads.
    pub tid: Option<u32>,
    /// Its name.
    pub name: String,
    /// How many threads this is.
    pub threads: u32,
    /// How many of them have ended.
    pub ended: u32,
    /// The time that the shares are shares of, in seconds; for a process, of all its threads.
    pub seconds: f64,
    /// Where that time went.
    pub shares: Shares,
    /// Switches because it had to wait.
    pub voluntary_switches: u64,
    /// Switches because somebody else was to run.
    pub involuntary_switches: u64,
    /// System calls.
    pub system_calls: Option<u64>,
    /// Signals.
    pub signals: Option<u64>,
    /// Page faults served without a disk.
    pub minor_faults: u64,
    /// Page faults that had to wait for one.
    pub major_faults: u64,
    /// The system call that it was most often seen waiting in.
    pub waits_in: Option<String>,
}

/// An interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TopReport {
    /// When the interval ended, in seconds since observing began.
    pub end_seconds: f64,
    /// How long it was.
    pub seconds: f64,
    /// Threads, or processes.
    pub rows: Vec<TopRow>,
    /// Processor time in this interval of threads that came and went between two looks.
    pub unseen_cpu_seconds: f64,
    /// Where the numbers come from.
    pub sources: Vec<Source>,
    /// What could not be had.
    pub missing: Vec<Gap>,
    /// What observing cost.
    pub cost: Cost,
}

impl Document for TopReport {
    const KIND: &'static str = "top";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weighted_shares_of_threads_add_up_to_those_of_their_process() {
        let busy = Shares { usr: 0.75, lat: 0.25, lck: Some(0.0), ..Shares::default() };
        let waiting = Shares { slp: 0.5, lck: Some(0.5), ..Shares::default() };
        let mut both = Shares::default();
        both.add(&busy, 0.5);
        both.add(&waiting, 0.5);
        let expected =
            Shares { usr: 0.375, lat: 0.125, slp: 0.25, lck: Some(0.25), ..Shares::default() };
        assert_eq!(both, expected);
        assert!((both.total() - 1.0).abs() < 1e-12);
    }
}
