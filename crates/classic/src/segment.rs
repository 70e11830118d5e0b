//! The data segment: memory that grows at one end, as `sbrk` had it, and never shrinks.

use crate::guarded::Guarded;
use crate::order;
use freehold_sync::lock::Lock;
use freehold_sys::{Linux, System};

/// Address space that is set aside, and the least that will do where a limit forbids that.
const RESERVED: usize = 64 << 30;
const LEAST_RESERVED: usize = 16 << 20;

/// What is made usable at once.
const STEP: usize = 1 << 20;

static SYSTEM: Linux = Linux::new();

/// The segment of a model.
pub(crate) struct Segment(Guarded<State>);

#[derive(Default)]
struct State {
    /// The first address of all, and the next one to give out.
    start: usize,
    next: usize,
    /// Where what is usable ends, and where what is set aside does.
    usable: usize,
    end: usize,
}

impl Segment {
    pub(crate) const fn new() -> Self {
        Self(Guarded::new(order::SEGMENT, State { start: 0, next: 0, usable: 0, end: 0 }))
    }

    /// More memory at the end: zeroed, and aligned to 16 if all sizes are multiples of that. What
    /// two calls give lies side by side unless there was another one in between.
    pub(crate) fn extend(&self, bytes: usize) -> Option<usize> {
        self.0.with(|state| state.extend(bytes))
    }

    /// How many bytes were given out so far.
    pub(crate) fn taken(&self) -> usize {
        self.0.with(|state| state.next - state.start)
    }

    pub(crate) fn lock(&self) -> &Lock {
        self.0.lock()
    }
}

impl State {
    fn extend(&mut self, bytes: usize) -> Option<usize> {
        if self.end == 0 {
            self.reserve()?;
        }
        let next = self.next.checked_add(bytes).filter(|next| *next <= self.end)?;
        if next > self.usable {
            let usable = next.next_multiple_of(STEP).min(self.end);
            // SAFETY: the range lies in the reservation, and begins where what is usable ended.
            if !unsafe { SYSTEM.commit(self.usable, usable - self.usable) } {
                return None;
            }
            self.usable = usable;
        }
        Some(core::mem::replace(&mut self.next, next))
    }

    fn reserve(&mut self) -> Option<()> {
        let sizes = core::iter::successors(Some(RESERVED), |bytes| Some(bytes / 2));
        let mut sizes = sizes.take_while(|bytes| *bytes >= LEAST_RESERVED);
        // Half of what a limit leaves: the program maps files and stacks as well.
        let most = SYSTEM.address_space_left() / 2;
        let (start, bytes) = sizes.find_map(|bytes| {
            let start = (bytes <= most).then(|| SYSTEM.reserve(bytes, STEP)).flatten()?;
            Some((start, bytes))
        })?;
        *self = Self { start, next: start, usable: start, end: start + bytes };
        Some(())
    }
}

/// Processors that this process may use.
pub(crate) fn processors() -> usize {
    SYSTEM.processors()
}

/// The size of a page.
pub(crate) fn page_size() -> usize {
    SYSTEM.page_size()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::at;

    #[test]
    fn it_grows_without_gaps_and_what_it_gives_is_zero() {
        let segment = Segment::new();
        let first = segment.extend(48).expect("memory");
        let second = segment.extend(3 * STEP).expect("memory");
        assert_eq!(second, first + 48);
        assert_eq!(segment.taken(), 48 + 3 * STEP);
        for address in [first, second, second + 3 * STEP - 8] {
            // SAFETY: within what the segment has just given out.
            assert_eq!(unsafe { at::<u64>(address).read() }, 0);
        }
        assert_eq!(segment.extend(usize::MAX), None);
        assert_eq!(segment.taken(), 48 + 3 * STEP);
    }
}
