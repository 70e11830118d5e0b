//! Memory that could not be made accessible again.
//!
//! Where there are no guard markers, what is inaccessible has no rights, and to get them back it
//! may need memory that others have by then: that counts against a limit on data, or against what
//! the system commits at all, which is accessible. Such memory is not given back, for whoever
//! claimed it next would crash. It is a run that nobody has, on a list, until somebody who gives
//! memory back or needs some finds that it can be had again.

use crate::arena::Arena;
use crate::layout::Granule;
use crate::order;
use crate::tables::RUN;
use crate::tally::Account;
use freehold_sync::atomic::{AtomicU32, Ordering};
use freehold_sync::lock::Lock;
use freehold_sys::System;

/// The list. Its start is a run's granule plus one, 0 for none; the links are in the runs' local
/// parts. All is changed with the lock held. Relaxed, since the lock orders everything but a glance
/// whether there is anything.
pub(crate) struct Shut {
    pub(crate) lock: Lock,
    first: AtomicU32,
}

impl Shut {
    /// Nothing.
    pub(crate) const fn new() -> Self {
        Self { lock: Lock::new(order::SHUT), first: AtomicU32::new(0) }
    }
}

impl<S: System> Arena<S> {
    /// Keeps a granule that is inaccessible, is the caller's, and has no tag any longer.
    #[cold]
    pub(crate) fn keep_shut_granule(&self, g: Granule) {
        // SAFETY: the granule is the caller's, and so is its local part.
        let local = unsafe { &mut *self.local(g) };
        local.set_run(1);
        local.zeroed = false;
        // As a run that is free, so that another free of what was here is found out.
        local.bin.set_free(local.bin.number());
        self.tag(g).set(RUN, 0);
        self.keep_shut(g);
    }

    /// Keeps a run that is the caller's.
    #[cold]
    pub(crate) fn keep_shut(&self, g: Granule) {
        let first = &self.shut.first;
        self.shut.lock.hold(|| {
            // SAFETY: the run is the caller's, and so is its local part.
            unsafe { (*self.local(g)).next = first.load(Ordering::Relaxed) };
            first.store(g.0 + 1, Ordering::Relaxed);
        });
    }

    /// Gives back what can be made accessible by now, unless somebody else is at it.
    #[inline]
    pub(crate) fn give_back_shut(&self) {
        if self.shut.first.load(Ordering::Relaxed) != 0 {
            self.open_shut();
        }
    }

    #[cold]
    fn open_shut(&self) {
        if !self.shut.lock.try_acquire() {
            return;
        }
        let (first, account) = (&self.shut.first, Account::new(&self.tally));
        let (mut before, mut link) = (None, first.load(Ordering::Relaxed));
        // All of them: of those behind one that is too large some may be had.
        while let Some(g) = link.checked_sub(1).map(Granule) {
            // SAFETY: here and below, runs of the list, whose lock is held.
            link = unsafe { (*self.local(g)).next };
            if !self.open_run(g) {
                before = Some(g);
                continue;
            }
            match before {
                // SAFETY: as above.
                Some(before) => unsafe { (*self.local(before)).next = link },
                None => first.store(link, Ordering::Relaxed),
            }
            self.give_run(g, &account);
        }
        self.shut.lock.release();
    }

    /// Shows the runs of the list.
    #[cold]
    pub(crate) fn each_shut(&self, mut show: impl FnMut(Granule)) {
        self.shut.lock.hold(|| {
            let mut link = self.shut.first.load(Ordering::Relaxed);
            while let Some(g) = link.checked_sub(1).map(Granule) {
                show(g);
                // SAFETY: a run of the list, whose lock is held.
                link = unsafe { (*self.local(g)).next };
            }
        });
    }

    /// Makes a run of the list accessible. Returns whether it is.
    fn open_run(&self, g: Granule) -> bool {
        // SAFETY: the run is nobody's but the list's, whose lock is held. If it has no object of
        // hardened mode it is a granule that was guarded.
        self.reopen_freed(g).unwrap_or_else(|| unsafe { self.unguard(g, 1) })
    }
}
