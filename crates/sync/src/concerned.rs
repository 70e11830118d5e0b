//! Which thread was last concerned with a thing, for threads with clocks of their own.
//!
//! What is done with one thing by several threads, one after the other, is to bear rising times,
//! without a look at the time by who has it to itself. So each leaves a word, its own for that
//! thing, where the next will look: who finds it as he left it has been followed by nobody, and his
//! clock will do. Who does not leaves his own and looks at the time, which is later than any clock.
//!
//! Several things share a place. What another thing's user writes there, in whatever race, only
//! hides a word, and then the time is looked at.
//!
//! **Why plain loads and stores are enough.** One user of a thing comes after the other by some
//! order of the program's own. So what the one wrote, or something later, is what the other finds;
//! it finds its own word only if it wrote that after all others that have used the thing.
//!
//! Invariant: a word is written by its thread alone, and stands for one thing.

use crate::atomic::{AtomicU64, Ordering};

/// A place. Zero, which is nobody's word, at first.
#[derive(Debug)]
#[repr(transparent)]
pub struct Concerned(AtomicU64);

impl Concerned {
    /// Nobody was.
    pub fn nobody() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Whether the word that was left last is this one.
    #[inline(always)]
    pub fn is(&self, word: u64) -> bool {
        // Relaxed: by the order of the program's own this finds what the last user left, or later.
        self.0.load(Ordering::Relaxed) == word
    }

    /// Leaves a word, or 0.
    #[inline(always)]
    pub fn leave(&self, word: u64) {
        // Relaxed: as above.
        self.0.store(word, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_is_found_and_no_other() {
        let place = Concerned::nobody();
        place.leave(5);
        assert!(place.is(5) && !place.is(6));
        place.leave(0);
        assert!(!place.is(5));
    }
}
