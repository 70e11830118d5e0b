//! Which calls fail, with what, and what has been called so far.

use std::collections::BTreeMap;
use std::fmt;

/// The call by which the program says that faults are to end: `prctl` with an option that the
/// kernel does not know.
pub(crate) const FAULTS_END: (i64, u64) = (libc::SYS_prctl, 0x4645_4e44);

/// The calls that can fail, and their names. Those that give a number that is there, and those that
/// do not come back, cannot.
const CALLS: &[(i64, &str)] = &[
    (libc::SYS_mmap, "mmap"),
    (libc::SYS_mprotect, "mprotect"),
    (libc::SYS_munmap, "munmap"),
    (libc::SYS_mremap, "mremap"),
    (libc::SYS_madvise, "madvise"),
    (libc::SYS_clone, "clone"),
    (libc::SYS_futex, "futex"),
    (libc::SYS_rt_sigprocmask, "rt_sigprocmask"),
    (libc::SYS_prctl, "prctl"),
    (libc::SYS_prlimit64, "prlimit64"),
    (libc::SYS_sched_getaffinity, "sched_getaffinity"),
    (libc::SYS_clock_gettime, "clock_gettime"),
    (libc::SYS_openat, "openat"),
    (libc::SYS_read, "read"),
    (libc::SYS_close, "close"),
];

const INFALLIBLE: &[i64] = &[libc::SYS_getpid, libc::SYS_gettid, libc::SYS_exit];

/// Whether a call waits for a word to change. One that wakes who waits cannot fail.
fn is_wait(arguments: &[u64; 6]) -> bool {
    arguments[1] & libc::FUTEX_CMD_MASK as u64 == libc::FUTEX_WAIT as u64
}

/// A call at a place in the library: the same in every run.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    call: String,
    offset: u64,
}

impl Place {
    /// `None` for a call that cannot fail.
    pub(crate) fn new(number: i64, arguments: &[u64; 6], offset: u64) -> Option<Self> {
        let cannot_fail =
            INFALLIBLE.contains(&number) || number == libc::SYS_futex && !is_wait(arguments);
        if cannot_fail {
            return None;
        }
        let name = CALLS.iter().find(|(known, _)| *known == number).map(|(_, name)| *name);
        let call = match name {
            Some("madvise") => format!("madvise.{}", arguments[2]),
            Some(name) => name.to_owned(),
            None => format!("unknown.{number}"),
        };
        Some(Self { call, offset })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{:x}", self.call, self.offset)
    }
}

enum Where {
    Nowhere,
    Anywhere,
    At(String),
}

/// What is to fail, and what was counted.
pub(crate) struct Plan {
    at: Where,
    /// The n-th alone, or all.
    nth: Option<u64>,
    errors: Vec<i32>,
    is_over: bool,
    counts: BTreeMap<Place, u64>,
    /// Calls that were to be looked at so far.
    met: u64,
    failed: u64,
}

impl Plan {
    /// The plan that the arguments ask for.
    pub(crate) fn parse(place: &str, which: &str, errors: &str) -> Option<Self> {
        let at = match place {
            "none" => Where::Nowhere,
            "any" => Where::Anywhere,
            place => Where::At(place.to_owned()),
        };
        let nth = if which == "all" { None } else { Some(which.parse().ok()?) };
        let errors = errors.split(',').map(|it| it.parse().ok()).collect::<Option<_>>()?;
        let counts = BTreeMap::new();
        Some(Self { at, nth, errors, is_over: false, counts, met: 0, failed: 0 })
    }

    /// No call fails any more.
    pub(crate) fn end(&mut self) {
        self.is_over = true;
    }

    /// Counts a call, and says which error it is to fail with, if it is.
    pub(crate) fn meet(&mut self, place: Place) -> Option<i32> {
        let concerned = match &self.at {
            Where::Nowhere => false,
            Where::Anywhere => true,
            Where::At(wanted) => place.to_string() == *wanted,
        };
        *self.counts.entry(place).or_default() += 1;
        if !concerned || self.is_over {
            return None;
        }
        self.met += 1;
        if self.nth.is_some_and(|nth| nth != self.met) {
            return None;
        }
        let error = self.errors[self.failed as usize % self.errors.len()];
        self.failed += 1;
        Some(error)
    }

    /// Says what was called, and how many calls failed.
    pub(crate) fn say(&self) {
        for (place, count) in &self.counts {
            println!("place: {place} {count}");
        }
        println!("failed: {}", self.failed);
    }
}
