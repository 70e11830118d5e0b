//! The files of which the process is made, and where their tables are.

use crate::tls;
use core::ops::Range;
use freehold_sync::atomic::{AtomicBool, AtomicU32, Ordering};
use freehold_sync::gate::Gate;
use freehold_sys::futex;
use freehold_sys::loader::{self, File};

/// Who asks the loader holds its lock, which would stay held in the child of a fork: nobody asks
/// while a thread forks, and stacks that are looked at meanwhile are cut short.
static GATE: Gate = Gate::new();

/// Whether the calling thread is asking the loader.
fn asks() -> &'static AtomicBool {
    // SAFETY: the thread's own storage, which is there as long as the thread, and nobody keeps the
    // reference or gives it to another thread.
    unsafe { &(*tls::local()).asks_loader }
}

/// Before a fork. Waits for those who are asking, however long: a thread that is not running may
/// hold the loader's lock, and a child that found it held would wait for ever. They wait for nobody
/// but the loader. If this thread is asking itself, a signal handler forks: it cannot wait.
pub(crate) fn close() {
    let never = AtomicU32::new(0);
    GATE.close();
    // Relaxed: written by this thread.
    while !asks().load(Ordering::Relaxed) && !GATE.is_empty() {
        futex::wait_shortly(&never, 0, 1);
    }
}

/// After a fork, in the parent.
pub(crate) fn open() {
    GATE.open();
}

/// After a fork, in the child.
pub(crate) fn reset() {
    GATE.reset();
}

/// A program or library in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Image {
    start: usize,
    end: usize,
    /// The index of the table of frames: `PT_GNU_EH_FRAME`.
    pub(crate) index: usize,
    /// Whether it is the program itself.
    pub(crate) is_program: bool,
}

impl Image {
    /// The image that contains `address`, if that has a table of frames.
    pub(crate) fn containing(address: usize) -> Option<Self> {
        let (mut found, mut visited) = (None, 0);
        // Relaxed: read by this thread, in a signal handler at most. Set before the gate is entered
        // and reset after it is left, so that a handler in between finds it set.
        let before = asks().swap(true, Ordering::Relaxed);
        if GATE.enter() {
            loader::each_file(|file| {
                visited += 1;
                let is_here = file.contains(address);
                if is_here {
                    found = Self::of(file, visited == 1);
                }
                is_here
            });
            GATE.leave();
        }
        asks().store(before, Ordering::Relaxed);
        found
    }

    fn of(file: &File, is_program: bool) -> Option<Self> {
        let index = file.frames()?;
        let start = file.parts().map(|part| part.start).min()?;
        let end = file.parts().map(|part| part.end).max()?;
        Some(Self { start, end, index, is_program })
    }

    /// The addresses from its first to its last byte.
    pub(crate) fn range(&self) -> Range<usize> {
        self.start..self.end
    }
}
