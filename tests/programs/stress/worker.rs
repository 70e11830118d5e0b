//! What each thread does.

use std::mem::take;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use crate::block::Block;
use crate::calls::{CALLS, Call, Calls, Request};
use crate::complain::fail;
use crate::post::Post;
use crate::questions::Questions;
use crate::rng::Rng;
use crate::shadow::Shadow;

/// Bytes that all threads together have in use, at most.
const LIVE: usize = 256 << 20;
/// Blocks that a thread has, at most.
const MOST_BLOCKS: usize = 4000;
/// Steps between two looks at the clock and at the letter box.
const ROUND: usize = 64;
/// One round in so many is a thread's last.
const ROUNDS_OF_A_THREAD: usize = 50;
/// One round in so many ends with a fork.
const ROUNDS_BETWEEN_FORKS: usize = 400;
/// One step in so many asks malloc something.
const STEPS_BETWEEN_QUESTIONS: usize = 500;

/// What all threads have in common.
pub(crate) struct Shared {
    pub(crate) calls: Calls,
    pub(crate) questions: Questions,
    pub(crate) shadow: Shadow,
    pub(crate) post: Post,
    until: Instant,
    seed: u64,
    operations: AtomicU64,
    threads: AtomicU64,
    forks: AtomicU64,
    resized: AtomicU64,
    freed_elsewhere: AtomicU64,
    asked: AtomicU64,
    /// A bit for each call that was used.
    used: AtomicU64,
}

/// What was done.
pub(crate) struct Done {
    pub(crate) operations: u64,
    pub(crate) threads: u64,
    pub(crate) forks: u64,
    pub(crate) resized: u64,
    pub(crate) freed_elsewhere: u64,
    pub(crate) questions: u64,
    pub(crate) calls_unused: u32,
}

impl Shared {
    /// For so many threads.
    pub(crate) fn new(threads: usize, until: Instant, seed: u64) -> Self {
        Self {
            calls: Calls::new(),
            questions: Questions::new(),
            shadow: Shadow::new(),
            post: Post::new(threads),
            until,
            seed,
            operations: AtomicU64::new(0),
            threads: AtomicU64::new(0),
            forks: AtomicU64::new(0),
            resized: AtomicU64::new(0),
            freed_elsewhere: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            used: AtomicU64::new(0),
        }
    }
}

/// A line of threads, each of which inherits the blocks of the one before.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    lane: usize,
    rng: Rng,
    blocks: Vec<Block>,
    bytes: usize,
}

impl Worker {
    /// The first of its line.
    pub(crate) fn new(lane: usize, shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::clone(shared),
            lane,
            rng: Rng::new(shared.seed, lane as u64),
            blocks: Vec::new(),
            bytes: 0,
        }
    }

    /// Starts a thread that works, and sends its handle.
    pub(crate) fn start(self, handles: &Sender<JoinHandle<()>>) {
        self.shared.threads.fetch_add(1, Ordering::Relaxed);
        let sender = handles.clone();
        let handle = thread::spawn(move || self.live(&sender));
        handles.send(handle).expect("the main thread receives");
    }

    /// Works, and leaves everything to a new thread; at the end of the time to the letter box.
    fn live(mut self, handles: &Sender<JoinHandle<()>>) {
        loop {
            self.round();
            if Instant::now() >= self.shared.until {
                return self.leave_everything();
            }
            if self.rng.one_in(ROUNDS_BETWEEN_FORKS) {
                self.fork();
            }
            if self.rng.one_in(ROUNDS_OF_A_THREAD) {
                return self.start(handles);
            }
        }
    }

    fn round(&mut self) {
        for _ in 0..ROUND {
            self.step();
        }
        let operations = &self.shared.operations;
        operations.fetch_add(ROUND as u64, Ordering::Relaxed);
        let received = self.shared.post.collect(self.lane);
        self.shared.freed_elsewhere.fetch_add(received.len() as u64, Ordering::Relaxed);
        for block in received {
            self.free(block);
        }
    }

    fn step(&mut self) {
        if self.rng.one_in(STEPS_BETWEEN_QUESTIONS) {
            return self.ask();
        }
        let is_full =
            self.blocks.len() >= MOST_BLOCKS || self.bytes >= LIVE / self.shared.post.boxes();
        match self.rng.below(100) {
            0..45 if !is_full => self.allocate(),
            0..75 => {
                if let Some(block) = self.pick() {
                    self.free(block);
                }
            }
            75..85 => self.resize(),
            85..95 => {
                let to = self.rng.below(self.shared.post.boxes());
                if let Some(block) = self.pick() {
                    self.shared.post.send(to, block);
                }
            }
            _ => {
                let n = self.rng.below(self.blocks.len().max(1));
                if let Some(block) = self.blocks.get(n) {
                    block.check(&self.shared.calls);
                }
            }
        }
    }

    /// Mostly small, sometimes up to 8 MiB.
    fn size(&mut self) -> usize {
        match self.rng.below(200) {
            0..180 => self.rng.size(15),
            180..198 => self.rng.size(19),
            _ => self.rng.size(23),
        }
    }

    fn allocate(&mut self) {
        let call = Call::any(&mut self.rng);
        let align = match self.rng.below(20) {
            0 => 1 << self.rng.below(22),
            _ => 1 << self.rng.below(13),
        };
        let request = Request { call, size: self.size(), align };
        let shared = &self.shared;
        if let Some(block) = Block::new(&shared.calls, &shared.shadow, request, &mut self.rng) {
            shared.used.fetch_or(1 << call as u32, Ordering::Relaxed);
            self.keep(block);
        } else {
            fail(format_args!("{request:?}: there is no memory"));
        }
    }

    /// Asks for something that is not memory, or for more than there is.
    fn ask(&mut self) {
        let n = self.rng.below(self.blocks.len().max(1));
        let block = self.blocks.get(n);
        self.shared.questions.ask(block, &mut self.rng);
        self.shared.asked.fetch_add(1, Ordering::Relaxed);
    }

    fn resize(&mut self) {
        let size = self.size().max(1);
        let Some(block) = self.pick() else { return };
        if block.may_be_resized() {
            let shared = &self.shared;
            let resized = block.resize(&shared.calls, &shared.shadow, size, &mut self.rng);
            shared.resized.fetch_add(1, Ordering::Relaxed);
            self.keep(resized);
        } else {
            self.keep(block);
        }
    }

    fn keep(&mut self, block: Block) {
        self.bytes += block.bytes();
        self.blocks.push(block);
    }

    /// Takes any of the blocks away.
    fn pick(&mut self) -> Option<Block> {
        let n = self.rng.below(self.blocks.len().max(1));
        let block = (n < self.blocks.len()).then(|| self.blocks.swap_remove(n))?;
        self.bytes -= block.bytes();
        Some(block)
    }

    fn free(&mut self, block: Block) {
        let shared = &self.shared;
        block.free(&shared.calls, &shared.shadow, &mut self.rng);
    }

    /// Forks. The child goes on with what this thread has, as the only thread of its process.
    fn fork(&mut self) {
        // SAFETY: the child uses nothing that another thread may have been using.
        match unsafe { libc::fork() } {
            -1 => fail(format_args!("cannot fork")),
            0 => {
                self.go_on_in_child();
                // SAFETY: ends the child, without running anything of the parent's.
                unsafe { libc::_exit(0) }
            }
            child => {
                let mut status = 0;
                // SAFETY: waits for the child and writes to a local variable.
                let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
                if waited != child || status != 0 {
                    fail(format_args!("the child of a fork ended with {status:#x}"));
                }
                self.shared.forks.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn go_on_in_child(&mut self) {
        for _ in 0..ROUND {
            self.allocate();
            self.resize();
            if let Some(block) = self.pick() {
                self.free(block);
            }
        }
        for block in take(&mut self.blocks) {
            self.free(block);
        }
    }

    fn leave_everything(&mut self) {
        for block in take(&mut self.blocks) {
            self.shared.post.send(self.lane, block);
        }
    }

    /// Frees everything that was left, when all threads have ended.
    pub(crate) fn finish(mut self) -> Done {
        for lane in 0..self.shared.post.boxes() {
            for block in self.shared.post.collect(lane) {
                self.free(block);
            }
        }
        let shared = &self.shared;
        let count = |it: &AtomicU64| it.load(Ordering::Relaxed);
        Done {
            operations: count(&shared.operations),
            threads: count(&shared.threads),
            forks: count(&shared.forks),
            resized: count(&shared.resized),
            freed_elsewhere: count(&shared.freed_elsewhere),
            questions: count(&shared.asked),
            calls_unused: CALLS as u32 - count(&shared.used).count_ones(),
        }
    }
}
