//! What this user may see on this system, and what would have to be set to see more.

use std::fs;

use freehold_model::{Gap, Source};

use crate::counting::Precision;

/// What would allow samples of running code.
pub(crate) const SAMPLES: &str = "sysctl kernel.perf_event_paranoid=2, or be root";

/// What stands in the way, or does not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Access {
    /// Whether the calls that threads wait in can be seen.
    pub(crate) calls: bool,
    /// Whether the scheduler counts times.
    pub(crate) times: bool,
    /// Whether we are root.
    pub(crate) is_root: bool,
    /// `kernel.yama.ptrace_scope`; 0 where there is none.
    pub(crate) ptrace_scope: u8,
    /// `kernel.perf_event_paranoid`; 4 where perf events are not to be had at all.
    pub(crate) paranoid: i8,
}

impl Access {
    /// Reads the settings of the system.
    pub(crate) fn of_system() -> Self {
        let setting = |path: &str| fs::read_to_string(path).ok()?.trim().parse().ok();
        Self {
            is_root: rustix::process::geteuid().is_root(),
            ptrace_scope: setting("/proc/sys/kernel/yama/ptrace_scope")
                .and_then(|scope: i8| u8::try_from(scope).ok())
                .unwrap_or(0),
            paranoid: setting("/proc/sys/kernel/perf_event_paranoid").unwrap_or(4),
            ..Self::default()
        }
    }

    /// Where the numbers of `top` come from; system calls and signals may be counted.
    pub(crate) fn sources_of_times(self, counted: Precision) -> Vec<Source> {
        let mut sources = Vec::new();
        if self.times {
            sources.push(Source::new("USR+SYS, LAT", "schedstat", "nanoseconds"));
        } else {
            sources.push(Source::new("USR+SYS", "stat", "10 ms"));
        }
        sources.push(Source::new("USR : SYS", "stat", "ticks: about 2 points over 4 s"));
        let seen = if self.calls { "syscall" } else { "wchan" };
        sources.push(Source::new(
            "LCK, TFL, DFL, SLP",
            &format!("their sum is exact; split by looks at {seen}"),
            "1/sqrt(looks at the waiting thread)",
        ));
        sources.push(Source::new("VCX, ICX", "status", "exact counts"));
        sources.push(Source::new("MNF, MJF", "stat", "exact counts"));
        let precision = match counted {
            Precision::None => return sources,
            Precision::Exact => {
                "exact counts, from the moment that a thread is noticed: within 0.1 s"
            }
            Precision::Estimate => {
                "estimates: counted for 20 ms of an interval, since there are so many that \
                 counting them all would slow the program down"
            }
        };
        let tracepoints = "the tracepoints sys_enter and signal_deliver";
        sources.push(Source::new("SCL, SIG", tracepoints, precision));
        sources
    }

    /// What `top` cannot tell; system calls and signals may be counted.
    pub(crate) fn missing_times(self, counted: Precision) -> Vec<Gap> {
        let mut missing =
            vec![Gap::nowhere("TRP: Linux counts no time in traps; MNF and MJF count faults")];
        if counted == Precision::None {
            missing.push(Gap::allowed_by(
                "SCL, SIG: Linux counts them at tracepoints only",
                "be root, with tracefs in the kernel; freehold syscalls counts the calls as well, \
                 by stopping each",
            ));
        }
        if !self.times {
            let remedy = "a kernel with CONFIG_SCHED_INFO";
            missing.push(Gap::allowed_by("LAT, and exact USR+SYS", remedy));
        }
        if !self.calls {
            missing.push(Gap::allowed_by("which calls threads wait in", self.remedy()));
        }
        missing
    }

    /// Where the numbers of `locks` come from.
    pub(crate) fn sources_of_waits(self, has_samples: bool) -> Vec<Source> {
        let spinning = has_samples.then(|| {
            Source::new(
                "spinning",
                "samples of running code (perf events of user mode): the words that several \
                 threads exchange",
                "1/sqrt(samples)",
            )
        });
        if !self.calls {
            return spinning.into_iter().collect();
        }
        let mut sources = vec![
            Source::new(
                "time waited",
                "schedstat and the clock, divided by looks at syscall",
                "exact as a sum; 1/sqrt(looks) a lock",
            ),
            Source::new(
                "how often",
                "status and schedstat: switches divided among the waits that were seen",
                "an estimate",
            ),
            Source::new("the longest", "looks at the same wait", "it may have been longer"),
            Source::new("stacks", "copies of sleeping threads' stacks", "exact, a look"),
        ];
        sources.extend(spinning);
        sources
    }

    /// What `locks` cannot tell; samples were refused for this reason, if they were.
    pub(crate) fn missing_waits(self, refused: Option<&str>) -> Vec<Gap> {
        let mut missing =
            vec![Gap::nowhere("calls of futex that are refused at once: nobody sleeps in them")];
        if let Some(reason) = refused {
            let what = format!("spinning, which is time in USR ({reason})");
            missing.push(Gap::allowed_by(&what, SAMPLES));
        }
        if !self.calls {
            let what = "what threads wait for, and their stacks";
            missing.push(Gap::allowed_by(what, self.remedy()));
        }
        missing
    }

    /// What would allow looking at system calls.
    pub(crate) fn remedy(self) -> &'static str {
        if self.ptrace_scope > 0 {
            "start the command with -- CMD, be root, or sysctl kernel.yama.ptrace_scope=0"
        } else {
            "be root, or the owner of the process"
        }
    }
}
