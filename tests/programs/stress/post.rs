//! Blocks on their way from the thread that got them to the thread that frees them.

use std::sync::{Mutex, MutexGuard};

use crate::block::Block;

/// A box for every thread.
pub(crate) struct Post {
    boxes: Vec<Mutex<Vec<Block>>>,
}

impl Post {
    /// So many boxes, all empty.
    pub(crate) fn new(boxes: usize) -> Self {
        let empty = || Mutex::new(Vec::new());
        Self { boxes: (0..boxes).map(|_| empty()).collect() }
    }

    /// How many boxes there are.
    pub(crate) fn boxes(&self) -> usize {
        self.boxes.len()
    }

    fn open(&self, number: usize) -> MutexGuard<'_, Vec<Block>> {
        self.boxes[number].lock().expect("nobody panics with a box open")
    }

    /// Sends a block.
    pub(crate) fn send(&self, to: usize, block: Block) {
        self.open(to).push(block);
    }

    /// Takes everything that was sent to this box.
    pub(crate) fn collect(&self, number: usize) -> Vec<Block> {
        std::mem::take(&mut *self.open(number))
    }
}
