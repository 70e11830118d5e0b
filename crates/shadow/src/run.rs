//! Doing what bytes say.

use crate::estate::Estate;
use crate::input::Input;
use crate::shadow::{Object, Shadow};
use crate::thread::Thread;
use freehold_heap::purge::Watch;
use freehold_sys::fake::Fake;
use freehold_sys::{HugePages, System};

/// Threads that there may be at a time: more than have heaps of their own if there is but one
/// processor would be too many to be worth it.
const THREADS: usize = 4;

/// Bytes in use, at most.
const MOST_BYTES: usize = 192 << 20;

/// Bytes that one operation allocates, at most, unless it is a single object.
const MOST_AT_ONCE: usize = 16 << 20;

/// Invariants are checked after every operation while there are no more blocks than this, and
/// otherwise after every so many operations.
const SMALL_ARENA: usize = 16 << 20;
const OPERATIONS_BETWEEN_CHECKS: usize = 64;

/// Runs the sequence that the bytes stand for.
///
/// # Panics
/// When anything is not as it must be.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let estate = Estate::new(system(&mut input));
    let mut sequence = Sequence {
        estate: &estate,
        threads: [const { None }; THREADS],
        shadow: Shadow::default(),
        // SAFETY: the steps of all threads, and those of the background thread, are taken by this
        // one, one after the other: nobody uses the arena meanwhile.
        watch: unsafe { Watch::reclaiming() },
        may_be_refused: false,
    };
    let mut done = 0;
    while !input.is_over() {
        sequence.step(&mut input);
        done += 1;
        if estate.arena().usage().committed <= SMALL_ARENA || done % OPERATIONS_BETWEEN_CHECKS == 0
        {
            // SAFETY: nobody is inside the allocator.
            unsafe { estate.arena().check() };
        }
    }
    sequence.finish();
}

/// A system of one of several kinds.
fn system(input: &mut Input) -> Fake {
    let kind = input.byte();
    let page = [4096, 4096, 16 << 10, 64 << 10][usize::from(kind & 3)];
    let space = [usize::MAX, usize::MAX, 300 << 20, 24 << 20][usize::from(kind >> 2 & 3)];
    let huge = [HugePages::OnRequest, HugePages::Always, HugePages::Never, HugePages::OnRequest]
        [usize::from(kind >> 4 & 3)];
    let processors = 1 + usize::from(kind >> 6);
    let system = Fake::new().with_page_size(page).with_address_space(space);
    system.with_huge_pages(huge).with_processors(processors)
}

struct Sequence<'a> {
    estate: &'a Estate<Fake>,
    threads: [Option<Thread<'a, Fake>>; THREADS],
    shadow: Shadow,
    watch: Watch,
    /// Whether the system fails, or has little address space.
    may_be_refused: bool,
}

impl<'a> Sequence<'a> {
    fn thread(&mut self, number: u8) -> &mut Thread<'a, Fake> {
        let estate = self.estate;
        self.threads[usize::from(number) % THREADS].get_or_insert_with(|| Thread::new(estate))
    }

    fn system(&self) -> &'a Fake {
        self.estate.arena().system()
    }

    fn step(&mut self, input: &mut Input) {
        let (what, who) = (input.byte(), input.byte());
        match what % 16 {
            0..=3 => self.allocate(who, input, |thread, size, _| (thread.alloc(size), 16)),
            4 => self.allocate(who, input, |thread, size, align| {
                (thread.alloc_aligned(size, align), align)
            }),
            5 => self.allocate_zeroed(who, input),
            6..=9 => self.free_some(who, input),
            10 | 11 => self.resize(who, input),
            12 => self.free_wrongly(who, input),
            13 => self.end_or_trim(who, input),
            14 => self.system().advance(u64::from(input.byte()) * 4),
            _ => self.meddle(input),
        }
    }

    fn allocate(
        &mut self,
        who: u8,
        input: &mut Input,
        mut give: impl FnMut(&mut Thread<'a, Fake>, usize, usize) -> (Option<usize>, usize),
    ) {
        let (size, align, times) = (input.size(), input.align(), input.byte());
        for _ in 0..=usize::from(times).min(MOST_AT_ONCE / size.max(1)) {
            if self.shadow.bytes() + size > MOST_BYTES {
                return;
            }
            let (given, align) = give(self.thread(who), size, align);
            let Some(address) = given else { return self.refused(size) };
            assert!(address.is_multiple_of(align), "{address:#x} is no multiple of {align}");
            self.enter(address, size);
        }
    }

    fn allocate_zeroed(&mut self, who: u8, input: &mut Input) {
        let size = input.size();
        if self.shadow.bytes() + size > MOST_BYTES {
            return;
        }
        let Some(address) = self.thread(who).alloc_zeroed(size) else { return self.refused(size) };
        // SAFETY: just given out, with at least `size` bytes, all of them written to.
        let bytes = unsafe { std::slice::from_raw_parts(address as *const u8, size) };
        assert!(bytes.iter().all(|&byte| byte == 0), "{size} bytes at {address:#x} are not zero");
        self.enter(address, size);
    }

    fn enter(&mut self, address: usize, size: usize) {
        let usable = self.estate.arena().usable_size(address);
        self.shadow.enter(address, size, usable.expect("it is in use"));
    }

    fn refused(&self, size: usize) {
        let is_short = self.system().address_space_left() != usize::MAX;
        assert!(self.may_be_refused || is_short, "{size} bytes were refused");
    }

    fn pick(&self, input: &mut Input) -> Option<Object> {
        self.shadow.nth(input.below(self.shadow.count()))
    }

    /// Frees objects that follow each other, by whichever thread.
    fn free_some(&mut self, who: u8, input: &mut Input) {
        let (first, times) = (input.below(self.shadow.count()), input.byte());
        for _ in 0..=times {
            let Some(object) = self.shadow.nth(first) else { return };
            self.shadow.leave(object);
            self.thread(who).free(object.address);
        }
    }

    fn resize(&mut self, who: u8, input: &mut Input) {
        let size = input.size().max(1);
        let Some(object) = self.pick(input) else { return };
        if self.shadow.bytes() + size > MOST_BYTES {
            return;
        }
        let Some(moved) = self.thread(who).resize(object.address, size) else {
            assert!(size > object.size, "it could have stayed");
            return self.refused(size);
        };
        let usable = self.estate.arena().usable_size(moved).expect("it is in use");
        self.shadow.resized(object, moved, size, usable);
    }

    /// Frees what is no object's start, which must be refused.
    fn free_wrongly(&mut self, who: u8, input: &mut Input) {
        let Some(object) = self.pick(input) else { return };
        let inside = object.address + 1 + input.below(object.size);
        let is_inside = inside < object.address + object.size;
        if is_inside {
            let freed = self.thread(who).try_free(inside);
            assert!(freed.is_err(), "{inside:#x}, inside {object:x?}, was freed");
        }
    }

    fn end_or_trim(&mut self, who: u8, input: &mut Input) {
        let arena = self.estate.arena();
        match input.byte() % 4 {
            0 => self.threads[usize::from(who) % THREADS] = None,
            1 => arena.let_go_of_shared().unwrap(),
            2 => {
                let cache = &mut self.thread(who).cache;
                cache.trim(arena).expect("nothing was freed twice");
            }
            _ => {
                arena.purge_within_slabs();
                arena.purge_all();
                arena.purge_heaps();
            }
        }
    }

    /// Has the system fail from the n-th call on, or ends that, or does a background thread's work.
    fn meddle(&mut self, input: &mut Input) {
        match input.byte() {
            0..100 => {
                self.system().recover();
                self.may_be_refused = false;
            }
            100..150 => {
                self.system().fail_after(usize::from(input.byte()));
                self.may_be_refused = true;
            }
            _ => {
                self.estate.arena().purge_idle(&mut self.watch).expect("nothing is freed twice");
            }
        }
    }

    /// Frees everything, ends all threads, and checks that nothing was lost.
    fn finish(mut self) {
        self.system().recover();
        let mut who = 0;
        while let Some(object) = self.shadow.nth(0) {
            self.shadow.leave(object);
            self.thread(who).free(object.address);
            who = who.wrapping_add(1);
        }
        self.threads = [const { None }; THREADS];
        let arena = self.estate.arena();
        arena.let_go_of_shared().unwrap();
        arena.purge_all();
        // SAFETY: nobody is inside the allocator.
        let census = unsafe { arena.check() };
        assert_eq!((census.objects_out, census.run_granules), (0, 0), "objects were lost");
        let usage = arena.usage();
        assert_eq!((usage.direct_mappings, usage.dirty), (0, 0), "memory was lost");
    }
}
