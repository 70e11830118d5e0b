//! Which sizes a program asks for, how long objects live, and who frees them.

use std::collections::BTreeMap;

use freehold_model::{
    Bin, Fates, LinearHistogram, ProcessRecording, Share, SizeCount, SizesDocument,
};

use super::error::TraceError;
use super::objects::{Event, Object, Step, Walk};
use super::open::Trace;

/// The bounds of a linear histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Linear {
    /// Where it begins.
    pub lower: u64,
    /// Where it ends.
    pub upper: u64,
    /// How wide a bin is, at least 1.
    pub step: u64,
}

/// The sizes that a process asked for.
pub fn sizes(
    trace: &Trace,
    process: ProcessRecording,
    linear: Linear,
) -> Result<SizesDocument, TraceError> {
    let mut walk = Walk::new(trace, process.process)?;
    let mut tally = Tally::default();
    while let Some(step) = walk.next_step()? {
        tally.take(&step);
    }
    Ok(tally.document(process, linear))
}

#[derive(Debug, Default)]
struct Tally {
    /// How often each size was asked for.
    requests: BTreeMap<u64, u64>,
    /// How many lives were that long: by the number of bits of the nanoseconds.
    lifetimes: BTreeMap<u32, u64>,
    here: Share,
    elsewhere: Share,
    unknown: Share,
    live: Share,
    level: u32,
    /// When the level last rose, and in which thread.
    raised: Option<(u64, u32)>,
}

impl Tally {
    fn weight(&self) -> u64 {
        1 << self.level
    }

    fn take(&mut self, step: &Step) {
        match step.event {
            Event::Allocated { object, .. } => self.asked(&object),
            Event::Resized { from, to } => {
                self.gone(&from);
                self.asked(&to);
            }
            Event::Freed { object, .. } => {
                self.gone(&object);
                let weight = self.weight();
                let nanoseconds = step.clock.saturating_sub(object.life);
                let bits = u64::BITS - nanoseconds.leading_zeros();
                *self.lifetimes.entry(bits).or_default() += weight;
                let share =
                    if object.thread == step.thread { &mut self.here } else { &mut self.elsewhere };
                add(share, object.size, weight);
            }
            Event::Forgotten { object } => {
                self.gone(&object);
                // What leaves the share is stood for by what stays in it.
                if self.raised != Some((step.clock, step.thread)) {
                    let weight = self.weight();
                    add(&mut self.unknown, object.size, weight);
                }
            }
            Event::Level(level) => {
                self.level = level;
                self.raised = Some((step.clock, step.thread));
            }
            Event::FreedUnknown { .. } | Event::FreeNull | Event::Failed { .. } | Event::Exit => {}
        }
    }

    fn asked(&mut self, object: &Object) {
        let weight = self.weight();
        *self.requests.entry(object.size).or_default() += weight;
        add(&mut self.live, object.size, 1);
    }

    fn gone(&mut self, object: &Object) {
        self.live.objects = self.live.objects.saturating_sub(1);
        self.live.bytes = self.live.bytes.saturating_sub(object.size);
    }

    fn document(self, process: ProcessRecording, linear: Linear) -> SizesDocument {
        let weight = self.weight();
        let never = Share { objects: self.live.objects * weight, bytes: self.live.bytes * weight };
        SizesDocument {
            requests: self.requests.values().sum(),
            requested_bytes: self
                .requests
                .iter()
                .fold(0, |sum, (size, count)| sum.saturating_add(size.saturating_mul(*count))),
            powers: powers(self.requests.iter().map(|(&size, &count)| (size, count))),
            linear: in_steps(&self.requests, linear),
            sizes: self.requests.iter().map(|(&size, &count)| SizeCount { size, count }).collect(),
            lifetimes: self
                .lifetimes
                .iter()
                .map(|(&bits, &count)| Bin { least: least(bits), count })
                .collect(),
            fates: Fates {
                freed_here: self.here,
                freed_elsewhere: self.elsewhere,
                never_freed: never,
                unknown: self.unknown,
            },
            process,
        }
    }
}

fn add(share: &mut Share, size: u64, weight: u64) {
    share.objects += weight;
    share.bytes = share.bytes.saturating_add(size.saturating_mul(weight));
}

/// The least number of so many bits.
fn least(bits: u32) -> u64 {
    bits.checked_sub(1).map_or(0, |shift| 1 << shift)
}

/// Counts by powers of two: 0, 1, 2 to 3, 4 to 7, and so on; bins without any are left out.
fn powers(counts: impl Iterator<Item = (u64, u64)>) -> Vec<Bin> {
    let mut bins: Vec<Bin> = Vec::new();
    // They come in order, so a bin that is done with does not come again.
    for (value, count) in counts {
        let bin = least(u64::BITS - value.leading_zeros());
        match bins.last_mut() {
            Some(last) if last.least == bin => last.count += count,
            _ => bins.push(Bin { least: bin, count }),
        }
    }
    bins
}

fn in_steps(requests: &BTreeMap<u64, u64>, bounds: Linear) -> LinearHistogram {
    let Linear { lower, upper, step } = bounds;
    let count = upper.saturating_sub(lower).div_ceil(step);
    let mut bins = vec![0; usize::try_from(count).unwrap_or(usize::MAX)];
    let (mut below, mut above) = (0, 0);
    for (&size, &count) in requests {
        match size.checked_sub(lower).map(|offset| (offset / step) as usize) {
            None => below += count,
            Some(index) if size < upper => bins[index] += count,
            Some(_) => above += count,
        }
    }
    LinearHistogram { lower, upper, step, below, bins, above }
}

#[cfg(test)]
mod tests {
    use freehold_trace::file::is_sampled;
    use freehold_trace::record::Note;

    use super::*;
    use crate::trace::testing::Chunk;
    use crate::trace::totals;

    #[test]
    fn what_leaves_the_share_is_stood_for_by_what_stays_in_it() {
        const OBJECTS: u64 = 1000;
        let mut chunk = Chunk::default();
        let addresses = || (1..=OBJECTS).map(|number| number * 64);
        addresses().for_each(|address| _ = chunk.malloc(address, 10));
        chunk.note(Note::level(3));
        let within = || addresses().filter(|&address| is_sampled(address, 3));
        within().take(50).for_each(|address| _ = chunk.free(address));
        // What has the place of another has ended it, and when is not known.
        let lost = within().nth(50).expect("there are more");
        chunk.malloc(lost, 10).free(lost);
        let (_file, trace) = chunk.trace();
        let process = totals(&trace, 0).expect("a process");
        let bounds = Linear { lower: 0, upper: 100, step: 10 };
        let fates = sizes(&trace, process, bounds).expect("sound").fates;
        assert_eq!((fates.freed_here.objects, fates.unknown.objects), (51 * 8, 8));
        assert_eq!(fates.never_freed.objects, (within().count() as u64 - 51) * 8);
    }

    #[test]
    fn powers_of_two_begin_at_zero_and_hold_what_is_below_the_next() {
        let counts = [(0, 1), (1, 2), (2, 4), (3, 8), (4, 16), (u64::MAX, 32)];
        let bins = powers(counts.into_iter());
        let found: Vec<_> = bins.iter().map(|bin| (bin.least, bin.count)).collect();
        assert_eq!(found, [(0, 1), (1, 2), (2, 12), (4, 16), (1 << 63, 32)]);
    }

    #[test]
    fn steps_hold_what_is_between_the_bounds_and_the_rest_is_counted_apart() {
        let requests = [(9, 1), (10, 2), (19, 4), (20, 8), (24, 16), (25, 32), (99, 64)].into();
        let bounds = Linear { lower: 10, upper: 25, step: 10 };
        let histogram = in_steps(&requests, bounds);
        assert_eq!((histogram.below, histogram.above), (1, 96));
        assert_eq!(histogram.bins, [6, 24]);
    }
}
