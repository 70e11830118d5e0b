//! Which blocks of different threads lie on one cache line: an exact account of all live blocks,
//! kept in the harness's own memory. It must not know what the blocks are for.
//!
//! Only a block's first and last line count, and only where the block does not fill them: nothing
//! else fits on the others.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::mapping::{Mapping, Zeroed};

/// The size of a cache line.
pub(crate) const LINE: usize = 64;

/// Parts of the account, each under a lock of its own.
const SHARDS: usize = 64;

/// Places in a shard at first. A power of two, as every later number is.
const FIRST_PLACES: usize = 1024;

/// How many blocks were falsely shared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FalseSharing {
    /// Blocks allocated.
    pub blocks: u64,
    /// Those of them that, while they lived, lay on a line with a live block of another thread.
    pub shared_blocks: u64,
    /// The most lines at once that had live blocks of several threads.
    pub peak_shared_lines: u64,
}

/// A block's presence on a line; a line of zero is an empty place.
#[derive(Clone, Copy)]
struct Presence {
    line: usize,
    block: usize,
    owner: u32,
    /// Whether a block of another thread was ever on the line with it.
    was_shared: bool,
}

// SAFETY: integers and a flag, for all of which zero is valid.
unsafe impl Zeroed for Presence {}

const NONE: Presence = Presence { line: 0, block: 0, owner: 0, was_shared: false };

/// A hash table with linear probing. Everything on one line is in one shard and one run of places.
struct Shard {
    places: Mapping<Presence>,
    used: usize,
}

/// The account.
pub(crate) struct Lines {
    shards: Mapping<Mutex<Shard>>,
    blocks: AtomicU64,
    shared_blocks: AtomicU64,
    shared_now: AtomicU64,
    peak_shared: AtomicU64,
}

impl Lines {
    pub(crate) fn new() -> io::Result<Self> {
        let mut shards = Vec::with_capacity(SHARDS);
        for _ in 0..SHARDS {
            shards.push(Shard { places: Mapping::zeroed(FIRST_PLACES)?, used: 0 });
        }
        let mut shards = shards.into_iter();
        let next = |_| Mutex::new(shards.next().expect("as many as there are places"));
        Ok(Self {
            shards: Mapping::filled(SHARDS, next)?,
            blocks: AtomicU64::new(0),
            shared_blocks: AtomicU64::new(0),
            shared_now: AtomicU64::new(0),
            peak_shared: AtomicU64::new(0),
        })
    }

    /// Enters a block that `owner` has been given.
    pub(crate) fn enter(&self, block: usize, size: usize, owner: u32) {
        self.blocks.fetch_add(1, Ordering::Relaxed);
        for line in partial_lines(block, size) {
            let presence = Presence { line, block, owner, was_shared: false };
            self.change(line, |shard| shard.insert(presence));
        }
    }

    /// Strikes a block out that is about to be freed.
    pub(crate) fn strike(&self, block: usize, size: usize) {
        let mut was_shared = false;
        for line in partial_lines(block, size) {
            self.change(line, |shard| was_shared |= shard.remove(line, block));
        }
        self.shared_blocks.fetch_add(u64::from(was_shared), Ordering::Relaxed);
    }

    /// Makes another thread the owner of a block.
    pub(crate) fn hand_over(&self, block: usize, size: usize, owner: u32) {
        for line in partial_lines(block, size) {
            self.change(line, |shard| {
                let was_shared = shard.remove(line, block);
                shard.insert(Presence { line, block, owner, was_shared });
            });
        }
    }

    /// The count so far. Blocks that still live are not yet counted as shared.
    pub(crate) fn count(&self) -> FalseSharing {
        FalseSharing {
            blocks: self.blocks.load(Ordering::Relaxed),
            shared_blocks: self.shared_blocks.load(Ordering::Relaxed),
            peak_shared_lines: self.peak_shared.load(Ordering::Relaxed),
        }
    }

    /// Changes what is on a line, and keeps count of the shared ones.
    fn change(&self, line: usize, change: impl FnOnce(&mut Shard)) {
        let mut shard = self.shard(line);
        let before = shard.is_shared(line);
        change(&mut shard);
        match (before, shard.is_shared(line)) {
            (false, true) => {
                let now = self.shared_now.fetch_add(1, Ordering::Relaxed) + 1;
                self.peak_shared.fetch_max(now, Ordering::Relaxed);
            }
            (true, false) => {
                self.shared_now.fetch_sub(1, Ordering::Relaxed);
            }
            _ => {}
        }
    }

    fn shard(&self, line: usize) -> MutexGuard<'_, Shard> {
        let shard = &self.shards[hash(line) % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first and the last line of a block where it leaves room for others, as line numbers.
fn partial_lines(block: usize, size: usize) -> impl Iterator<Item = usize> {
    let end = block + size.max(1);
    let (first, last) = (block / LINE, (end - 1) / LINE);
    let leaves_room = move |line: usize| block > line * LINE || end < (line + 1) * LINE;
    let second = (last != first).then_some(last);
    [Some(first), second].into_iter().flatten().filter(move |&line| leaves_room(line))
}

fn hash(line: usize) -> usize {
    (line as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32) as usize
}

impl Shard {
    /// Where the presences of a line begin to be looked for.
    fn home(&self, line: usize) -> usize {
        (hash(line) / SHARDS) & (self.places.len() - 1)
    }

    /// The places from a line's home to the first empty one.
    fn run(&self, line: usize) -> impl Iterator<Item = usize> {
        let mask = self.places.len() - 1;
        let home = self.home(line);
        let places = (home..home + self.places.len()).map(move |place| place & mask);
        places.take_while(|&place| self.places[place].line != 0)
    }

    fn is_shared(&self, line: usize) -> bool {
        let mut owners = self.run(line).map(|place| self.places[place]);
        let owners = owners.by_ref().filter(|presence| presence.line == line);
        let mut owners = owners.map(|presence| presence.owner);
        let first = owners.next();
        owners.any(|owner| Some(owner) != first)
    }

    fn insert(&mut self, presence: Presence) {
        if self.used * 2 >= self.places.len() {
            self.grow();
        }
        self.put(presence);
        if self.is_shared(presence.line) {
            self.mark(presence.line);
        }
    }

    /// Remembers that all blocks on a line are shared.
    fn mark(&mut self, line: usize) {
        let mask = self.places.len() - 1;
        let mut place = self.home(line);
        while self.places[place].line != 0 {
            if self.places[place].line == line {
                self.places[place].was_shared = true;
            }
            place = (place + 1) & mask;
        }
    }

    fn put(&mut self, presence: Presence) {
        let mask = self.places.len() - 1;
        let mut place = self.home(presence.line);
        while self.places[place].line != 0 {
            place = (place + 1) & mask;
        }
        self.places[place] = presence;
        self.used += 1;
    }

    /// Removes a block from a line; returns whether it was shared there.
    fn remove(&mut self, line: usize, block: usize) -> bool {
        let found = self.run(line).find(|&place| {
            let presence = self.places[place];
            presence.line == line && presence.block == block
        });
        let Some(found) = found else { return false };
        let was_shared = self.places[found].was_shared;
        self.close_gap(found);
        self.used -= 1;
        was_shared
    }

    /// Empties a place, and moves those behind it up so that every run stays without gaps.
    fn close_gap(&mut self, mut gap: usize) {
        let mask = self.places.len() - 1;
        let mut place = gap;
        loop {
            place = (place + 1) & mask;
            let presence = self.places[place];
            if presence.line == 0 {
                break;
            }
            // It may move up if its home is not between the gap and where it is.
            let from_home = place.wrapping_sub(self.home(presence.line)) & mask;
            let from_gap = place.wrapping_sub(gap) & mask;
            if from_home >= from_gap {
                self.places[gap] = presence;
                gap = place;
            }
        }
        self.places[gap] = NONE;
    }

    /// Doubles the number of places. Without memory for that, the account is lost, and so is the
    /// run: there is nobody to tell from within a measured call.
    fn grow(&mut self) {
        let places = Mapping::zeroed(self.places.len() * 2).expect("memory for the account");
        let old = std::mem::replace(&mut self.places, places);
        self.used = 0;
        for presence in old.iter().filter(|presence| presence.line != 0) {
            self.put(*presence);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    const BASE: usize = 0x7000_0000;

    fn counted(steps: impl FnOnce(&Lines)) -> FalseSharing {
        let lines = Lines::new().expect("maps");
        steps(&lines);
        lines.count()
    }

    #[test]
    fn two_blocks_of_two_threads_on_one_line_are_both_shared() {
        let count = counted(|lines| {
            lines.enter(BASE, 16, 0);
            lines.enter(BASE + 16, 16, 1);
            lines.strike(BASE, 16);
            lines.strike(BASE + 16, 16);
        });
        assert_eq!(count, FalseSharing { blocks: 2, shared_blocks: 2, peak_shared_lines: 1 });
    }

    #[test]
    fn neither_one_thread_nor_neighbouring_lines_make_sharing() {
        let count = counted(|lines| {
            lines.enter(BASE, 16, 0);
            lines.enter(BASE + 16, 48, 0);
            lines.enter(BASE + 64, 64, 1);
            lines.enter(BASE + 128, 100, 2);
            for (offset, size) in [(0, 16), (16, 48), (64, 64), (128, 100)] {
                lines.strike(BASE + offset, size);
            }
        });
        assert_eq!(count, FalseSharing { blocks: 4, shared_blocks: 0, peak_shared_lines: 0 });
    }

    #[test]
    fn blocks_that_never_lived_together_do_not_share() {
        let count = counted(|lines| {
            lines.enter(BASE, 16, 0);
            lines.strike(BASE, 16);
            lines.enter(BASE + 16, 16, 1);
            lines.strike(BASE + 16, 16);
        });
        assert_eq!(count.shared_blocks, 0);
    }

    #[test]
    fn a_block_shared_at_both_ends_counts_once_and_the_peak_counts_lines() {
        let count = counted(|lines| {
            lines.enter(BASE, 16, 0);
            lines.enter(BASE + 16, 200, 1);
            lines.enter(BASE + 216, 16, 2);
            lines.strike(BASE + 16, 200);
            lines.strike(BASE, 16);
            lines.strike(BASE + 216, 16);
        });
        assert_eq!(count, FalseSharing { blocks: 3, shared_blocks: 3, peak_shared_lines: 2 });
    }

    #[test]
    fn a_block_handed_over_shares_with_what_its_old_owner_keeps() {
        let count = counted(|lines| {
            lines.enter(BASE, 8, 0);
            lines.enter(BASE + 8, 8, 0);
            lines.hand_over(BASE + 8, 8, 1);
            lines.hand_over(BASE + 8, 8, 0);
            lines.strike(BASE, 8);
            lines.strike(BASE + 8, 8);
        });
        assert_eq!(count, FalseSharing { blocks: 2, shared_blocks: 2, peak_shared_lines: 1 });
    }

    #[test]
    fn the_account_agrees_with_a_simple_one_over_many_random_blocks() {
        let lines = Lines::new().expect("maps");
        let mut rng = Rng::for_thread(3, 0);
        // Blocks of a quarter line, each with its owner and whether it was ever shared.
        let mut places: Vec<Option<(u32, bool)>> = vec![None; 400_000];
        let mut shared = 0;
        let mut strike = |place: usize, places: &mut Vec<Option<(u32, bool)>>| {
            let (_, was_shared) = places[place].take().expect("live");
            shared += u64::from(was_shared);
            lines.strike(BASE + place * 16, 16);
        };
        for _ in 0..300_000 {
            let place = rng.below(400_000) as usize;
            if places[place].is_some() {
                strike(place, &mut places);
                continue;
            }
            let owner = rng.below(3);
            places[place] = Some((owner, false));
            lines.enter(BASE + place * 16, 16, owner);
            let line = &mut places[place / 4 * 4..][..4];
            let is_shared = line.iter().flatten().any(|(other, _)| *other != owner);
            line.iter_mut().flatten().for_each(|(_, shared)| *shared |= is_shared);
        }
        for place in 0..places.len() {
            if places[place].is_some() {
                strike(place, &mut places);
            }
        }
        assert_eq!(lines.count().shared_blocks, shared);
        assert!(shared > 1000);
        assert_eq!(lines.shared_now.load(Ordering::Relaxed), 0);
    }
}
