//! Writing the script of a process. Its events are gone through twice: to know how many steps each
//! thread takes, and then to write them.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use freehold_model::ProcessRecording;
use freehold_trace::script::{Header, STEP, Step, Thread};

use super::plan::{Planned, Planner, Sink};
use crate::trace::{ByNumber, Event, Trace, TraceError, Walk};

/// Steps that are written at once.
const BATCH: usize = 256;

/// Writes what makes at most `most` calls of a process again, or all of them, as far as every call
/// was recorded.
pub fn write(
    trace: &Trace,
    process: &ProcessRecording,
    most: Option<u64>,
    path: &Path,
) -> Result<Planned, TraceError> {
    let (process, peak) = (process.process, process.peak.bytes);
    let planned = plan(trace, process, most, peak, &mut Nowhere)?;
    let file = File::create(path)?;
    let mut writer = Writer::begin(&file, &planned)?;
    plan(trace, process, most, peak, &mut writer)?;
    writer.finish()?;
    Ok(planned)
}

fn plan(
    trace: &Trace,
    process: u32,
    most: Option<u64>,
    peak: u64,
    sink: &mut impl Sink,
) -> Result<Planned, TraceError> {
    let mut walk = Walk::new(trace, process)?;
    let mut planner = Planner::new(sink, peak);
    let mut left = most.unwrap_or(u64::MAX);
    while let Some(step) = walk.next_step()? {
        // From there on a share of the objects was recorded.
        if left == 0 || matches!(step.event, Event::Level(_)) {
            break;
        }
        left -= 1;
        planner.take(&step)?;
    }
    Ok(planner.finish()?)
}

/// Throws steps away.
struct Nowhere;

impl Sink for Nowhere {
    fn step(&mut self, _: u32, _: Step) -> io::Result<()> {
        Ok(())
    }
}

/// Where the next steps of a thread go.
struct Place {
    at: u64,
    batch: Vec<u8>,
}

/// Writes the steps of each thread one behind the other.
struct Writer<'a> {
    file: &'a File,
    places: ByNumber<u32, Place>,
}

impl<'a> Writer<'a> {
    /// Writes everything but the steps.
    fn begin(file: &'a File, planned: &Planned) -> io::Result<Self> {
        // Threads are started in the order of their first slices.
        let mut threads: Vec<_> = planned.threads.iter().map(|(&id, &own)| (id, own)).collect();
        threads.sort_unstable_by_key(|(id, (slice, _))| (*slice, *id));
        let header = Header {
            threads: threads.len() as u32,
            slices: planned.slices.len() as u32,
            slots: planned.slots,
            steps: threads.iter().map(|(_, (_, steps))| steps).sum(),
            peak_bytes: planned.peak_bytes,
        };
        let mut front = Vec::new();
        front.write_all(&header.to_bytes())?;
        let mut first = 0;
        let mut places = ByNumber::default();
        for (id, (slice, steps)) in threads {
            front.write_all(&Thread { first, steps, slice }.to_bytes())?;
            let at = header.steps_at() + first * STEP as u64;
            places.insert(id, Place { at, batch: Vec::new() });
            first += steps;
        }
        for count in &planned.slices {
            front.write_all(&count.to_le_bytes())?;
        }
        file.write_all_at(&front, 0)?;
        file.set_len(header.steps_at() + header.steps * STEP as u64)?;
        Ok(Self { file, places })
    }

    fn finish(mut self) -> io::Result<()> {
        let file = self.file;
        self.places.values_mut().try_for_each(|place| place.flush(file))
    }
}

impl Place {
    fn flush(&mut self, file: &File) -> io::Result<()> {
        file.write_all_at(&self.batch, self.at)?;
        self.at += self.batch.len() as u64;
        self.batch = Vec::new();
        Ok(())
    }
}

impl Sink for Writer<'_> {
    fn step(&mut self, thread: u32, step: Step) -> io::Result<()> {
        let Some(place) = self.places.get_mut(&thread) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        place.batch.extend_from_slice(&step.to_bytes());
        let is_last = matches!(step, Step::End { .. });
        if is_last || place.batch.len() >= BATCH * STEP {
            place.flush(self.file)?;
        }
        Ok(())
    }
}
