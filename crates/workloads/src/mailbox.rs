//! A bounded queue of blocks with a lock of its own. It must not know who sends and who receives.

use std::sync::{Mutex, PoisonError};

use crate::worker::{Halt, Held, Worker};

struct Ring<P> {
    places: P,
    first: usize,
    len: usize,
}

/// The queue, with its places in an array or a mapping. Two cache lines wide at least, so that
/// neighbours do not slow each other.
#[repr(align(128))]
pub(crate) struct Mailbox<P>(Mutex<Ring<P>>);

impl<P: AsMut<[Held]>> Mailbox<P> {
    /// An empty queue with these places.
    pub(crate) fn new(places: P) -> Self {
        Self(Mutex::new(Ring { places, first: 0, len: 0 }))
    }

    /// Puts a block in, unless the queue is full; then it stays in `held`.
    pub(crate) fn send(&self, held: &mut Held) -> bool {
        let ring = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let places = ring.places.as_mut();
        if ring.len == places.len() {
            return false;
        }
        places[(ring.first + ring.len) % places.len()] = held.take();
        ring.len += 1;
        true
    }

    /// Takes the oldest block out, or none.
    pub(crate) fn receive(&self) -> Held {
        self.receive_above(0)
    }

    /// Takes the oldest block out if there are more than so many.
    pub(crate) fn receive_above(&self, kept: usize) -> Held {
        let ring = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if ring.len <= kept {
            return Held::default();
        }
        let places = ring.places.as_mut();
        let held = places[ring.first].take();
        ring.first = (ring.first + 1) % places.len();
        ring.len -= 1;
        held
    }

    /// Frees every block that is in it.
    pub(crate) fn drain(&self, worker: &mut Worker<'_>) -> Result<(), Halt> {
        loop {
            let mut held = self.receive();
            if !held.is_some() {
                return Ok(());
            }
            worker.free(&mut held)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::tests::verifying;

    #[test]
    fn blocks_come_out_in_the_order_they_went_in_and_a_full_queue_refuses() {
        let session = verifying();
        let worker = &mut session.leader();
        let mailbox = Mailbox::new(session.map(3).expect("maps"));
        for round in 1..5 {
            for size in 1..=3 {
                let mut held = worker.allocate(round * 10 + size).expect("memory");
                assert!(mailbox.send(&mut held));
            }
            let mut surplus = worker.allocate(99).expect("memory");
            assert!(!mailbox.send(&mut surplus));
            worker.free(&mut surplus).expect("frees");
            let mut first = mailbox.receive();
            assert_eq!(first.size(), round * 10 + 1);
            worker.free(&mut first).expect("frees");
            mailbox.drain(worker).expect("frees");
            assert!(!mailbox.receive().is_some());
        }
        assert_eq!(session.live_bytes(), 0);
    }
}
