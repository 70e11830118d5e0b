//! From numbers to a cause. Pure: every threshold is here, with what it is for.

use freehold_model::{Cause, Confidence, Findings};

/// Below this there is next to nothing to see.
const SHORTEST_SECONDS: f64 = 0.25;

/// Below this part of a processor, threads had nothing to do; the same below this part of their
/// time, if it was little more of a processor.
const IDLE: f64 = 0.05;

/// From this part of the time of all threads, waiting for a processor is more than what it takes to
/// wake up on a busy machine.
const KEPT_WAITING: f64 = 0.5;

/// From this part of the time that threads had something to do, locks matter most.
const LOCKS: f64 = 0.2;

/// Where threads are many more than processors, each waits for one most of the time, whatever else
/// it waits for. Then it is this part of the rest from which locks matter most, if it is this part
/// of all the time as well.
const LOCKS_OF_REST: f64 = 1.0 / 3.0;
const LOCKS_AT_LEAST: f64 = 0.05;

/// From so many threads a second that begin after others have ended, beginning them matters most.
const THREADS: f64 = 200.0;

/// Below this part of a processor, beginning to run is most of what a program did.
const ACTIVE: f64 = 0.3;

/// From this part of the processor time, the kernel matters most.
const SYSTEM: f64 = 0.35;

/// From so many calls a second of processor time, mapping or advising matters.
const CALLS: f64 = 2000.0;

/// From so many page faults a second of processor time, they matter.
const FAULTS: f64 = 10_000.0;

/// So many times what resident memory grew has to be mapped or touched first, for that to be more
/// than the price of growing.
const TAKEN_AGAIN: f64 = 2.0;

/// So many page faults cost about as much as mapping once and unmapping.
const FAULTS_A_MAPPING: f64 = 24.0;

/// From this part of the samples, lines that are shared matter most.
const SHARED: f64 = 0.25;

/// From this part of the words that threads exchange, that these are locks which threads also sleep
/// for is what matters: who has to sleep for a lock has tried to take it before.
const AWAITED: f64 = 0.5;

/// From this part of the samples, the allocator's own work matters most.
const ALLOCATOR: f64 = 0.25;

/// From this part of the time that threads wanted to run, waiting for a processor matters most.
const STARVED: f64 = 0.3;

/// How much memory has to grow to be noticed: so many bytes, and by this part.
const GROWTH_BYTES: f64 = 8_388_608.0;
const GROWTH: f64 = 0.25;

/// How much of the resident memory has to be free to be noticed: so many bytes, and this part.
const HELD_BYTES: f64 = 16_777_216.0;
const HELD: f64 = 0.5;

/// Fewer samples and looks than this say little.
const FEW: u64 = 40;

/// Fewer rounds of looks than this do not tell a program that waits for locks from one that has
/// nothing to do: of one that spends half its time in locks, they miss all of it once in 256 times.
const FEW_ROUNDS: u64 = 8;

/// Less processor time than this is too little to be divided by ticks.
const FEW_SECONDS: f64 = 0.1;

const PAGE: f64 = 4096.0;

/// What the numbers come to, and how sure that is.
pub(crate) fn judge(findings: &Findings) -> (Cause, Confidence) {
    let (cause, margin) = decide(findings);
    let confidence = match margin {
        _ if !is_enough(cause, findings) => Confidence::Low,
        _ if margin >= 1.5 && findings.samples.is_some() => Confidence::High,
        _ => Confidence::Medium,
    };
    (cause, confidence)
}

/// Whether there was enough to see of what a verdict rests on.
fn is_enough(cause: Cause, findings: &Findings) -> bool {
    match cause {
        Cause::TooShort | Cause::TooFewLooks => false,
        // It does nothing because it may not.
        Cause::Idle if findings.is_stopped => false,
        Cause::AllocatorContention | Cause::OtherLock => findings.looks >= FEW,
        // Counted, and compared with ticks of the clock.
        Cause::PageFaults | Cause::MappingStorm | Cause::AdviceStorm => {
            findings.cpu_seconds() >= FEW_SECONDS
        }
        Cause::ThreadChurn
        | Cause::MemoryGrows
        | Cause::MemoryHeld
        | Cause::Starved
        | Cause::Idle => findings.seconds >= 2.0 * SHORTEST_SECONDS,
        Cause::AllocatorCpu | Cause::Spinning | Cause::FalseSharing | Cause::Computing => {
            findings.samples.is_some_and(|samples| samples >= FEW)
        }
    }
}

/// The cause, and by how much what decides exceeds what would do.
fn decide(findings: &Findings) -> (Cause, f64) {
    if findings.seconds < SHORTEST_SECONDS {
        return (Cause::TooShort, 1.0);
    }
    if let Some(idle) = idle(findings) {
        return held(findings).unwrap_or(idle);
    }
    locks(findings)
        .or_else(|| threads(findings))
        .or_else(|| kernel(findings))
        .or_else(|| growth(findings).map(|growth| (Cause::MemoryGrows, growth)))
        .or_else(|| held_at_rest(findings))
        .or_else(|| sharing(findings))
        .or_else(|| allocator(findings))
        .or_else(|| starved(findings))
        .or_else(|| held(findings))
        .unwrap_or_else(|| remainder(findings))
}

/// Threads had nothing to do. Where they hardly run, it is other programs that are in their way
/// when they wait for a processor, as each does that wakes up on a busy machine. Who begins many
/// threads has something to do, however little of a processor is left for it.
fn idle(findings: &Findings) -> Option<(Cause, f64)> {
    if threads(findings).is_some() {
        return None;
    }
    let starved = findings.starved_seconds;
    let is_kept_waiting = part(starved, findings.thread_seconds) >= KEPT_WAITING;
    let ran = findings.busy_seconds() + findings.unseen_seconds;
    let active = ran - if is_kept_waiting { 0.0 } else { starved };
    let busy = part(active, findings.seconds);
    let of_threads = part(active, findings.thread_seconds + findings.unseen_seconds);
    let is_idle = busy < IDLE || (busy < 4.0 * IDLE && of_threads < IDLE);
    is_idle.then(|| resting(findings, IDLE / busy.min(of_threads).max(1e-9)))
}

/// Threads that hardly ran waited for nobody, as far as was seen; which is not to be said if hardly
/// anybody looked.
fn resting(findings: &Findings, margin: f64) -> (Cause, f64) {
    if findings.rounds < FEW_ROUNDS { (Cause::TooFewLooks, 1.0) } else { (Cause::Idle, margin) }
}

/// The same of a program that ran for a small part of the time, whatever it did then.
fn held_at_rest(findings: &Findings) -> Option<(Cause, f64)> {
    let ran = part(findings.wanted_seconds(), findings.seconds);
    if ran < ACTIVE { held(findings) } else { None }
}

/// Memory that is free and not given back: asked only where nothing is the matter with time.
fn held(findings: &Findings) -> Option<(Cause, f64)> {
    let heap = findings.heap.as_ref()?;
    let free = (heap.free_bytes + heap.top_bytes) as f64;
    let last = findings.resident_bytes.last().map_or(0.0, |&last| last as f64);
    // What was never touched is free, but costs nothing.
    let resident = free.min(last - heap.used_bytes as f64);
    let share = part(resident, last);
    (resident >= HELD_BYTES && share >= HELD).then_some((Cause::MemoryHeld, share / HELD))
}

fn part(some: f64, all: f64) -> f64 {
    if all > 0.0 { some / all } else { 0.0 }
}

fn locks(findings: &Findings) -> Option<(Cause, f64)> {
    let lost = |asleep, meeting| lost_at_locks(findings, asleep, meeting);
    let allocator = lost(findings.allocator_lock_seconds, findings.allocator_awaited_share);
    let other = lost(findings.other_lock_seconds, findings.awaited_share);
    let (cause, seconds) = if allocator >= other {
        (Cause::AllocatorContention, allocator)
    } else {
        (Cause::OtherLock, other)
    };
    let of_all = findings.of_busy(seconds);
    let of_rest = findings.of_unstarved(seconds) / LOCKS_OF_REST;
    let margin = (of_all / LOCKS).max(of_rest.min(of_all / LOCKS_AT_LEAST));
    (margin >= 1.0).then_some((cause, margin))
}

/// What locks cost: the time slept for them, and what of the time on a processor goes into meeting
/// at the same ones, as far as that is no more: a lock that is hardly slept for is mostly just
/// taken.
fn lost_at_locks(findings: &Findings, asleep: f64, meeting: f64) -> f64 {
    asleep + (meeting * findings.user_seconds).min(asleep)
}

fn threads(findings: &Findings) -> Option<(Cause, f64)> {
    // Many that begin at first, and go on, are no churn.
    let rate = findings.successors_per_second;
    (rate >= THREADS).then_some((Cause::ThreadChurn, rate / THREADS))
}

/// What the kernel is busy with. Growth that explains most of the page faults comes first: they are
/// what it takes to grow.
fn kernel(findings: &Findings) -> Option<(Cause, f64)> {
    let cpu = part(findings.cpu_seconds(), findings.seconds);
    if part(findings.wanted_seconds() + findings.fault_seconds, findings.seconds) < ACTIVE {
        return None;
    }
    let system = part(findings.system_seconds, findings.cpu_seconds());
    let blocked = findings.of_busy(findings.fault_seconds);
    if system < SYSTEM && blocked < LOCKS {
        return None;
    }
    let faults = findings.faults_per_second;
    if let Some(growth) = growth(findings)
        && grown_bytes(findings) / PAGE >= 0.5 * faults * findings.seconds * 0.75
    {
        return Some((Cause::MemoryGrows, growth));
    }
    let calls = |name: &str| findings.calls_per_second.get(name).copied().unwrap_or(0.0);
    let called = ["mmap", "munmap", "mprotect"].map(calls).into_iter().fold(0.0, f64::max);
    let mappings = findings.mappings_per_second.max(called);
    let advice = calls("madvise");
    // What a call costs differs little; each is compared with the faults that follow it.
    let candidates = [
        (
            Cause::MappingStorm,
            mappings,
            CALLS,
            mappings * FAULTS_A_MAPPING >= faults && are_memory_anew(findings, mappings),
        ),
        (Cause::AdviceStorm, advice, CALLS, advice * FAULTS_A_MAPPING >= faults),
        (Cause::PageFaults, faults, FAULTS, are_memory_anew(findings, faults)),
    ];
    let rated =
        candidates.into_iter().filter(|&(_, rate, least, is_most)| is_most && rate >= least * cpu);
    let best = rated.max_by(|a, b| weight(a.0, a.1).total_cmp(&weight(b.0, b.1)));
    best.map(|(cause, ..)| (cause, (system / SYSTEM).max(blocked / LOCKS)))
}

/// Whether more memory was taken than there ever was of it, at this rate of pages, or of mappings
/// of at least a page: the same anew, that is. Heaps may grow by a page each time.
fn are_memory_anew(findings: &Findings, rate: f64) -> bool {
    let first = findings.resident_bytes.first().copied().unwrap_or(0);
    let most = findings.resident_bytes.iter().copied().max().unwrap_or(0);
    rate * findings.seconds * PAGE >= TAKEN_AGAIN * (most - first) as f64
}

/// What calls at this rate cost, in page faults.
fn weight(cause: Cause, rate: f64) -> f64 {
    if cause == Cause::PageFaults { rate } else { rate * FAULTS_A_MAPPING }
}

/// How far resident memory grew beyond what is noticed: nothing if it did not grow all the time.
fn growth(findings: &Findings) -> Option<f64> {
    let [first, second, third, last] = quarters(&findings.resident_bytes)?;
    let grows = first < second && second < third && third < last;
    let least = GROWTH_BYTES.max(GROWTH * first);
    let grown = last - first;
    (grows && grown >= least).then_some(grown / least)
}

/// Bytes that resident memory grew after the first quarter.
fn grown_bytes(findings: &Findings) -> f64 {
    quarters(&findings.resident_bytes).map_or(0.0, |[first, .., last]| last - first)
}

/// Resident memory after each quarter of the time.
fn quarters(series: &[u64]) -> Option<[f64; 4]> {
    let last = series.len().checked_sub(1).filter(|&last| last >= 4)?;
    Some([1, 2, 3, 4].map(|n| series[last * n / 4] as f64))
}

fn sharing(findings: &Findings) -> Option<(Cause, f64)> {
    let (atomic, falsely) = (findings.atomic_share, findings.false_sharing_share);
    let (cause, share) = if atomic < falsely {
        (Cause::FalseSharing, falsely)
    } else if findings.awaited_share >= AWAITED * atomic {
        (Cause::OtherLock, atomic)
    } else {
        (Cause::Spinning, atomic)
    };
    (share >= SHARED).then_some((cause, share / SHARED))
}

fn allocator(findings: &Findings) -> Option<(Cause, f64)> {
    let of_cpu = part(findings.user_seconds, findings.cpu_seconds());
    let share = findings.allocator_cpu_share * of_cpu;
    (share >= ALLOCATOR).then_some((Cause::AllocatorCpu, share / ALLOCATOR))
}

fn starved(findings: &Findings) -> Option<(Cause, f64)> {
    let wanted = findings.wanted_seconds();
    let share = part(findings.starved_seconds, wanted);
    let runnable = part(wanted, findings.seconds);
    // Where the program's own threads would fit, it is other programs that are in their way.
    let is_own = runnable >= 1.2 * f64::from(findings.cpus);
    (share >= STARVED && is_own).then_some((Cause::Starved, share / STARVED))
}

fn remainder(findings: &Findings) -> (Cause, f64) {
    let wanted = findings.wanted_seconds() + findings.unseen_seconds;
    let share = part(wanted, findings.seconds);
    if share >= 0.5 { (Cause::Computing, share / 0.5) } else { resting(findings, 1.0 - share) }
}

#[cfg(test)]
mod tests {
    use freehold_model::HeapContents;

    use super::*;

    /// A program of two threads that compute.
    fn computing() -> Findings {
        Findings {
            seconds: 10.0,
            thread_seconds: 20.0,
            cpus: 2,
            user_seconds: 19.0,
            system_seconds: 0.1,
            starved_seconds: 0.5,
            rounds: 900,
            looks: 900,
            samples: Some(3800),
            ..Findings::default()
        }
    }

    fn cause(findings: &Findings) -> Cause {
        judge(findings).0
    }

    #[test]
    fn a_program_that_computes_is_acquitted() {
        assert_eq!(judge(&computing()), (Cause::Computing, Confidence::High));
    }

    #[test]
    fn of_two_kinds_of_locks_the_one_that_is_waited_for_longer_decides() {
        let contended = Findings {
            allocator_lock_seconds: 30.0,
            other_lock_seconds: 3.0,
            user_seconds: 10.0,
            ..computing()
        };
        assert_eq!(cause(&contended), Cause::AllocatorContention);
        let other = Findings { allocator_lock_seconds: 3.0, other_lock_seconds: 30.0, ..contended };
        assert_eq!(cause(&other), Cause::OtherLock);
    }

    #[test]
    fn locks_are_seen_where_most_of_the_time_threads_wait_for_a_processor() {
        let crowded = Findings {
            thread_seconds: 72.0,
            user_seconds: 5.5,
            starved_seconds: 58.0,
            allocator_lock_seconds: 6.0,
            ..computing()
        };
        assert_eq!(cause(&crowded), Cause::AllocatorContention);
        // A little of all, or of the rest, is not enough.
        let little = Findings { allocator_lock_seconds: 2.5, ..crowded.clone() };
        assert_ne!(cause(&little), Cause::AllocatorContention);
        let computes = Findings { user_seconds: 14.0, ..crowded };
        assert_ne!(cause(&computes), Cause::AllocatorContention);
    }

    #[test]
    fn meeting_at_a_lock_counts_with_sleeping_for_it_and_no_more_than_that() {
        let crowded = Findings {
            thread_seconds: 14.0,
            seconds: 2.0,
            user_seconds: 0.9,
            starved_seconds: 10.3,
            other_lock_seconds: 0.42,
            atomic_share: 0.21,
            ..computing()
        };
        assert_eq!(cause(&crowded), Cause::Starved);
        let meeting = Findings { awaited_share: 0.21, ..crowded };
        assert_eq!(cause(&meeting), Cause::OtherLock);
        // A lock that is taken all the time, and hardly ever waited for.
        let taken = Findings { awaited_share: 0.0, allocator_lock_seconds: 0.02, ..meeting };
        let taken = Findings { allocator_awaited_share: 0.9, other_lock_seconds: 0.0, ..taken };
        assert_eq!(cause(&taken), Cause::Starved);
    }

    #[test]
    fn a_busy_kernel_is_explained_by_what_is_asked_of_it() {
        let system = Findings { user_seconds: 6.0, system_seconds: 12.0, ..computing() };
        let faults = Findings { faults_per_second: 400_000.0, ..system.clone() };
        assert_eq!(cause(&faults), Cause::PageFaults);
        let maps = Findings {
            faults_per_second: 200_000.0,
            mappings_per_second: 100_000.0,
            ..system.clone()
        };
        assert_eq!(cause(&maps), Cause::MappingStorm);
        let protection = Findings {
            faults_per_second: 100_000.0,
            calls_per_second: [("mprotect".to_owned(), 50_000.0)].into(),
            ..system.clone()
        };
        assert_eq!(cause(&protection), Cause::MappingStorm);
        let advice = Findings {
            faults_per_second: 200_000.0,
            calls_per_second: [("madvise".to_owned(), 90_000.0)].into(),
            ..system.clone()
        };
        assert_eq!(cause(&advice), Cause::AdviceStorm);
        // Large pieces: what costs is touching them.
        let large =
            Findings { faults_per_second: 400_000.0, mappings_per_second: 50.0, ..system.clone() };
        assert_eq!(cause(&large), Cause::PageFaults);
        assert_eq!(cause(&system), Cause::Computing);
    }

    #[test]
    fn memory_that_grows_all_the_time_is_told_from_memory_that_has_grown() {
        const MIB: u64 = 1 << 20;
        let growing = (0..20).map(|n| (20 + n * 4) * MIB).collect();
        let grows = Findings { resident_bytes: growing, ..computing() };
        assert_eq!(cause(&grows), Cause::MemoryGrows);
        let grown = (0..20).map(|n| (20 + n.min(3) * 10) * MIB).collect();
        let steady = Findings { resident_bytes: grown, ..computing() };
        assert_eq!(cause(&steady), Cause::Computing);
        let few = Findings { resident_bytes: vec![MIB, 100 * MIB], ..computing() };
        assert_eq!(cause(&few), Cause::Computing);
    }

    #[test]
    fn faults_that_growth_explains_are_growth() {
        const MIB: u64 = 1 << 20;
        let growing = (0..=20).map(|n| n * 400 * MIB).collect();
        let grows = Findings {
            user_seconds: 6.0,
            system_seconds: 12.0,
            faults_per_second: 204_800.0,
            resident_bytes: growing,
            ..computing()
        };
        assert_eq!(cause(&grows), Cause::MemoryGrows);
    }

    #[test]
    fn what_it_took_to_take_its_memory_once_is_no_storm() {
        const MIB: u64 = 1 << 20;
        let taken = (0..=20).map(|n| (1 + n.min(4) * 20) * MIB).collect();
        let system = Findings { user_seconds: 0.5, system_seconds: 1.5, ..computing() };
        let filling =
            Findings { seconds: 2.0, faults_per_second: 11_000.0, resident_bytes: taken, ..system };
        assert_ne!(cause(&filling), Cause::PageFaults);
        let again = Findings { faults_per_second: 110_000.0, ..filling.clone() };
        assert_eq!(cause(&again), Cause::PageFaults);
        // The same for a heap that grew page by page.
        let grown = Findings { mappings_per_second: 10_000.0, ..filling.clone() };
        assert_ne!(cause(&grown), Cause::MappingStorm);
        let mapped = Findings { mappings_per_second: 100_000.0, ..filling };
        assert_eq!(cause(&mapped), Cause::MappingStorm);
    }

    #[test]
    fn waking_up_late_on_a_busy_machine_is_not_being_busy() {
        let sleepers = Findings {
            seconds: 2.0,
            thread_seconds: 18.0,
            user_seconds: 0.01,
            system_seconds: 0.0,
            starved_seconds: 1.7,
            ..computing()
        };
        assert_eq!(cause(&sleepers), Cause::Idle);
        let kept_from_running = Findings { thread_seconds: 2.0, ..sleepers };
        assert_ne!(cause(&kept_from_running), Cause::Idle);
    }

    #[test]
    fn memory_that_is_free_and_kept_is_noticed_where_time_is_well_spent() {
        const MIB: u64 = 1 << 20;
        let heap = HeapContents {
            heaps: 1,
            used_bytes: 4 * MIB,
            free_bytes: 70 * MIB,
            ..HeapContents::default()
        };
        let held = Findings { heap: Some(heap), resident_bytes: vec![80 * MIB; 10], ..computing() };
        assert_eq!(cause(&held), Cause::MemoryHeld);
        let idle = Findings { user_seconds: 0.01, starved_seconds: 0.0, ..held.clone() };
        assert_eq!(cause(&idle), Cause::MemoryHeld);
        // Free, but given back.
        let purged = Findings { resident_bytes: vec![8 * MIB; 10], ..held };
        assert_eq!(cause(&purged), Cause::Computing);
    }

    #[test]
    fn lines_that_are_shared_are_told_by_what_is_written() {
        let falsely = Findings { false_sharing_share: 0.7, ..computing() };
        assert_eq!(cause(&falsely), Cause::FalseSharing);
        let spinning = Findings { atomic_share: 0.7, ..computing() };
        assert_eq!(cause(&spinning), Cause::Spinning);
    }

    #[test]
    fn threads_that_meet_at_a_lock_that_they_also_sleep_for_do_not_spin() {
        let meeting = Findings { atomic_share: 0.4, awaited_share: 0.3, ..computing() };
        assert_eq!(cause(&meeting), Cause::OtherLock);
        let spinning = Findings { awaited_share: 0.1, ..meeting };
        assert_eq!(cause(&spinning), Cause::Spinning);
    }

    #[test]
    fn a_program_that_has_come_to_rest_is_judged_by_what_it_holds() {
        const MIB: u64 = 1 << 20;
        let heap = HeapContents {
            heaps: 1,
            used_bytes: 12 * MIB,
            free_bytes: 510 * MIB,
            ..HeapContents::default()
        };
        let rests = Findings {
            thread_seconds: 10.0,
            user_seconds: 0.3,
            system_seconds: 0.4,
            allocator_cpu_share: 0.95,
            heap: Some(heap),
            resident_bytes: vec![530 * MIB; 10],
            ..computing()
        };
        assert_eq!(cause(&rests), Cause::MemoryHeld);
        let works = Findings { user_seconds: 9.0, ..rests.clone() };
        assert_eq!(cause(&works), Cause::AllocatorCpu);
        assert_eq!(cause(&Findings { heap: None, ..rests }), Cause::AllocatorCpu);
    }

    #[test]
    fn the_allocators_own_work_counts_as_a_part_of_all_processor_time() {
        let busy = Findings { allocator_cpu_share: 0.6, ..computing() };
        assert_eq!(cause(&busy), Cause::AllocatorCpu);
        let little = Findings { allocator_cpu_share: 0.1, ..computing() };
        assert_eq!(cause(&little), Cause::Computing);
    }

    #[test]
    fn waiting_for_a_processor_counts_only_where_the_programs_own_threads_are_too_many() {
        let many = Findings { starved_seconds: 60.0, thread_seconds: 80.0, ..computing() };
        assert_eq!(cause(&many), Cause::Starved);
        let others = Findings { user_seconds: 5.0, starved_seconds: 5.0, ..computing() };
        assert_eq!(cause(&others), Cause::Computing);
    }

    #[test]
    fn a_program_with_nothing_to_do_is_idle_and_one_that_ended_at_once_too_short() {
        let idle = Findings { user_seconds: 0.01, starved_seconds: 0.0, ..computing() };
        assert_eq!(judge(&idle), (Cause::Idle, Confidence::High));
        let stopped = Findings { is_stopped: true, ..idle };
        assert_eq!(judge(&stopped), (Cause::Idle, Confidence::Low));
        let short = Findings { seconds: 0.1, ..computing() };
        assert_eq!(judge(&short), (Cause::TooShort, Confidence::Low));
    }

    #[test]
    fn a_program_whose_threads_are_too_short_to_be_seen_is_not_idle() {
        let seen = Findings { user_seconds: 0.2, starved_seconds: 0.0, ..computing() };
        assert_eq!(cause(&seen), Cause::Idle);
        let unseen = Findings { unseen_seconds: 4.0, ..seen.clone() };
        assert!(idle(&unseen).is_none() && idle(&seen).is_some());
        let begun = Findings { successors_per_second: 2.0 * THREADS, ..seen };
        assert_eq!(cause(&begun), Cause::ThreadChurn);
    }

    #[test]
    fn a_program_that_hardly_anybody_looked_at_is_not_called_idle() {
        let idle = Findings { user_seconds: 0.01, starved_seconds: 0.0, ..computing() };
        let unseen = Findings { rounds: FEW_ROUNDS - 1, ..idle.clone() };
        assert_eq!(judge(&unseen), (Cause::TooFewLooks, Confidence::Low));
        assert_eq!(cause(&Findings { rounds: FEW_ROUNDS, ..idle }), Cause::Idle);
        // Where it is only in part that it ran, too.
        let partly = Findings { user_seconds: 4.0, rounds: 1, ..computing() };
        assert_eq!(cause(&partly), Cause::TooFewLooks);
        // Time on a processor is counted, however few the looks.
        assert_eq!(cause(&Findings { rounds: 1, ..computing() }), Cause::Computing);
        // Locks that were seen all the same are told.
        let locks = Findings { rounds: 1, other_lock_seconds: 15.0, ..unseen };
        assert_eq!(judge(&locks), (Cause::OtherLock, Confidence::High));
    }

    #[test]
    fn threads_that_begin_all_the_time_are_noticed() {
        let churn =
            Findings { threads_per_second: 5000.0, successors_per_second: 4990.0, ..computing() };
        assert_eq!(cause(&churn), Cause::ThreadChurn);
    }

    #[test]
    fn threads_that_begin_at_first_and_go_on_are_no_churn() {
        let burst = Findings { threads_per_second: 300.0, ..computing() };
        assert_eq!(cause(&burst), Cause::Computing);
    }

    #[test]
    fn without_samples_nothing_is_sure() {
        let blind = Findings { samples: None, ..computing() };
        assert_eq!(judge(&blind), (Cause::Computing, Confidence::Low));
        let waiting = Findings { allocator_lock_seconds: 60.0, ..blind };
        assert_eq!(judge(&waiting), (Cause::AllocatorContention, Confidence::Medium));
    }
}
