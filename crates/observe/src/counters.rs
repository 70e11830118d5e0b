//! The counters that the kernel keeps for a thread, read at one moment.

use crate::clock;
use crate::proc::schedstat::SchedStat;
use crate::proc::stat::Stat;
use crate::proc::status::Switches;
use crate::proc::task::{Buffer, TaskFiles};

/// Below so many ticks the proportion of user and system time is taken from the thread's whole
/// life rather than from the interval.
const ENOUGH_TICKS: u64 = 8;

/// What the counters of a thread say.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reading {
    /// The scheduler's times, where it has any.
    pub(crate) sched: Option<SchedStat>,
    /// Times in ticks, and faults.
    pub(crate) stat: Stat,
    /// Switches.
    pub(crate) switches: Switches,
}

impl Reading {
    /// All counters, with those of the scheduler that were just read; nothing once the thread has
    /// ended.
    pub(crate) fn of(
        files: &TaskFiles,
        sched: Option<SchedStat>,
        buffer: &mut Buffer,
    ) -> Option<Self> {
        let stat = files.stat(buffer)?;
        let switches = files.switches(buffer)?;
        Some(Self { sched, stat, switches })
    }

    /// The scheduler's times, or what the ticks say where it has none.
    pub(crate) fn times(&self) -> SchedStat {
        let ticks = self.stat.user_ticks + self.stat.system_ticks;
        self.sched
            .unwrap_or_else(|| SchedStat { run_ns: clock::of_ticks(ticks), ..SchedStat::default() })
    }
}

/// User and system ticks of an interval, or of the thread's whole life if there were too few.
pub(crate) fn ticks(first: &Stat, last: &Stat) -> (u64, u64) {
    let user = last.user_ticks.saturating_sub(first.user_ticks);
    let system = last.system_ticks.saturating_sub(first.system_ticks);
    if user + system >= ENOUGH_TICKS {
        (user, system)
    } else {
        (last.user_ticks, last.system_ticks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(user_ticks: u64, system_ticks: u64) -> Stat {
        Stat { user_ticks, system_ticks, ..Stat::default() }
    }

    #[test]
    fn few_ticks_do_not_decide_the_proportion() {
        assert_eq!(ticks(&stat(10, 10), &stat(30, 15)), (20, 5));
        assert_eq!(ticks(&stat(30, 10), &stat(32, 10)), (32, 10));
    }
}
