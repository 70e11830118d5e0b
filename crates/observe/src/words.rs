//! A verdict in words: what it is, what it rests on, what switching would change.

use freehold_model::{
    AllocationCalls, Cause, Confidence, Diagnosis, Findings, Frame, WaitKind, WaitRow,
};

/// The verdict as a paragraph.
pub(crate) fn summary(diagnosis: &Diagnosis) -> String {
    let findings = &diagnosis.findings;
    let sure = match diagnosis.confidence {
        Confidence::High => "",
        Confidence::Medium => " This is probable rather than certain.",
        Confidence::Low => " There was too little to see to be sure.",
    };
    if diagnosis.cause == Cause::Idle && findings.is_stopped {
        return "Nothing can be said: a signal or a debugger has stopped the process.".to_owned();
    }
    format!("{} {}{sure}", verdict(diagnosis.cause), detail(diagnosis.cause, findings, diagnosis))
}

fn verdict(cause: Cause) -> &'static str {
    match cause {
        Cause::AllocatorContention => "The allocator is the problem: threads wait for its locks.",
        Cause::AllocatorCpu => "The allocator is the problem: it takes the processor.",
        Cause::OtherLock => "The allocator is not the problem: threads wait for another lock.",
        Cause::Spinning => {
            "The allocator is not the problem: threads spin for a lock, or write one word all \
             together."
        }
        Cause::FalseSharing => {
            "False sharing is suspected: threads write different words of the same cache lines."
        }
        Cause::PageFaults => {
            "Page faults are the problem: memory is touched for the first time again and again."
        }
        Cause::MappingStorm => {
            "Mapping is the problem: memory is taken from the system and given back again and \
             again."
        }
        Cause::AdviceStorm => {
            "Advice is the problem: the system is told again and again that memory is not needed, \
             and gives it anew."
        }
        Cause::MemoryGrows => "Memory is the problem: it grows and grows.",
        Cause::MemoryHeld => {
            "Memory is not given back: most of the heap is free, and resident all the same."
        }
        Cause::ThreadChurn => {
            "The allocator is not the problem first of all: threads begin and end again and again."
        }
        Cause::Starved => {
            "Not a lock, and not the allocator: there are more threads that want to run than \
             processors."
        }
        Cause::Computing => "Not a lock, and not the allocator: the program computes.",
        Cause::Idle => {
            "Not a lock, and not the allocator: threads wait for work, for time, or for input and \
             output."
        }
        Cause::TooShort => "It ended before anything could be seen.",
        Cause::TooFewLooks => {
            "Not enough evidence: it mostly waited, and was looked at too rarely to tell what for."
        }
    }
}

/// The numbers that decide, in a sentence.
fn detail(cause: Cause, findings: &Findings, diagnosis: &Diagnosis) -> String {
    let locks = &diagnosis.locks;
    match cause {
        Cause::AllocatorContention => {
            waiting(findings, findings.allocator_lock_seconds, locks)
                + &meeting(findings.allocator_awaited_share)
        }
        Cause::OtherLock => {
            waiting(findings, findings.other_lock_seconds, locks) + &meeting(findings.awaited_share)
        }
        Cause::AllocatorCpu => format!(
            "{} of the time in the program is spent in malloc, free and their kin.",
            percent(findings.allocator_cpu_share)
        ),
        Cause::Spinning => format!(
            "{} of the samples stand where several threads exchange one word{}.",
            percent(findings.atomic_share),
            first(&diagnosis.spins).unwrap_or_else(|| hot(findings))
        ),
        Cause::FalseSharing => format!(
            "{} of the samples stand where several threads write one line in turns{}.",
            percent(findings.false_sharing_share),
            hot(findings)
        ),
        Cause::PageFaults | Cause::MappingStorm | Cause::AdviceStorm => format!(
            "The kernel takes {} of the processor time, with {}{}.",
            percent(share(findings.system_seconds, findings.cpu_seconds())),
            rate(findings.faults_per_second, "page faults"),
            asked(findings),
        ),
        Cause::MemoryGrows => growing(findings),
        Cause::MemoryHeld => holding(findings),
        Cause::ThreadChurn => beginning(findings),
        Cause::Starved => format!(
            "Threads that wanted to run waited {} of that time for one of {} processors.",
            percent(share(findings.starved_seconds, findings.wanted_seconds())),
            findings.cpus
        ),
        Cause::Computing => format!(
            "{}{}; {} of that in the allocator.",
            used(findings),
            hot(findings),
            percent(findings.allocator_cpu_share)
        ),
        Cause::Idle => format!(
            "{}, and {} of its threads' time was spent waiting for nobody's lock.",
            used(findings),
            percent(1.0 - share(findings.busy_seconds(), findings.thread_seconds))
        ),
        Cause::TooShort => format!("It ran for {:.2} s.", findings.seconds),
        Cause::TooFewLooks if findings.rounds == 0 => {
            format!("{}; what its threads wait for could not be seen.", used(findings))
        }
        Cause::TooFewLooks => format!(
            "{}; its threads were looked at {} times in {:.1} s, since looking took all that it \
             may, or the machine had no processor for it.",
            used(findings),
            findings.rounds,
            findings.seconds
        ),
    }
}

/// How much went into waiting for locks, of which the first is of the kind that decides.
fn waiting(findings: &Findings, seconds: f64, locks: &[WaitRow]) -> String {
    let is_allocators = findings.allocator_lock_seconds >= findings.other_lock_seconds;
    let decides = |row: &&WaitRow| (row.kind == WaitKind::AllocatorLock) == is_allocators;
    let first = locks.iter().find(decides).map(|row| format!(", most of it for {}", lock(row)));
    let is_crowded = findings.starved_seconds > findings.cpu_seconds();
    let rest = is_crowded.then(|| {
        let share = percent(findings.of_unstarved(seconds));
        format!(", {share} of that in which they did not wait for a processor,")
    });
    format!(
        "{} of the time in which threads had something to do{} went into waiting{}.",
        percent(findings.of_busy(seconds)),
        rest.unwrap_or_default(),
        first.unwrap_or_default()
    )
}

/// What of the time on a processor threads lose at locks, where it is worth telling.
fn meeting(share: f64) -> String {
    if share < 0.1 {
        return String::new();
    }
    let share = percent(share);
    format!(" {share} of the samples of running code stand where threads meet at such a lock.")
}

/// The word that was spun for most.
fn first(spins: &[WaitRow]) -> Option<String> {
    spins.first().map(|row| format!(", most of them {}", lock(row)))
}

/// How many threads begin; and where they are mostly those of processes, that they are.
fn beginning(findings: &Findings) -> String {
    let (threads, processes) = (findings.threads_per_second, findings.processes_per_second);
    let alone = if processes >= 0.5 * threads {
        format!(", {} of them in processes of their own", percent(share(processes, threads)))
    } else {
        String::new()
    };
    format!("{} begin{alone}.", rate(threads, "threads"))
}

fn growing(findings: &Findings) -> String {
    let first = findings.resident_bytes.first().copied().unwrap_or(0);
    let last = findings.resident_bytes.last().copied().unwrap_or(0);
    let by = findings.faulting.as_ref().map(|portion| {
        format!("; {} touches {} of it first", portion.function.function, percent(portion.share))
    });
    format!(
        "It grew from {} to {} MiB in {:.1} s{}.",
        first >> 20,
        last >> 20,
        findings.seconds,
        by.unwrap_or_default()
    )
}

fn holding(findings: &Findings) -> String {
    let heap = findings.heap.unwrap_or_default();
    let resident = findings.resident_bytes.last().copied().unwrap_or(0);
    format!(
        "Of {} MiB resident, {} MiB are in use in the allocator's heaps; {} MiB are free between \
         blocks, and {} MiB at the ends.",
        resident >> 20,
        heap.used_bytes >> 20,
        heap.free_bytes >> 20,
        heap.top_bytes >> 20
    )
}

/// How much of the processors it used.
fn used(findings: &Findings) -> String {
    let used = share(findings.cpu_seconds() + findings.unseen_seconds, findings.seconds);
    format!("It used {used:.2} of {} processors", findings.cpus)
}

/// From this part of a processor on, threads that nobody saw are told of.
const UNSEEN: f64 = 0.01;

/// What it rests on, a line each.
pub(crate) fn evidence(findings: &Findings, locks: &[WaitRow], spins: &[WaitRow]) -> Vec<String> {
    let of = |seconds: f64| percent(share(seconds, findings.thread_seconds));
    let mut lines = vec![
        format!(
            "time of all threads: user {}, kernel {}, waiting for a processor {}, for locks of the \
             allocator {}, for other locks {}, blocked in page faults {}; the rest without \
             anything to do",
            of(findings.user_seconds),
            of(findings.system_seconds),
            of(findings.starved_seconds),
            of(findings.allocator_lock_seconds),
            of(findings.other_lock_seconds),
            of(findings.fault_seconds),
        ),
        format!(
            "{}, {}{}",
            rate(findings.faults_per_second, "page faults"),
            rate(findings.threads_per_second, "threads begun"),
            asked(findings)
        ),
    ];
    let unseen = share(findings.unseen_seconds, findings.seconds);
    if unseen >= UNSEEN {
        lines.push(format!(
            "threads that nobody saw, so short they lived, used {unseen:.2} processors"
        ));
    }
    if let Some(samples) = findings.samples {
        lines.push(format!(
            "{} of the samples of running code are in the allocator, {} of the page faults; {} \
             touch words that threads exchange, {} lines that are shared falsely ({samples} \
             samples)",
            percent(findings.allocator_cpu_share),
            percent(findings.allocator_fault_share),
            percent(findings.atomic_share),
            percent(findings.false_sharing_share),
        ));
    }
    if let (Some(first), Some(last)) =
        (findings.resident_bytes.first(), findings.resident_bytes.last())
    {
        let peak = findings.resident_bytes.iter().max().unwrap_or(last);
        lines.push(format!(
            "resident memory: {} MiB at first, {} at most, {} at last",
            first >> 20,
            peak >> 20,
            last >> 20
        ));
    }
    lines.extend(held(findings));
    lines.extend(findings.counted.as_ref().map(|counted| called(counted, findings.seconds)));
    lines.extend(locks.iter().take(3).map(|row| {
        format!("{} waited {:.2} s, by {} waits", lock(row), row.seconds, row.waits.round())
    }));
    let much = spins.iter().filter(|row| row.seconds >= SPUN * findings.user_seconds);
    lines.extend(much.take(3).map(|row| {
        format!("{} spun for, or written by several threads, for {:.2} s", lock(row), row.seconds)
    }));
    lines
}

/// From this part of the resident memory, heaps that could be read are most likely those that the
/// program uses.
const MUCH: f64 = 0.25;

/// Bytes of the allocator's heaps that are in use, and that are free and resident; nothing where
/// they could not be read.
pub(crate) fn held_bytes(findings: &Findings) -> Option<(u64, u64)> {
    let resident = findings.resident_bytes.last().copied().unwrap_or(0);
    let heap = findings.heap?;
    let in_use = heap.used_bytes + heap.mapped_bytes;
    // What was never touched is free as well, and costs nothing.
    let free = (heap.free_bytes + heap.top_bytes).min(resident.saturating_sub(in_use));
    ((in_use + free) as f64 >= MUCH * resident as f64).then_some((in_use, free))
}

/// What is in use of the resident memory, and what the allocator holds free.
fn held(findings: &Findings) -> Option<String> {
    let resident = findings.resident_bytes.last().copied().unwrap_or(0);
    let heap = held_bytes(findings);
    let counted = findings.counted.and_then(|counted| counted.live_bytes);
    let in_use = counted.or(heap.map(|(in_use, _)| in_use))?;
    let free = heap.map(|(_, free)| format!(", {} MiB free in its heaps", free >> 20));
    Some(format!(
        "memory held by the allocator: {} MiB in use by the program{}, of {} MiB resident",
        in_use >> 20,
        free.unwrap_or_default(),
        resident >> 20
    ))
}

/// What the calls to the allocator came to.
fn called(counted: &AllocationCalls, seconds: f64) -> String {
    let mut text = rate(share(counted.allocations as f64, seconds), "objects allocated");
    if let Some(elsewhere) = counted.elsewhere_share() {
        let part = format!(
            "; {} of those freed, by another thread than asked for them ({} followed)",
            percent(elsewhere),
            counted.followed
        );
        text.push_str(&part);
    }
    if let Some(waste) = counted.waste_share() {
        let part = format!("; {} of the bytes given were not asked for", percent(waste.max(0.0)));
        text.push_str(&part);
    }
    text
}

/// What another allocator would likely change.
pub(crate) fn switching(cause: Cause) -> &'static str {
    match cause {
        Cause::AllocatorContention => {
            "An allocator whose threads need no common lock would likely remove most of this \
             waiting. What the threads wait for then, only a measurement can tell."
        }
        Cause::AllocatorCpu => {
            "A faster allocator would make it faster by at most the part that this one takes."
        }
        Cause::FalseSharing => {
            "Another allocator changes this only where the words are objects of different threads; \
             within one object, only the program can."
        }
        Cause::PageFaults | Cause::MappingStorm | Cause::AdviceStorm => {
            "Where the allocator asks for the memory, one that keeps freed memory for longer would \
             likely change this, at the price of more memory; where the program asks for it, none \
             will."
        }
        Cause::MemoryGrows => {
            "If the program keeps what it allocates, no allocator changes that; if it frees it, \
             one that gives memory back would. A comparison of memory tells which it is."
        }
        Cause::MemoryHeld => {
            "An allocator that gives free pages back while the program runs would likely hold less \
             of it; how much, depends on how the blocks in use lie. A comparison of memory tells."
        }
        Cause::ThreadChurn
        | Cause::OtherLock
        | Cause::Spinning
        | Cause::Starved
        | Cause::Computing
        | Cause::Idle => "Another allocator would likely change next to nothing.",
        Cause::TooShort | Cause::TooFewLooks => "Nothing can be said; let it run for longer.",
    }
}

/// From this part of the time in the program, a word that is spun for is worth a line.
const SPUN: f64 = 0.05;

/// A lock, where it is declared, and who waits for it.
fn lock(row: &WaitRow) -> String {
    let caller = row.sites.first().map(|site| &site.caller);
    let at = caller
        .filter(|caller| !caller.function.is_empty())
        .map(|caller| format!(" in {}", place(caller)));
    format!("{}{}{}", row.name, declared(row), at.unwrap_or_default())
}

/// Where a lock is declared, in brackets; nothing where that is not known.
fn declared(row: &WaitRow) -> String {
    match (&row.file, row.line) {
        (Some(file), Some(line)) => format!(" ({}:{line})", last_of(file)),
        _ => String::new(),
    }
}

/// The name of a file without its directories.
fn last_of(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}

fn place(frame: &Frame) -> String {
    match (&frame.file, frame.line) {
        (Some(file), Some(line)) => format!("{} ({}:{line})", frame.function, last_of(file)),
        _ => frame.function.clone(),
    }
}

/// The function with most time of its own.
fn hot(findings: &Findings) -> String {
    let hottest = findings.hottest.as_ref();
    let text = hottest
        .map(|portion| format!(", {} in {}", percent(portion.share), portion.function.function));
    text.unwrap_or_default()
}

/// What is asked of the system.
fn asked(findings: &Findings) -> String {
    let mapped = [("mappings".to_owned(), findings.mappings_per_second)];
    let called = findings.calls_per_second.iter();
    let called = called.map(|(name, calls)| (format!("calls of {name}"), *calls));
    let often = mapped.into_iter().chain(called).filter(|(_, calls)| *calls >= 1.0);
    let mut text = String::new();
    for (what, calls) in often {
        text.extend([", ", &rate(calls, &what)]);
    }
    if findings.allocator_fault_share >= 0.01 {
        let share = percent(findings.allocator_fault_share);
        text.extend(["; ", &share, " of the faults in the allocator"]);
    }
    text
}

pub(crate) fn share(some: f64, all: f64) -> f64 {
    if all > 0.0 { some / all } else { 0.0 }
}

pub(crate) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// So many bytes; a decimal where they are few.
pub(crate) fn mebibytes(bytes: u64) -> String {
    let mebibytes = bytes as f64 / 1_048_576.0;
    if mebibytes < 9.95 { format!("{mebibytes:.1} MiB") } else { format!("{mebibytes:.0} MiB") }
}

/// How often something happens a second.
pub(crate) fn rate(per_second: f64, what: &str) -> String {
    if per_second >= 10_000.0 {
        format!("{:.0} thousand {what} a second", per_second / 1000.0)
    } else {
        format!("{per_second:.0} {what} a second")
    }
}
