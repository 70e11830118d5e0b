//! From the events of a process to the steps of its threads: which slot an object is in, and where
//! time is cut into slices. It must not know where steps are written.

use std::collections::VecDeque;

use freehold_model::ReplayCalls;
use freehold_trace::record::Function;
use freehold_trace::script::{LARGEST, LEAD, Step};

use crate::trace::{ByNumber, Event, Object, Step as Moment};

/// Events after which a slice ends at the latest.
const MOST_EVENTS: u64 = 32_768;

/// A slice ends when this share of the most bytes alive has been asked for or freed in it, and
/// there are events enough.
const SHARE: u64 = 512;

/// Events that are enough: for a thread that is alone in a slice, and for each thread where there
/// are several, which have to wait for each other.
const LEAST_ALONE: u64 = 16;
const LEAST_EACH: u64 = 128;

/// A slice ends when this share has been asked for or freed, however few events there are. As many
/// slices as [`LEAD`] says and one more are under way at a time, so the bytes alive are never
/// further than that from what they were in the trace.
const MOST_SHARE: u64 = 256;

/// One request of this share is kept apart from everything before and behind it.
const LARGE_SHARE: u64 = 64;

/// Shares are not below so many bytes: threads that use hardly any memory need not wait for each
/// other at every call.
const LEAST_BYTES: u64 = 4096;

/// Somebody who takes the steps of all threads.
pub(super) trait Sink {
    /// The next step of a thread.
    fn step(&mut self, thread: u32, step: Step) -> std::io::Result<()>;
}

/// Calls of the trace that are not made again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Skipped {
    /// They freed objects that were not seen being given out.
    pub unknown: u64,
    /// They failed.
    pub failed: u64,
}

/// What was planned.
#[derive(Debug, Clone, Default)]
pub struct Planned {
    /// Calls that are made again.
    pub calls: ReplayCalls,
    /// Calls that are not.
    pub skipped: Skipped,
    /// Bytes alive at the end.
    pub end_bytes: u64,
    /// The most bytes alive.
    pub peak_bytes: u64,
    /// Slots for objects.
    pub(super) slots: u32,
    /// How many threads take part in each slice.
    pub(super) slices: Vec<u32>,
    /// The first slice of each thread, and how many steps it takes.
    pub(super) threads: ByNumber<u32, (u32, u64)>,
}

/// A thread so far.
#[derive(Debug, Clone, Copy)]
struct Progress {
    slice: u32,
    change: i64,
}

/// The slice that is being filled.
#[derive(Debug, Clone, Copy, Default)]
struct Slice {
    number: u32,
    events: u64,
    /// Bytes asked for.
    asked: u64,
    /// Bytes freed.
    freed: u64,
    threads: u32,
}

/// Plans one event after the other.
pub(super) struct Planner<'a, S> {
    sink: &'a mut S,
    /// The most bytes alive, as known beforehand.
    peak: u64,
    planned: Planned,
    progress: ByNumber<u32, Progress>,
    slice: Slice,
    /// The slots of objects, by their serial numbers.
    slots: ByNumber<u64, u32>,
    /// Slots that were emptied, and in which slice.
    empty: VecDeque<(u32, u32)>,
    live: u64,
}

impl<'a, S: Sink> Planner<'a, S> {
    pub(super) fn new(sink: &'a mut S, peak: u64) -> Self {
        Self {
            sink,
            peak,
            planned: Planned::default(),
            progress: ByNumber::default(),
            slice: Slice::default(),
            slots: ByNumber::default(),
            empty: VecDeque::new(),
            live: 0,
        }
    }

    /// Plans what makes this happen again.
    pub(super) fn take(&mut self, moment: &Moment) -> std::io::Result<()> {
        let is_large = self.share(LARGE_SHARE) < asked_for(&moment.event);
        if is_large {
            self.part();
        }
        self.make(moment)?;
        if is_large {
            self.part();
        } else {
            self.end_slice();
        }
        Ok(())
    }

    fn make(&mut self, moment: &Moment) -> std::io::Result<()> {
        let thread = moment.thread;
        match moment.event {
            Event::Allocated { function, object, align_power } => {
                self.enter(thread)?;
                self.allocate(thread, function, &object, align_power)?;
            }
            Event::Freed { function, object } => {
                self.enter(thread)?;
                let slot = self.empty(&object);
                let step = if function == Function::Realloc {
                    self.planned.calls.realloc += 1;
                    Step::ReallocZero { slot }
                } else {
                    self.planned.calls.free += 1;
                    Step::Free { slot }
                };
                self.emit(thread, step)?;
                self.disappear(thread, object.size);
            }
            Event::Resized { from, to } => {
                self.enter(thread)?;
                self.planned.calls.realloc += 1;
                let old = self.empty(&from);
                let new = self.fill(&to);
                self.emit(thread, Step::Realloc { from: old, to: new, size: to.size })?;
                self.emit(thread, Step::Was { size: from.size })?;
                self.disappear(thread, from.size);
                self.appear(thread, to.size);
            }
            // It is not known when it was freed; but it was, before its address was given out.
            Event::Forgotten { object } => {
                self.enter(thread)?;
                self.planned.calls.free += 1;
                let slot = self.empty(&object);
                self.emit(thread, Step::Free { slot })?;
                self.disappear(thread, object.size);
            }
            Event::FreeNull => {
                self.enter(thread)?;
                self.planned.calls.free_null += 1;
                self.emit(thread, Step::FreeNull)?;
            }
            Event::FreedUnknown { .. } => self.planned.skipped.unknown += 1,
            Event::Failed { .. } => self.planned.skipped.failed += 1,
            Event::Exit | Event::Level(_) => {}
        }
        Ok(())
    }

    fn allocate(
        &mut self,
        thread: u32,
        function: Function,
        object: &Object,
        power: u32,
    ) -> std::io::Result<()> {
        let slot = self.fill(object);
        let size = object.size.min(LARGEST);
        let calls = &mut self.planned.calls;
        let step = match function {
            Function::Calloc => {
                calls.calloc += 1;
                Step::Calloc { slot, size }
            }
            Function::Realloc => {
                calls.realloc += 1;
                Step::ReallocNull { slot, size }
            }
            _ if power > 0 => {
                calls.aligned += 1;
                Step::Aligned { slot, size, power }
            }
            _ => {
                calls.malloc += 1;
                Step::Malloc { slot, size }
            }
        };
        self.emit(thread, step)?;
        self.appear(thread, size);
        Ok(())
    }

    /// Ends all threads.
    pub(super) fn finish(mut self) -> std::io::Result<Planned> {
        let mut threads: Vec<_> =
            self.progress.iter().map(|(&thread, progress)| (thread, progress.change)).collect();
        threads.sort_unstable();
        for (thread, change) in threads {
            self.emit(thread, Step::End { change })?;
        }
        self.planned.end_bytes = self.live;
        Ok(self.planned)
    }

    /// Makes sure that the thread is in this slice.
    fn enter(&mut self, thread: u32) -> std::io::Result<()> {
        let slice = self.slice.number;
        let before = self.progress.get(&thread).copied();
        if before.is_some_and(|progress| progress.slice == slice) {
            return Ok(());
        }
        let change = before.map_or(0, |progress| progress.change);
        self.progress.insert(thread, Progress { slice, change: 0 });
        self.planned.threads.entry(thread).or_insert((slice, 0));
        // Those that are left out have no threads, and are complete as soon as their turn comes.
        if self.planned.slices.len() <= slice as usize {
            self.planned.slices.resize(slice as usize + 1, 0);
        }
        self.planned.slices[slice as usize] += 1;
        self.slice.threads += 1;
        self.emit(thread, Step::Enter { slice, change })
    }

    fn emit(&mut self, thread: u32, step: Step) -> std::io::Result<()> {
        if let Some((_, steps)) = self.planned.threads.get_mut(&thread) {
            *steps += 1;
        }
        self.sink.step(thread, step)
    }

    fn appear(&mut self, thread: u32, size: u64) {
        self.change(thread, size as i64);
        self.live += size;
        self.slice.asked = self.slice.asked.saturating_add(size);
        self.planned.peak_bytes = self.planned.peak_bytes.max(self.live);
    }

    fn disappear(&mut self, thread: u32, size: u64) {
        self.change(thread, -(size as i64));
        self.live = self.live.saturating_sub(size);
        self.slice.freed = self.slice.freed.saturating_add(size);
    }

    fn change(&mut self, thread: u32, by: i64) {
        if let Some(progress) = self.progress.get_mut(&thread) {
            progress.change += by;
        }
    }

    /// Ends the slice if it is long enough.
    fn end_slice(&mut self) {
        self.slice.events += 1;
        let Slice { number, events, asked, freed, threads } = self.slice;
        let least = if threads > 1 { LEAST_EACH * u64::from(threads) } else { LEAST_ALONE };
        let bytes = asked.max(freed);
        let is_full = (bytes >= self.peak / SHARE && events >= least)
            || bytes >= self.share(MOST_SHARE)
            || events >= MOST_EVENTS;
        if threads > 0 && is_full {
            self.slice = Slice { number: number + 1, ..Slice::default() };
        }
    }

    /// Lets nothing that comes begin before everything until now has been made.
    fn part(&mut self) {
        if self.slice.threads > 0 {
            self.slice = Slice { number: self.slice.number + 1 + LEAD, ..Slice::default() };
        }
    }

    /// A share of the most bytes alive.
    fn share(&self, share: u64) -> u64 {
        (self.peak / share).max(LEAST_BYTES)
    }

    /// The slot for a new object: one that was emptied long enough ago, or another.
    fn fill(&mut self, object: &Object) -> u32 {
        let is_ready = |&(_, slice): &(u32, u32)| slice + LEAD < self.slice.number;
        let slot = if self.empty.front().is_some_and(is_ready) {
            self.empty.pop_front().map(|(slot, _)| slot)
        } else {
            None
        };
        let slot = slot.unwrap_or_else(|| {
            self.planned.slots += 1;
            self.planned.slots - 1
        });
        self.slots.insert(object.serial, slot);
        slot
    }

    /// The slot of an object that is taken out of it.
    fn empty(&mut self, object: &Object) -> u32 {
        let slot = self.slots.remove(&object.serial).unwrap_or_default();
        self.empty.push_back((slot, self.slice.number));
        slot
    }
}

/// How many bytes an event asks for.
fn asked_for(event: &Event) -> u64 {
    match event {
        Event::Allocated { object, .. } => object.size,
        Event::Resized { to, .. } => to.size,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Kept(Vec<(u32, Step)>);

    impl Sink for Kept {
        fn step(&mut self, thread: u32, step: Step) -> std::io::Result<()> {
            self.0.push((thread, step));
            Ok(())
        }
    }

    fn object(serial: u64, size: u64) -> Object {
        Object { serial, size, thread: 0, born: 0, life: 0 }
    }

    fn allocated(thread: u32, object: Object) -> Moment {
        let event = Event::Allocated { function: Function::Malloc, object, align_power: 0 };
        Moment { clock: 0, thread, event }
    }

    fn freed(thread: u32, object: Object) -> Moment {
        Moment { clock: 0, thread, event: Event::Freed { function: Function::Free, object } }
    }

    fn plan(peak: u64, moments: impl IntoIterator<Item = Moment>) -> (Planned, Vec<(u32, Step)>) {
        let mut kept = Kept::default();
        let mut planner = Planner::new(&mut kept, peak);
        for moment in moments {
            planner.take(&moment).expect("kept");
        }
        (planner.finish().expect("kept"), kept.0)
    }

    #[test]
    fn an_object_is_freed_from_the_slot_that_it_was_put_into() {
        let moments = [allocated(0, object(1, 10)), freed(1, object(1, 10))];
        let (planned, steps) = plan(10, moments);
        assert_eq!(planned.calls, ReplayCalls { malloc: 1, free: 1, ..ReplayCalls::default() });
        assert_eq!((planned.peak_bytes, planned.end_bytes, planned.slots), (10, 0, 1));
        let of =
            |thread| steps.iter().filter(move |(own, _)| *own == thread).map(|(_, step)| *step);
        assert!(of(0).any(|step| step == Step::Malloc { slot: 0, size: 10 }));
        assert!(of(1).any(|step| step == Step::Free { slot: 0 }));
        assert!(
            [0, 1].iter().all(|&thread| matches!(of(thread).next_back(), Some(Step::End { .. })))
        );
    }

    #[test]
    fn changes_of_all_slices_add_up_to_what_is_left() {
        let moments = (0..10_000).flat_map(|k| {
            let keep = k % 5 == 0;
            let made = allocated(k as u32 % 3, object(k, 100));
            [Some(made), (!keep).then(|| freed(k as u32 % 2, object(k, 100)))]
        });
        let (planned, steps) = plan(200_000, moments.flatten());
        assert!(planned.slices.len() > 100, "{}", planned.slices.len());
        let changes = steps.iter().map(|(_, step)| match step {
            Step::Enter { change, .. } | Step::End { change } => *change,
            _ => 0,
        });
        assert_eq!(changes.sum::<i64>(), 200_000);
        assert_eq!(planned.end_bytes, 200_000);
        let entered = steps.iter().filter(|(_, step)| matches!(step, Step::Enter { .. })).count();
        assert_eq!(entered as u32, planned.slices.iter().sum::<u32>());
    }

    #[test]
    fn a_slot_is_used_again_only_when_no_thread_can_be_behind() {
        let moments =
            (0..100_000).flat_map(|k| [allocated(0, object(k, 100)), freed(1, object(k, 100))]);
        let (planned, steps) = plan(100, moments);
        assert!(u64::from(planned.slots) < 5000, "{}", planned.slots);
        let mut emptied = ByNumber::default();
        let mut slice = [0; 2];
        for (thread, step) in steps {
            match step {
                Step::Enter { slice: entered, .. } => slice[thread as usize] = entered,
                Step::Free { slot } => {
                    emptied.insert(slot, slice[thread as usize]);
                }
                Step::Malloc { slot, .. } => {
                    let before = emptied.get(&slot);
                    assert!(before.is_none_or(|before| before + LEAD < slice[thread as usize]));
                }
                _ => {}
            }
        }
    }

    #[test]
    fn a_large_request_is_kept_apart_from_all_other_calls() {
        let large = object(1, 1 << 30);
        let (first, last) = (object(0, 10), object(2, 10));
        let moments = [allocated(1, first), allocated(0, large), freed(0, large)];
        let (planned, steps) = plan(1 << 30, moments.into_iter().chain([allocated(1, last)]));
        let entered = |thread| {
            steps.iter().filter(move |(own, _)| *own == thread).filter_map(|(_, step)| match step {
                Step::Enter { slice, .. } => Some(*slice),
                _ => None,
            })
        };
        assert_eq!(entered(0).collect::<Vec<_>>(), [1 + LEAD, 2 + 2 * LEAD]);
        assert_eq!(entered(1).collect::<Vec<_>>(), [0, 3 + 2 * LEAD]);
        assert_eq!(planned.slices, [1, 0, 1, 0, 1, 1]);
    }

    #[test]
    fn many_threads_with_few_calls_each_do_not_fill_a_slice_with_memory() {
        let kept = (0..20_000).map(|k| allocated(k as u32, object(k, 100)));
        let (planned, _) = plan(2_000_000, kept);
        let most = 2_000_000 / MOST_SHARE / 100 + 1;
        assert!(planned.slices.iter().all(|&threads| u64::from(threads) <= most));
    }

    #[test]
    fn what_cannot_be_made_again_is_counted() {
        let unknown = Event::FreedUnknown { function: Function::Free };
        let failed = Event::Failed { function: Function::Malloc, size: 1 };
        let moments = [unknown, failed].map(|event| Moment { clock: 0, thread: 0, event });
        let (planned, steps) = plan(0, moments);
        assert_eq!(planned.skipped, Skipped { unknown: 1, failed: 1 });
        assert!(steps.is_empty() && planned.slices.is_empty());
    }
}
