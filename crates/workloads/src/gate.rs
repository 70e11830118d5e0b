//! A gate where threads gather until it is opened. It neither spins nor allocates, so threads
//! behind it are as idle as threads can be.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// What the threads at a gate are told.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Go on as planned.
    Go,
    /// Leave: not all threads could be started.
    Leave,
}

#[derive(Default)]
struct State {
    arrived: u32,
    signal: Option<Signal>,
}

/// The gate.
#[derive(Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    /// A thread has arrived. Not of interest to those who are there: if each of a hundred woke up
    /// for every one that comes, those that still work would have no processor.
    arrival: Condvar,
    /// The gate is open.
    opening: Condvar,
}

impl Gate {
    /// Arrives, and waits until the gate opens.
    pub(crate) fn pass(&self) -> Signal {
        let mut state = self.lock();
        state.arrived += 1;
        self.arrival.notify_all();
        loop {
            if let Some(signal) = state.signal {
                return signal;
            }
            state = self.opening.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until `threads` threads have arrived.
    pub(crate) fn wait_for(&self, threads: u32) {
        let mut state = self.lock();
        while state.arrived < threads {
            state = self.arrival.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Opens the gate for those who wait and those who come later.
    pub(crate) fn open(&self, signal: Signal) {
        self.lock().signal = Some(signal);
        self.opening.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
