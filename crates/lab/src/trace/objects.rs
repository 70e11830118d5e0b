//! Records as events in the lives of objects: which object a call is about, who made it, and when.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use freehold_trace::file::is_sampled;
use freehold_trace::record::{Call, Function, Record};

use super::error::TraceError;
use super::merge::Merge;
use super::open::Trace;

/// An object, from the call that gave it out to the one that gave it up. What `realloc` returns is
/// another object, of the same life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Object {
    /// A number that no other object of the walk has.
    pub serial: u64,
    /// How large it was asked to be.
    pub size: u64,
    /// The thread that it was given to.
    pub thread: u32,
    /// When it was given out.
    pub born: u64,
    /// When its life began: as this object, or as one that `realloc` has made it from.
    pub life: u64,
}

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// An object is given out.
    Allocated {
        /// By which function.
        function: Function,
        /// The object.
        object: Object,
        /// The alignment that was asked for, as a power of two; 0 if none was.
        align_power: u32,
    },
    /// An object is given up.
    Freed {
        /// By which function; `realloc` with a size of 0 frees too.
        function: Function,
        /// The object.
        object: Object,
    },
    /// `realloc` makes another object of one.
    Resized {
        /// The one.
        from: Object,
        /// The other.
        to: Object,
    },
    /// An object is given up that was not seen being given out: it was inherited from the process
    /// that this one is a copy of, or the call was not recorded.
    FreedUnknown {
        /// By which function.
        function: Function,
    },
    /// An object is not followed any longer: it is outside of the share that is recorded from now
    /// on, which a level just before says; or `realloc` has moved it out of that share; or its end
    /// was not recorded and its address is given out again.
    Forgotten {
        /// The object.
        object: Object,
    },
    /// `free` of null.
    FreeNull,
    /// A call returned null.
    Failed {
        /// Of which function.
        function: Function,
        /// What it was asked for.
        size: u64,
    },
    /// A thread is about to end.
    Exit,
    /// From now on one object of two to this power is recorded.
    Level(u32),
}

/// An event, when it was, and in which thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Nanoseconds since recording began.
    pub clock: u64,
    /// The thread.
    pub thread: u32,
    /// What happened.
    pub event: Event,
}

/// Hashes numbers that need no protection against who chose them: a multiplication does.
#[derive(Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

/// Values by such a number.
pub(crate) type ByNumber<K, T> = HashMap<K, T, BuildHasherDefault<NumberHasher>>;

/// The way through the events of a process, in an order in which they can have happened.
pub struct Walk<'a> {
    merge: Merge<'a>,
    live: ByNumber<u64, Object>,
    /// What the `realloc` under way in a thread was called with, if that is known.
    resizing: ByNumber<u32, (u64, Object)>,
    /// Events that are to be told before the next record is read.
    queue: VecDeque<Step>,
    level: u32,
    serial: u64,
}

impl<'a> Walk<'a> {
    /// The way through this process.
    pub fn new(trace: &'a Trace, process: u32) -> Result<Self, TraceError> {
        trace.process(process)?;
        Ok(Self {
            merge: Merge::new(trace, process),
            live: ByNumber::default(),
            resizing: ByNumber::default(),
            queue: VecDeque::new(),
            level: 0,
            serial: 0,
        })
    }

    /// How many threads the process had.
    pub fn threads(&self) -> usize {
        self.merge.threads()
    }

    /// The next event; `None` at the end.
    pub fn next_step(&mut self) -> Result<Option<Step>, TraceError> {
        loop {
            if let Some(step) = self.queue.pop_front() {
                return Ok(Some(step));
            }
            let Some((thread, record)) = self.merge.next()? else {
                return Ok(None);
            };
            self.take(thread, record);
        }
    }

    /// Puts the events that a record stands for into the queue.
    fn take(&mut self, thread: u32, record: Record) {
        let clock = record.clock;
        self.give_up_resizing(thread, &record);
        let event = match record.call {
            Call::Allocate { function, address, size, align_power } => {
                let object = self.give_out(address, size, thread, clock, None);
                Event::Allocated { function, object, align_power }
            }
            Call::ReallocTo { address, size } => self.resized(thread, clock, address, size),
            Call::ReallocFrom { address } => {
                if let Some(object) = self.live.remove(&address) {
                    self.resizing.insert(thread, (address, object));
                }
                return;
            }
            Call::Free { function, address } => match self.live.remove(&address) {
                Some(object) => Event::Freed { function, object },
                None => Event::FreedUnknown { function },
            },
            Call::ReallocFreed => match self.resizing.remove(&thread) {
                Some((_, object)) => Event::Freed { function: Function::Realloc, object },
                None => Event::FreedUnknown { function: Function::Realloc },
            },
            Call::FreeNull => Event::FreeNull,
            Call::Failed { function, size } => {
                // The object stays what and where it was.
                if function == Function::Realloc
                    && let Some((address, object)) = self.resizing.remove(&thread)
                {
                    self.live.insert(address, object);
                }
                Event::Failed { function, size }
            }
            Call::Exit => Event::Exit,
            Call::Level(level) => {
                if level <= self.level {
                    return;
                }
                self.sample(thread, clock, level);
                return;
            }
        };
        self.queue.push_back(Step { clock, thread, event });
    }

    /// What `realloc` was called with is not heard of again if the thread goes on with something
    /// else: where a share is recorded, the new object may be outside of it, and traces of older
    /// recorders do not say so.
    fn give_up_resizing(&mut self, thread: u32, record: &Record) {
        let Record { clock, call } = *record;
        let may_go_on = match call {
            Call::ReallocTo { .. } | Call::ReallocFreed | Call::Level(_) => true,
            Call::Failed { function, .. } => function == Function::Realloc,
            _ => self.resizing.is_empty(),
        };
        if !may_go_on && let Some((_, object)) = self.resizing.remove(&thread) {
            self.queue.push_back(Step { clock, thread, event: Event::Forgotten { object } });
        }
    }

    /// `realloc` has returned.
    fn resized(&mut self, thread: u32, clock: u64, address: u64, size: u64) -> Event {
        if let Some((_, from)) = self.resizing.remove(&thread) {
            if !is_sampled(address, self.level) {
                // Its end will not be recorded.
                return Event::Forgotten { object: from };
            }
            let to = self.give_out(address, size, thread, clock, Some(from.life));
            Event::Resized { from, to }
        } else {
            // Of nothing; or of something that is not known, of which no more can be said.
            let object = self.give_out(address, size, thread, clock, None);
            Event::Allocated { function: Function::Realloc, object, align_power: 0 }
        }
    }

    fn give_out(
        &mut self,
        address: u64,
        size: u64,
        thread: u32,
        clock: u64,
        life: Option<u64>,
    ) -> Object {
        self.serial += 1;
        let life = life.unwrap_or(clock);
        let object = Object { serial: self.serial, size, thread, born: clock, life };
        if let Some(lost) = self.live.insert(address, object) {
            self.queue.push_back(Step { clock, thread, event: Event::Forgotten { object: lost } });
        }
        object
    }

    /// From now on a smaller share is recorded: the others are followed no longer.
    fn sample(&mut self, thread: u32, clock: u64, level: u32) {
        self.level = level;
        self.queue.push_back(Step { clock, thread, event: Event::Level(level) });
        let gone = self.live.extract_if(|&address, _| !is_sampled(address, level));
        let mut gone: Vec<_> = gone.map(|(_, object)| object).collect();
        let resizing = self.resizing.extract_if(|_, (address, _)| !is_sampled(*address, level));
        gone.extend(resizing.map(|(_, (_, object))| object));
        // The order within the map is nobody's.
        gone.sort_unstable_by_key(|object| object.serial);
        let forgotten = gone.into_iter().map(|object| Event::Forgotten { object });
        self.queue.extend(forgotten.map(|event| Step { clock, thread, event }));
    }
}

#[cfg(test)]
mod tests {
    use freehold_trace::file::is_sampled;
    use freehold_trace::record::Note;

    use super::*;
    use crate::trace::testing::Chunk;

    /// Addresses that are in the share of level 1, and that are not.
    fn addresses(is_in: bool) -> impl Iterator<Item = u64> {
        (1..).map(|number| number * 64).filter(move |&address| is_sampled(address, 1) == is_in)
    }

    fn events(chunk: &Chunk) -> Vec<Event> {
        let (_file, trace) = chunk.trace();
        let mut walk = Walk::new(&trace, 0).expect("a process");
        std::iter::from_fn(|| walk.next_step().expect("sound")).map(|step| step.event).collect()
    }

    /// What is forgotten, by size.
    fn forgotten(events: &[Event]) -> Vec<u64> {
        let size = |event: &Event| match event {
            Event::Forgotten { object } => Some(object.size),
            _ => None,
        };
        events.iter().filter_map(size).collect()
    }

    #[test]
    fn what_realloc_moves_out_of_the_share_is_not_followed() {
        let (first, out) = (addresses(true).next().expect("one"), addresses(false).next());
        let mut chunk = Chunk::default();
        chunk.note(Note::level(1)).malloc(first, 100);
        chunk.realloc_from(first).realloc_to(out.expect("one"), 200);
        let events = events(&chunk);
        assert_eq!(forgotten(&events), [100]);
        assert_eq!(events.len(), 3, "nothing else happens: {events:?}");
    }

    #[test]
    fn a_realloc_without_a_second_record_is_over_with_the_next_call_of_the_thread() {
        let [first, second, third] = addresses(true).take(3).collect::<Vec<_>>()[..] else {
            panic!("three");
        };
        let mut chunk = Chunk::default();
        chunk.note(Note::level(1)).malloc(first, 100).malloc(second, 101).malloc(third, 102);
        chunk.realloc_from(first).free(second).realloc_from(third).note(Note::exit());
        assert_eq!(forgotten(&events(&chunk)), [100, 102]);
    }

    #[test]
    fn a_level_that_rises_within_realloc_forgets_what_it_was_called_with() {
        let (within, out) = (addresses(true).next(), addresses(false).next().expect("one"));
        let mut chunk = Chunk::default();
        chunk.malloc(out, 100).realloc_from(out).note(Note::level(1));
        chunk.realloc_to(within.expect("one"), 200);
        let events = events(&chunk);
        assert_eq!(forgotten(&events), [100]);
        assert!(matches!(events.last(), Some(Event::Allocated { .. })), "{events:?}");
    }
}
