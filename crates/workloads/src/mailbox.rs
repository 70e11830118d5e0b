//! A bounded queue of blocks with a lock of its own. It must not know who sends and who receives.

use std::sync::{Mutex, PoisonError};

use crate::error::Error;
use crate::mapping::Mapping;
use crate::session::Session;
use crate::worker::{Halt, Held, Worker};

struct Ring {
    places: Mapping<Held>,
    first: usize,
    len: usize,
}

/// The queue. Two cache lines wide, so that neighbours do not slow each other.
#[repr(align(128))]
pub(crate) struct Mailbox(Mutex<Ring>);

impl Mailbox {
    /// So many queues with room for so many blocks each.
    pub(crate) fn many(
        session: &Session,
        count: usize,
        room: usize,
    ) -> Result<Mapping<Self>, Error> {
        session.fill_with(count, |_| {
            Ok(Self(Mutex::new(Ring { places: session.map(room)?, first: 0, len: 0 })))
        })
    }

    /// Puts a block in, unless the queue is full; then it stays in `held`.
    pub(crate) fn send(&self, held: &mut Held) -> bool {
        let mut ring = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = ring.places.len();
        if ring.len == room {
            return false;
        }
        let place = (ring.first + ring.len) % room;
        ring.places[place] = held.take();
        ring.len += 1;
        true
    }

    /// Takes the oldest block out, or none.
    pub(crate) fn receive(&self) -> Held {
        self.receive_above(0)
    }

    /// Takes the oldest block out if there are more than so many.
    pub(crate) fn receive_above(&self, kept: usize) -> Held {
        let mut ring = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if ring.len <= kept {
            return Held::default();
        }
        let place = ring.first;
        ring.first = (place + 1) % ring.places.len();
        ring.len -= 1;
        ring.places[place].take()
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
        let mailbox = &Mailbox::many(&session, 1, 3).expect("maps")[0];
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
