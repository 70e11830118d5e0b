//! Cache lines that several threads write at the same time: whether they write the same word, as
//! spinning threads do, or words that only happen to lie beside each other. Pure bookkeeping.

use std::collections::HashMap;

use crate::stack::touch::Touch;
use crate::watch::ThreadKey;

/// Lines that are kept. Those that are touched when there are as many are left out.
const MOST_LINES: usize = 65_536;

/// Bytes of a line.
const LINE: u64 = 64;

/// Samples of one thread that follow each other within so many nanoseconds are of one visit to a
/// line: a thread that was given a processor keeps it for some milliseconds on a busy machine.
const VISIT_NS: u64 = 5_000_000;

/// Stacks that are kept for a line: of those that touch it much, most are seen early.
const MOST_STACKS: usize = 16;

/// What one thread did to a line.
#[derive(Debug, Clone, Copy, Default)]
struct Use {
    tid: u32,
    samples: u32,
    writes: u32,
    atomics: u32,
    /// The bytes at which it touched the line, and wrote it, a bit each.
    bytes: u64,
    written: u64,
}

#[derive(Debug)]
struct Line<Stack> {
    uses: Vec<Use>,
    /// The thread that touched it last, and when its visit began.
    last: u32,
    since_ns: u64,
    visits: u32,
    /// How often another thread than the one before touched it.
    turns: u32,
    /// The bytes that were exchanged, a bit each.
    exchanged: u64,
    stacks: Vec<(Stack, u32)>,
}

impl<Stack> Default for Line<Stack> {
    fn default() -> Self {
        Self {
            uses: Vec::new(),
            last: 0,
            since_ns: 0,
            visits: 0,
            turns: 0,
            exchanged: 0,
            stacks: Vec::new(),
        }
    }
}

/// How a line is shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// By one thread, or hardly.
    None,
    /// Threads write the same word in one step: a lock that is spun for, a counter.
    Atomic,
    /// Threads write different words.
    False,
}

/// A word that threads exchange all together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word<'a, Stack> {
    /// The process.
    pub(crate) pid: u32,
    /// Where it is.
    pub(crate) address: u64,
    /// Who touches its line, and in how many samples.
    pub(crate) stacks: &'a [(Stack, u32)],
}

/// The lines that samples touched, and the stacks that did.
#[derive(Debug)]
pub(crate) struct Lines<Stack> {
    /// By process and line.
    lines: HashMap<(u32, u64), Line<Stack>>,
    samples: u32,
}

impl<Stack> Default for Lines<Stack> {
    fn default() -> Self {
        Self { lines: HashMap::new(), samples: 0 }
    }
}

/// How many samples touched lines that are shared in each way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Shared {
    /// Words that are written in one step.
    pub(crate) atomic: u32,
    /// Different words of a line.
    pub(crate) falsely: u32,
}

impl<Stack: Clone + Eq> Lines<Stack> {
    /// Takes account of what a sample of a thread touches. Samples have to come in the order of
    /// time.
    pub(crate) fn add(
        &mut self,
        (pid, tid): ThreadKey,
        at_ns: u64,
        touches: &[Touch],
        stack: &Stack,
    ) {
        self.samples += 1;
        for (n, touch) in touches.iter().enumerate() {
            let line = touch.address / LINE;
            let at = (pid, line);
            if self.lines.len() < MOST_LINES || self.lines.contains_key(&at) {
                let own = self.lines.entry(at).or_default();
                own.add(tid, at_ns, touch);
                // A sample is of a line once, however often it touches it.
                if touches[..n].iter().all(|other| other.address / LINE != line) {
                    own.add_stack(stack);
                }
            }
        }
    }

    /// The words that threads exchange, in a fixed order.
    pub(crate) fn exchanged(&self) -> Vec<Word<'_, Stack>> {
        let atomic = self.lines.iter().filter(|(_, line)| line.sharing() == Sharing::Atomic);
        let word = |(&(pid, at), line): (&(u32, u64), _)| {
            let line: &Line<Stack> = line;
            let byte = u64::from(line.exchanged.trailing_zeros());
            Word { pid, address: at * LINE + byte, stacks: &line.stacks }
        };
        let mut words: Vec<_> = atomic.map(word).collect();
        words.sort_unstable_by_key(|word| (word.pid, word.address));
        words
    }

    /// How many samples touched shared lines. A sample that touches several counts once at most,
    /// as far as the sum can tell.
    pub(crate) fn shared(&self) -> Shared {
        let mut shared = Shared::default();
        for line in self.lines.values() {
            match line.sharing() {
                Sharing::None => {}
                Sharing::Atomic => shared.atomic += line.samples(),
                Sharing::False => shared.falsely += line.samples(),
            }
        }
        let limit = |samples: u32| samples.min(self.samples);
        Shared { atomic: limit(shared.atomic), falsely: limit(shared.falsely) }
    }
}

impl<Stack: Clone + Eq> Line<Stack> {
    fn add_stack(&mut self, stack: &Stack) {
        if let Some((_, samples)) = self.stacks.iter_mut().find(|(known, _)| known == stack) {
            *samples += 1;
        } else if self.stacks.len() < MOST_STACKS {
            self.stacks.push((stack.clone(), 1));
        }
    }

    fn add(&mut self, tid: u32, at_ns: u64, touch: &Touch) {
        let at = self.uses.iter().position(|own| own.tid == tid).unwrap_or_else(|| {
            self.uses.push(Use { tid, ..Use::default() });
            self.uses.len() - 1
        });
        let is_other = self.last != tid;
        self.turns += u32::from(is_other);
        if is_other || at_ns.saturating_sub(self.since_ns) >= VISIT_NS {
            self.visits += 1;
            (self.last, self.since_ns) = (tid, at_ns);
        }
        let own = &mut self.uses[at];
        own.samples += 1;
        own.writes += u32::from(touch.is_write);
        own.atomics += u32::from(touch.is_atomic);
        let byte = 1 << (touch.address % LINE);
        own.bytes |= byte;
        own.written |= if touch.is_write { byte } else { 0 };
        self.exchanged |= if touch.is_atomic { byte } else { 0 };
    }

    fn samples(&self) -> u32 {
        self.uses.iter().map(|own| own.samples).sum()
    }

    /// Shared is what at least two threads touch often, in turns, and one of them writes.
    fn sharing(&self) -> Sharing {
        const FEWEST: u32 = 4;
        let all = self.samples();
        let often: Vec<_> = self
            .uses
            .iter()
            .filter(|own| own.samples >= FEWEST && own.samples * 20 >= all)
            .collect();
        let in_turns = self.turns * 10 >= self.visits;
        let writers: Vec<_> = often.iter().filter(|own| own.writes > 0).collect();
        if often.len() < 2 || !in_turns || writers.is_empty() {
            return Sharing::None;
        }
        let same = often.iter().skip(1).any(|own| own.bytes & often[0].bytes != 0);
        let atomics: u32 = often.iter().map(|own| own.atomics).sum();
        if same && atomics > 0 {
            return Sharing::Atomic;
        }
        // They may read what others write: each takes the line from all others all the same.
        let all_written = writers.iter().fold(0, |all, own| all | own.written);
        let written: u32 = writers.iter().map(|own| own.written.count_ones()).sum();
        let are_apart = written == all_written.count_ones();
        if writers.len() >= 2 && are_apart { Sharing::False } else { Sharing::None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(address: u64) -> Touch {
        Touch { address, is_write: true, is_atomic: false }
    }

    fn shared(touches: impl Fn(u32) -> Touch, threads: u32) -> Shared {
        let mut lines = Lines::default();
        for n in 0..40 {
            let tid = 1 + n % threads;
            lines.add((1, tid), u64::from(n) * VISIT_NS, &[touches(tid)], &());
        }
        lines.shared()
    }

    #[test]
    fn words_beside_each_other_that_threads_write_in_turns_are_shared_falsely() {
        let beside = shared(|tid| written(0x1000 + u64::from(tid) * 8), 2);
        assert_eq!(beside, Shared { atomic: 0, falsely: 40 });
        let apart = shared(|tid| written(0x1000 + u64::from(tid) * 64), 2);
        assert_eq!(apart, Shared::default());
    }

    #[test]
    fn words_that_each_thread_writes_for_itself_are_shared_falsely_though_others_read_them() {
        let ends = |tid: u32| {
            let own = written(0x1000 + u64::from(tid) * 8);
            let other = Touch { is_write: false, ..written(0x1000 + u64::from(3 - tid) * 8) };
            [own, other]
        };
        let queue = |touches: &dyn Fn(u32) -> [Touch; 2]| {
            let mut lines = Lines::default();
            for n in 0..40 {
                let tid = 1 + n % 2;
                lines.add((1, tid), u64::from(n) * VISIT_NS, &touches(tid), &());
            }
            lines.shared()
        };
        assert_eq!(queue(&ends), Shared { atomic: 0, falsely: 40 });
        // What both write, under a lock say, is shared by intent.
        let both = |tid: u32| [written(0x1010), ends(tid)[0]];
        assert_eq!(queue(&both), Shared::default());
    }

    #[test]
    fn a_word_that_threads_exchange_is_shared_by_intent() {
        let spun = shared(|_| Touch { is_atomic: true, ..written(0x1000) }, 3);
        assert_eq!(spun, Shared { atomic: 40, falsely: 0 });
    }

    #[test]
    fn a_word_that_threads_exchange_is_known_with_those_who_do() {
        let mut lines = Lines::default();
        for n in 0..40 {
            let exchanged = Touch { is_atomic: true, ..written(0x1008) };
            // It is looked at before: the sample is of the line once all the same.
            let read = Touch { is_write: false, ..written(0x1008) };
            lines.add((7, 1 + n % 2), u64::from(n), &[read, exchanged], &(n % 2));
        }
        let stacks = [(0, 20), (1, 20)];
        assert_eq!(lines.exchanged(), [Word { pid: 7, address: 0x1008, stacks: &stacks }]);
        assert_eq!(Lines::<()>::default().exchanged(), []);
    }

    #[test]
    fn reading_together_is_no_harm() {
        let read = Touch { is_write: false, ..written(0x1000) };
        assert_eq!(shared(|_| read, 3), Shared::default());
    }

    #[test]
    fn memory_that_was_handed_on_once_is_not_shared() {
        let mut lines = Lines::default();
        for n in 0..40 {
            let tid = 1 + n / 20;
            let at_ns = u64::from(n) * VISIT_NS;
            lines.add((1, tid), at_ns, &[written(0x1000 + u64::from(tid) * 8)], &());
        }
        assert_eq!(lines.shared(), Shared::default());
    }

    #[test]
    fn threads_that_take_turns_on_a_busy_processor_share_what_they_both_write() {
        let mut lines = Lines::default();
        for n in 0..400 {
            // Each has the processor for 4 ms, with a sample every 0.2 ms.
            let (tid, at_ns) = (1 + n / 20 % 2, u64::from(n) * 200_000);
            lines.add((1, tid), at_ns, &[written(0x1000 + u64::from(tid) * 8)], &());
        }
        assert_eq!(lines.shared(), Shared { atomic: 0, falsely: 400 });
    }
}
