//! A question that one process asks of another, by way of memory that both have mapped.
//!
//! Who asks counts `asked` up and waits until `answered` is the same; who answers writes the answer
//! somewhere beside these words and then says so. Both sleep on the words as they like: a word that
//! has changed is never slept on.
//!
//! | asked | answered | what it means |
//! |---|---|---|
//! | n | n | nothing is asked; the answer to n may be read |
//! | n + 1 | n | the answer is being written, and may not be read |
//! | n + 2 | n | the same, for somebody has given up waiting for n + 1 and asks again |
//!
//! Invariant: one answers, and one asks at a time, which who asks has to see to.

use crate::atomic::{AtomicU32, Ordering};

/// The orderings in force, in one place so that the model can show what happens with others.
pub(crate) struct Orders {
    /// Of asking.
    pub(crate) ask: Ordering,
    /// Of saying that it is answered.
    pub(crate) answer: Ordering,
}

/// Release in `answer` pairs with the Acquire in [`Question::is_answered`]: who asked finds the
/// answer whole. Release in `ask` pairs with the Acquire in [`Question::next`]: who asked has read
/// the last answer before it is written over.
pub(crate) const CORRECT: Orders = Orders { ask: Ordering::Release, answer: Ordering::Release };

/// The two words. All zero at first.
#[repr(C)]
#[derive(Debug)]
pub struct Question {
    asked: AtomicU32,
    answered: AtomicU32,
}

impl Question {
    /// One that nobody has asked.
    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self { asked: AtomicU32::new(0), answered: AtomicU32::new(0) }
    }

    /// Asks, and returns the number of the question.
    pub fn ask(&self) -> u32 {
        self.ask_by(&CORRECT)
    }

    pub(crate) fn ask_by(&self, orders: &Orders) -> u32 {
        // Relaxed: only who asks writes here, one at a time.
        let number = self.asked.load(Ordering::Relaxed).wrapping_add(1);
        self.asked.store(number, orders.ask);
        number
    }

    /// Whether the question of this number is answered.
    pub fn is_answered(&self, number: u32) -> bool {
        self.answered.load(Ordering::Acquire) == number
    }

    /// The question that was asked after the one that was answered last, if there is one.
    pub fn next(&self) -> Option<u32> {
        // Relaxed: who answers has written it himself.
        let last = self.answered.load(Ordering::Relaxed);
        let number = self.asked.load(Ordering::Acquire);
        (number != last).then_some(number)
    }

    /// Says that a question is answered.
    pub fn answer(&self, number: u32) {
        self.answer_by(number, &CORRECT);
    }

    pub(crate) fn answer_by(&self, number: u32, orders: &Orders) {
        self.answered.store(number, orders.answer);
    }

    /// The word to sleep on while nothing is asked, and what is in it then.
    pub fn asked(&self) -> (&AtomicU32, u32) {
        (&self.asked, self.answered.load(Ordering::Relaxed))
    }

    /// The word to sleep on while an answer is awaited.
    pub fn answered(&self) -> &AtomicU32 {
        &self.answered
    }
}
