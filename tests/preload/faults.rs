//! Every system call that the library makes fails, at each place in its code. Memory may be refused
//! then, with NULL and ENOMEM; nothing else may happen, and when the faults end everything must be
//! as ever.
//!
//! `FREEHOLD_SEED` repeats a run. `FREEHOLD_FAULTS=all` has the first call of each place fail, the
//! second, another, and all, each with every error; usually it is all and one of them, with one
//! error.

use std::env;

use crate::support::child::{Child, Ended};
use crate::support::{compile, library, seed, tools};

/// ENOMEM, EINVAL, ENOSYS, EPERM, EAGAIN.
const ERRORS: [u32; 5] = [12, 22, 38, 1, 11];

/// The calls that can fail and have to do with memory, by the names that the tracer gives them.
const OF_MEMORY: &[&str] = &["mmap@", "mprotect@", "mremap@", "madvise."];

/// What is called as well where address space is scarce.
const NEAR_A_LIMIT: &[&str] = &["munmap@"];

/// The others. Waking a thread is none of them: what it gives the kernel is just an address.
const OTHERS: &[&str] = &[
    "clock_gettime@",
    "clone@",
    "close@",
    "futex@",
    "openat@",
    "prctl@",
    "prlimit64@",
    "read@",
    "rt_sigprocmask@",
    "sched_getaffinity@",
];

/// How much a thread of the program does.
const STEPS: u64 = 300;

/// Mebibytes that stay in use meanwhile.
const STEADY: u64 = 96;

/// What the program may have at its end beyond what it asked for: the standard library's buffers,
/// what the threads had at hand, and its own pages.
const MOST_IN_USE: u64 = 1 << 20;
const MOST_RESIDENT: u64 = 16 << 20;

/// The largest region that is ever reserved, with room for its tables.
const MOST_ADDRESS_SPACE: u64 = 5 << 38;

/// A place in the library where it calls the system, and how often it did.
struct Place {
    name: String,
    count: u64,
}

impl Place {
    fn is_any_of(&self, calls: &[&str]) -> bool {
        calls.iter().any(|call| self.name.starts_with(call))
    }

    /// Whether memory may be refused when this call fails.
    fn gives_memory(&self) -> bool {
        self.is_any_of(&["mmap@", "mprotect@", "mremap@"])
    }
}

struct Experiment {
    /// The limit in mebibytes, or 0.
    address_space: u64,
    seed: u64,
}

impl Experiment {
    /// With at most so many mebibytes of address space; 0 for no limit.
    fn new(address_space: u64) -> Self {
        Self { address_space, seed: seed::any() }
    }

    /// Runs the program, and checks what must hold whatever fails.
    fn run(&self, place: &str, which: &str, errors: &str) -> Ended {
        // What stays in use fills three quarters of the region, which takes three of the limit.
        let limited = u64::from(self.address_space > 0);
        let steady = if limited == 1 { self.address_space * 5 / 8 } else { STEADY };
        let ended = Child::new(env!("CARGO_BIN_EXE_freehold-faults"))
            .arg(library::shared())
            .args([place, which, errors, &(self.address_space << 20).to_string()])
            .arg(compile::c("faults.c"))
            .args([STEPS, self.seed, steady, limited].map(|it| it.to_string()))
            .run()
            .succeeded();
        let most = |name: &str, most: u64| {
            ended.check(ended.number(name) <= most, &format!("{name} was to be at most {most}"));
        };
        most("in use", MOST_IN_USE);
        most("resident", MOST_RESIDENT);
        most("address space", MOST_ADDRESS_SPACE);
        ended
    }

    /// The places where the library calls the system, when nothing fails.
    fn places(&self) -> Vec<Place> {
        let ended = self.run("none", "all", "0");
        ended.check(ended.number("refused") == 0 || self.address_space > 0, "all was to be given");
        let out = ended.out();
        let lines = out.lines().filter_map(|line| line.strip_prefix("place: ")?.split_once(' '));
        let place = |(name, count): (&str, &str)| Place {
            name: name.to_owned(),
            count: count.parse().expect("a number"),
        };
        lines.map(place).collect()
    }

    /// Has the calls at a place fail, in one way.
    fn fail_at(&self, place: &Place, which: &str, error: &str) {
        let ended = self.run(&place.name, which, error);
        if self.address_space == 0 && !place.gives_memory() {
            let wanted = format!("{} was not to be needed for memory", place.name);
            ended.check(ended.number("refused") == 0, &wanted);
        }
    }

    /// Which of the calls at a place are to fail: all, and one of them or each of some.
    fn ways(&self, place: &Place) -> Vec<String> {
        let nth = 3 + self.seed % place.count.saturating_sub(2).max(1);
        let mut single = vec![1, 2, nth];
        single.retain(|&n| n <= place.count);
        if !every_way() {
            single = vec![single[self.seed as usize % single.len()]];
        }
        let single = single.iter().map(u64::to_string);
        single.chain(["all".to_owned()]).collect()
    }

    /// Has these calls fail, one place after the other, and then all of them together.
    fn fail_everywhere(&self, calls: &[&str]) {
        let mut places = self.places();
        // Which calls there are near a limit depends on when the threads reach it.
        let expected = if self.address_space == 0 { calls } else { &[] };
        for call in expected {
            let is_there = places.iter().any(|place| place.is_any_of(&[call]));
            assert!(is_there, "the program was to make the library call {call}");
        }
        let unknown = places.iter().find(|place| place.is_any_of(&["unknown"]));
        assert!(unknown.is_none(), "{} is not tested", unknown.map_or("", |it| &it.name));
        places.retain(|place| place.is_any_of(calls));
        for (n, place) in places.iter().enumerate() {
            for (way, which) in self.ways(place).iter().enumerate() {
                let first = (n + way + self.seed as usize) % ERRORS.len();
                let errors = if every_way() { &ERRORS[..] } else { &ERRORS[first..=first] };
                for error in errors {
                    self.fail_at(place, which, &error.to_string());
                }
            }
        }
        self.run("any", "all", &ERRORS.map(|error| error.to_string()).join(","));
    }
}

/// Whether each place is to be tried with each error, and the first call, the second and another.
fn every_way() -> bool {
    env::var("FREEHOLD_FAULTS").is_ok_and(|it| it == "all")
}

/// Whether calls can be made to fail here; if not, says so.
fn is_possible() -> bool {
    if cfg!(not(target_arch = "x86_64")) {
        tools::skip("system calls can be made to fail on x86-64 only");
        return false;
    }
    true
}

#[test]
fn whatever_call_fails_wherever_memory_is_refused_at_most_and_only_as_long_as_it_fails() {
    if is_possible() {
        Experiment::new(0).fail_everywhere(&[OF_MEMORY, OTHERS].concat());
    }
}

#[test]
fn whatever_call_fails_near_a_limit_on_address_space_nothing_is_lost() {
    /// The region takes most of it, and what does not fit into that is mapped by itself.
    const LIMIT: u64 = 400;
    if is_possible() {
        Experiment::new(LIMIT).fail_everywhere(&[OF_MEMORY, NEAR_A_LIMIT].concat());
    }
}
