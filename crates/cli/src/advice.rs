//! Every text that advises: what a result means, and what to do about it. Facts come from the
//! laboratory; this file only puts them into words.

use std::io;
use std::path::Path;

use freehold_lab::diff::Discrepancy;
use freehold_lab::grid::{Doubt, Ending};
use freehold_lab::trace::{Damage, TraceError};
use freehold_lab::{Concern, KNOWN, Surroundings, compare};
use freehold_model::{Allocator, ComparePlan, GridDocument, GridPlan, Measure, PairsParams, Plan};
use freehold_report::in_unit;

use crate::exit::Failure;

/// How to get a known allocator that is not installed.
pub(crate) fn install(name: &str) -> &'static str {
    match name {
        "jemalloc" => {
            "cargo xtask peers, apt install libjemalloc2, dnf install jemalloc, or pacman -S \
             jemalloc"
        }
        "mimalloc" => {
            "cargo xtask peers, apt install libmimalloc2.0, dnf install mimalloc, or pacman -S \
             mimalloc"
        }
        "tcmalloc" => {
            "apt install libtcmalloc-minimal4, dnf install gperftools-libs, or \
             pacman -S gperftools"
        }
        "scudo" => "comes with LLVM: apt install libclang-rt-dev, or dnf install compiler-rt",
        "tbbmalloc" => "apt install libtbbmalloc2, dnf install tbb, or pacman -S onetbb",
        "hoard" => "build libhoard.so from https://github.com/emeryberger/Hoard",
        "snmalloc" | "rpmalloc" => "cargo xtask peers, in a checkout of Freehold's sources",
        "llalloc" => "build libllalloc.so from the source of the Lockless allocator",
        _ => "give the path of its library",
    }
}

/// What can be written where an allocator is asked for.
pub(crate) fn name_or_path() -> String {
    let names: Vec<_> = KNOWN.iter().map(|known| known.name).collect();
    format!(
        "give one of {}, with a version if need be (mimalloc@2), or the path of a library",
        names.join(", ")
    )
}

/// What to do when a command cannot run under an allocator.
pub(crate) fn not_live() -> &'static str {
    "--force runs the command all the same"
}

/// What to do when somebody else's process cannot be looked at.
pub(crate) fn not_permitted() -> &'static str {
    "a process can be looked at by its owner and by root: try sudo"
}

/// What to do when a command has ended before it could be looked at.
pub(crate) fn look_sooner() -> &'static str {
    "look sooner: --after 0.1; or let it do more"
}

/// What to do when a process may not be traced.
pub(crate) fn not_traceable() -> &'static str {
    "a process can be traced by its owner and by root, by one tracer at a time; where \
     kernel.yama.ptrace_scope is 1, only a command started with -- can be"
}

/// What to do when `which` does not know an allocator.
pub(crate) fn not_identified() -> &'static str {
    "the file above serves malloc, but is none of the allocators that this tool knows"
}

/// What to do about a trace that is damaged.
pub(crate) fn salvage() -> &'static str {
    "--salvage uses what can be read of it"
}

/// What a trace that is damaged says of what is read from it.
pub(crate) fn salvaged(places: usize, first: &Damage) -> String {
    let plural = if places == 1 { "" } else { "s" };
    format!(
        "the trace is damaged in {places} place{plural}, first: {first}; what is read is not all"
    )
}

/// What to do about a trace that somebody else is recording into.
pub(crate) fn another_trace() -> &'static str {
    "write another trace with --output FILE, or wait until that recording has ended"
}

/// What is said where files may not be as long as a trace was to be.
pub(crate) fn short_files(bytes: u64) -> String {
    format!("files may not be longer here (ulimit -f): the trace is limited to {} MiB", bytes >> 20)
}

/// What is said of a trace that could not be sealed.
pub(crate) fn unsealed(path: &Path, error: &TraceError) -> String {
    format!(
        "{} could not be sealed ({error}): it stays as the command has left it, and can be read",
        path.display()
    )
}

/// What a trace says that was not sealed.
pub(crate) fn not_sealed() -> &'static str {
    "recording has not ended, or not properly: what was written until now is read"
}

/// What to do about a process whose calls cannot be recorded any more.
pub(crate) fn record_from_the_start(pid: u32, command: &[String]) -> String {
    format!(
        "start it again with \"freehold record -- {}\"; what it does now is shown by \"freehold \
         diagnose -p {pid}\" and \"freehold explain {pid}\"",
        command.join(" ")
    )
}

/// What a replay says of a trace that is exact in part.
pub(crate) fn exact_part(seconds: f64) -> String {
    format!(
        "every call was recorded until {seconds:.2} s only, as the trace filled: that part is made \
         again; record with a larger --limit"
    )
}

/// What a replay says of objects that it does not know.
pub(crate) fn unknown_objects(calls: u64) -> String {
    format!(
        "{calls} calls are left out: they free objects that were not seen being given out, as \
         those of a forked process's parent are"
    )
}

/// Why it is not said what recording has cost.
pub(crate) fn too_few_calls() -> &'static str {
    "there were too few calls to measure what recording costs"
}

/// Why it cannot be said what recording has cost.
pub(crate) fn no_cost(failure: &Failure) -> String {
    format!("what recording has cost could not be measured: {}", failure.message)
}

/// Where traces come from.
pub(crate) fn make_a_trace() -> &'static str {
    "freehold record -- COMMAND writes one"
}

/// Why a trace may be empty.
pub(crate) fn nothing_recorded() -> &'static str {
    "a program that is statically linked, brings its own malloc, or runs as another user cannot be \
     recorded; nor one that may not map the whole of the trace (ulimit -v): give it a smaller \
     --limit"
}

/// What a trace says that had no room on the disk.
pub(crate) fn no_space() -> &'static str {
    "the file system had no room for the trace: not everything was recorded; write it elsewhere \
     with --output, or less of it with --limit"
}

/// What a recording says whose trace could not hold everything.
pub(crate) fn full() -> &'static str {
    "the trace is full: what came then is not in it; allow it more with --limit"
}

/// What a benchmark is going to take.
pub(crate) fn beginning(runs: usize, minutes: f64) -> String {
    format!("{runs} runs, about {minutes:.1} minutes; an interrupt stops early and keeps results")
}

/// What a grid is going to take.
pub(crate) fn beginning_grid(plan: &GridPlan, allocators: usize) -> String {
    let runs = plan.cases.len() * allocators * plan.rounds as usize;
    let most = if plan.until.is_some() { "at most " } else { "" };
    let cases = plan.cases.len();
    format!(
        "{most}{runs} runs of {cases} cases; the time left shows after the first; an interrupt \
         stops early and keeps results"
    )
}

/// What the end of a grid means, where it was not to be expected.
pub(crate) fn grid_ending(ending: Ending) -> Option<&'static str> {
    match ending {
        Ending::Done => None,
        Ending::TimeUp => Some("the time limit was reached before all runs were made"),
        Ending::Interrupted => Some("interrupted: these are the runs that were made until then"),
    }
}

/// A reason to doubt a grid, and what to do about it.
pub(crate) fn grid_doubt(doubt: &Doubt, document: &GridDocument) -> String {
    match doubt {
        Doubt::OneRound => one_round(),
        Doubt::Noisy { cells, of, worst, case, allocator } => format!(
            "{cells} of {of} results vary by more than a quarter between rounds, most of all {} \
             with {} ({:.0} % of its median); use --until 5%, or more --repeat, on a quiet machine",
            document.allocators[*allocator].name,
            document.plan.name(*case),
            worst * 100.0
        ),
        Doubt::Crowded { threads, cpus } => format!(
            "with {threads} or more threads there are more than the {cpus} processors: the \
             scheduler has a part in those results"
        ),
        Doubt::Machines { kinds } => format!(
            "the runs were made on {kinds} kinds of machines: ratios are formed on one machine \
             each and stand, medians mix them"
        ),
        Doubt::Surroundings(found) => surroundings(found),
    }
}

/// What a single round means.
pub(crate) fn one_round() -> String {
    "every case was measured once, so nothing is known about noise; use --repeat 3 or more"
        .to_owned()
}

/// What a first interrupt does.
pub(crate) fn stopping() -> &'static str {
    "stopping after the current run; interrupt again to stop at once"
}

/// What a debug build means for numbers.
pub(crate) fn debug_build() -> &'static str {
    "this is a debug build: the harness itself is slow, so differences between allocators look \
     smaller than they are; build with --release"
}

/// What is inherited by children but replaced for measuring.
pub(crate) fn preload_replaced(value: &str) -> String {
    format!("LD_PRELOAD={value} is not passed on: each run preloads one allocator and nothing else")
}

/// A reason to doubt a benchmark, and what to do about it.
pub(crate) fn concern(concern: &Concern, plan: &Plan, allocators: &[Allocator]) -> String {
    match concern {
        Concern::Noisy { cells, of, worst, case, allocator } => {
            let PairsParams { pairs, max_bytes, .. } = plan.cases[*case].params;
            let name = &allocators[*allocator].name;
            let worst = worst * 100.0;
            let plural = if pairs == 1 { "" } else { "s" };
            format!(
                "{cells} of {of} results vary by more than a quarter between rounds, most of all \
                 {name} at {pairs} pair{plural}, max size {max_bytes} ({worst:.0} % of its \
                 median); use more --repeat or longer --seconds, on a quiet machine"
            )
        }
        Concern::OneRound => one_round(),
        Concern::Short { seconds } => format!(
            "each run measures {seconds} s only: good enough to see that everything works, not to \
             choose an allocator; use --seconds 1 or more"
        ),
        Concern::Surroundings(surroundings) => self::surroundings(surroundings),
        Concern::Oversubscribed { pairs, cpus } => format!(
            "with {pairs} or more pairs there are more threads than the {cpus} processors: the \
             scheduler has a part in those results"
        ),
    }
}

/// What a comparison is going to take, once a warm-up has shown it.
pub(crate) fn comparing(plan: &ComparePlan, seconds: Option<f64>) -> String {
    let about = seconds.map_or_else(String::new, |seconds| match seconds {
        seconds if seconds < 100.0 => format!(", about {seconds:.0} s"),
        seconds => format!(", about {:.0} minutes", seconds / 60.0),
    });
    let most = if plan.until.is_some() { "at most " } else { "" };
    let rounds = plan.repeat;
    let plural = if rounds == 1 { "" } else { "s" };
    format!("{most}{rounds} round{plural}{about}; an interrupt stops early and keeps results")
}

/// How to say when a server is ready.
pub(crate) fn ready() -> &'static str {
    "give its --port, or a command that succeeds once it is: --ready 'redis-cli ping'"
}

/// What it means when the children of a process cannot be seen.
pub(crate) fn no_children() -> &'static str {
    "this kernel does not tell the children of a process: memory is that of the command alone"
}

/// One more run begins, of which the times do not count.
pub(crate) fn counting_calls(allocator: &str) -> String {
    format!("counting the system calls of one more run under {allocator}")
}

/// System calls could not be counted.
pub(crate) fn calls_not_counted(allocator: &str, reason: &str) -> String {
    format!("the system calls under {allocator} could not be counted: {reason}")
}

/// What it means when orphans cannot be adopted.
pub(crate) fn no_orphans(error: &io::Error) -> String {
    format!("processes that the command leaves behind are neither counted nor ended: {error}")
}

/// What the end of a comparison means, where it was not to be expected.
pub(crate) fn compare_ending(ending: compare::Ending) -> Option<String> {
    let text = match ending {
        compare::Ending::Done | compare::Ending::Enough => return None,
        compare::Ending::TimeUp => "the time limit was reached before all rounds were made",
        compare::Ending::Interrupted => {
            "interrupted: these are the rounds that were made until then"
        }
        compare::Ending::AllFailed => {
            "the command failed under every allocator, so nothing was measured"
        }
    };
    Some(text.to_owned())
}

/// A reason to doubt a comparison, and what to do about it.
pub(crate) fn compare_doubt(doubt: &compare::Doubt, plan: &ComparePlan) -> String {
    let with = |case: usize| {
        let name = plan.case_name(case);
        if name.is_empty() { name } else { format!(" with {name}") }
    };
    match doubt {
        compare::Doubt::Surroundings(found) => surroundings(found),
        compare::Doubt::TooFewRounds { made, needed } => format!(
            "too few rounds to claim anything ({made}): even the same allocator twice would differ \
             this way too often; use --repeat {needed} or more"
        ),
        compare::Doubt::Drift { case, drift } => {
            let percent = drift.change.abs() * 100.0;
            let way = if drift.change > 0.0 { "slower" } else { "faster" };
            format!(
                "runs{} grew {percent:.0} % {way} from the first round to the last: the machine \
                 changed (heat, other programs). Changes are formed within rounds and stand; \
                 the times themselves say less",
                with(*case)
            )
        }
        compare::Doubt::TwoGroups { case, allocator, measure, groups } => format!(
            "{measure} of {allocator}{} falls into two groups, {} runs near {} and {} near {}: \
             something has two states (processor speed, huge pages, placement of threads), and \
             the median describes neither; find out what, or use more rounds",
            with(*case),
            groups.lower,
            shown(measure, groups.low),
            groups.upper,
            shown(measure, groups.high),
        ),
        compare::Doubt::ColdStart { case, share } => format!(
            "the first round{} was {:.0} % slower than the others, all allocators together: use \
             --warmup 1 or more",
            with(*case),
            share * 100.0
        ),
        compare::Doubt::Short { seconds } => format!(
            "a run takes {:.1} ms only, which is mostly starting and ending: let it do more work",
            seconds * 1000.0
        ),
        compare::Doubt::LeftBehind { processes } => {
            let plural = if *processes == 1 { "" } else { "es" };
            format!(
                "the command left {processes} process{plural} behind, ended after each run: what \
                 it did after the command ended was not measured"
            )
        }
    }
}

/// What is different about two results besides their numbers.
pub(crate) fn discrepancy(found: &Discrepancy, before: &str, after: &str) -> String {
    match found {
        Discrepancy::OtherSubject { before: first, after: second } => format!(
            "the results are not about the same thing: {before} is about {first}, {after} about \
             {second}"
        ),
        Discrepancy::OtherWork { parameter, before: first, after: second, cases } => {
            let more = match cases.len() {
                0 | 1 => String::new(),
                count => format!(" and {} more", count - 1),
            };
            let case = cases.first().map(String::as_str).unwrap_or_default();
            format!(
                "{parameter} differs: {first} in {before}, {second} in {after} ({case}{more}); \
                 that is other work, and may be all that changed"
            )
        }
        Discrepancy::Machine { what, before: first, after: second } => format!(
            "the {what} differs: {first} in {before}, {second} in {after}; that may be all that \
             changed"
        ),
        Discrepancy::Incomplete { is_later } => {
            let name = if *is_later { after } else { before };
            format!("{name} was not measured to its end")
        }
    }
}

/// What only one of two results has.
pub(crate) fn only_in(label: &str, name: &str) -> String {
    format!("only {label} has {name}")
}

/// What it means when results have few runs.
pub(crate) fn few_runs(needed: u32) -> String {
    format!(
        "some changes rest on fewer than {needed} runs on a side, from which nothing can be \
         claimed: measure with --repeat {needed} or more"
    )
}

/// A value of a measure.
fn shown(measure: &str, value: f64) -> String {
    Measure::named(measure).map_or_else(|| value.to_string(), |measure| in_unit(measure, value))
}

/// A reason to doubt that lies in the machine.
pub(crate) fn surroundings(surroundings: &Surroundings) -> String {
    match surroundings {
        Surroundings::Busy { load } => {
            format!("the load average was {load:.2} before the first run: other programs took part")
        }
        Surroundings::Governor { name } => format!(
            "the frequency governor is {name}: processors may change speed between runs; \
             performance is steadier"
        ),
        Surroundings::Quota { limit } => format!(
            "the processor time of this control group is limited ({limit}): the kernel stops \
             threads that run ahead"
        ),
        Surroundings::Tuned { names } => format!(
            "the environment tunes allocators, and is passed on to the runs: {}",
            names.join(", ")
        ),
    }
}
