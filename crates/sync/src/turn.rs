//! Turns: a thread uses what is its own for the price of a store and a load, and somebody else may
//! use it in its place while the thread is out.
//!
//! A thread *begins* a turn before it touches what others may use, and *ends* it afterwards. Who
//! wants to use that of another thread *summons* it, makes all threads pass a barrier, and looks
//! whether it is out: if so it stays out until it is dismissed, for it finds itself summoned when
//! it begins its next turn, and waits.
//!
//! | the thread | the summoner |
//! |---|---|
//! | says that it is in | summons it |
//! | (nothing, but the compiler keeps the order) | a barrier in every thread: `membarrier(2)` |
//! | looks whether it is summoned | looks whether it is out |
//!
//! **Why that is enough.** Each side writes before it reads what the other writes. With a barrier
//! in between on both sides at least one of them sees the other, as in Dekker's algorithm; here the
//! summoner's barrier is one for both, since every thread that runs passes it. If the thread sees
//! that it is summoned, it is out again; if the summoner sees that the thread is in, it leaves it
//! alone.
//!
//! The summoner may have no right to read where the thread says whether it is in, which goes away
//! with the thread. So it is handed the byte by whoever can tell (`System::peek`), and
//! [`tells_out`] orders what follows.
//!
//! Invariant: one thread is summoned at a time, and whoever summons another finds that out.

#[cfg(not(loom))]
use crate::atomic::pause;
use crate::atomic::{AtomicU8, AtomicU32, Ordering, fence, light_fence};
#[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
use freehold_sys::signal;

const OUT: u8 = 0;
/// One less, so that who is out gets in by a subtraction, which tells whether it was out.
const IN: u8 = OUT.wrapping_sub(1);

/// How often a thread that is summoned looks again before it sleeps: some microseconds, as long as
/// it takes to find that it has nothing that anybody wants.
#[cfg(not(loom))]
const SPINS: u32 = 100;

/// The orderings in force, in one place so that the model can show what happens with others.
pub(crate) struct Orders {
    /// Of ending a turn.
    pub(crate) end: Ordering,
    /// Of dismissing a thread.
    pub(crate) dismiss: Ordering,
    /// Whether there is a barrier on both sides.
    pub(crate) barriers: bool,
}

/// Release in `end` pairs with the Acquire fence in [`tells_out`]: who finds the thread out sees
/// all that it did. Release in `dismiss` pairs with the Acquire in [`Summons::is_for`]: the thread
/// sees what was done in its place. (A later summons of another thread may be what is read instead:
/// [`Summons::call`], an exchange, goes on with what the dismissal released, and its Acquire shows
/// the next summoner what the one before did.)
pub(crate) const CORRECT: Orders =
    Orders { end: Ordering::Release, dismiss: Ordering::Release, barriers: true };

/// Whether a thread is in or out. All zero is out.
#[derive(Debug)]
#[repr(transparent)]
pub struct Turn(AtomicU8);

impl Turn {
    /// Out.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self(AtomicU8::new(OUT))
    }

    /// Out.
    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self(AtomicU8::new(OUT))
    }

    /// The address at which the byte stands that [`tells_out`] can make sense of.
    pub fn address(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    /// Whether the calling thread, whose turn this is, is in: a signal handler may ask.
    #[inline(always)]
    pub fn is_in(&self) -> bool {
        // Relaxed: the thread has written it itself. Who interrupted it may be about to find out,
        // and have taken one more, when it is interrupted in its turn.
        self.0.load(Ordering::Relaxed) != OUT
    }

    /// Begins a turn, after waiting while the thread is summoned.
    #[inline(always)]
    pub fn begin(&self, summons: &Summons) {
        self.begin_by(&CORRECT, summons);
    }

    /// Begins a turn, unless the thread is in already, as who interrupts it there may find, or any
    /// thread is summoned: for who has something else to do then than to wait, or to find out which
    /// one that is. The turn is `OFFSET` bytes from `base`: who knows that saves a register.
    ///
    /// # Safety
    /// That is where it is; only its thread calls this, and who interrupts that.
    #[cfg(not(loom))]
    #[inline(always)]
    #[must_use]
    pub unsafe fn try_begin_at<const OFFSET: usize>(base: *mut u8, summons: &Summons) -> bool {
        // SAFETY: the caller's promise.
        let turn = unsafe { &*base.add(OFFSET).cast::<Self>() };
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            // SAFETY: the caller's promise: so only the thread writes to the byte, and who
            // interrupts it, whose turns end before it goes on.
            let was_out = unsafe { signal::take_one_from_zero::<OFFSET>(base) };
            was_out && turn.stays_unless_any(&CORRECT, summons)
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        {
            !turn.is_in() && turn.begin_unless_any_by(&CORRECT, summons)
        }
    }

    /// Begins a turn, unless any thread is summoned.
    #[cfg(any(loom, miri, not(target_arch = "x86_64")))]
    #[inline(always)]
    pub(crate) fn begin_unless_any_by(&self, orders: &Orders, summons: &Summons) -> bool {
        // Relaxed: the barrier orders it before the look.
        self.0.store(IN, Ordering::Relaxed);
        self.stays_unless_any(orders, summons)
    }

    /// Whether no thread is summoned. If one is, this one, which is in, gets out again.
    #[inline(always)]
    fn stays_unless_any(&self, orders: &Orders, summons: &Summons) -> bool {
        light_fence(orders.barriers);
        let stays = !summons.is_for_any();
        if !stays {
            self.end_by(orders);
        }
        stays
    }

    #[inline(always)]
    pub(crate) fn begin_by(&self, orders: &Orders, summons: &Summons) {
        while !self.try_begin_by(orders, summons) {
            summons.wait_for(self);
        }
    }

    #[inline(always)]
    fn try_begin_by(&self, orders: &Orders, summons: &Summons) -> bool {
        // Relaxed: the barrier orders it before the look.
        self.0.store(IN, Ordering::Relaxed);
        light_fence(orders.barriers);
        let begun = !summons.is_for(self);
        if !begun {
            self.end_by(orders);
        }
        begun
    }

    /// Ends a turn.
    #[inline(always)]
    pub fn end(&self) {
        self.end_by(&CORRECT);
    }

    #[inline(always)]
    pub(crate) fn end_by(&self, orders: &Orders) {
        self.0.store(OUT, orders.end);
    }

    /// What stands at the turn's address: for the model, in which nothing else can be asked.
    #[cfg(loom)]
    pub(crate) fn peek(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(not(loom))]
impl Default for Turn {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether what stands at a turn's address says that the thread is out. For who has summoned it and
/// made all threads pass a barrier since.
pub fn tells_out(byte: u8) -> bool {
    // Pairs with the Release in `end`.
    fence(Ordering::Acquire);
    byte == OUT
}

/// Who is summoned: a thread, by the lower half of the address of its turn, which is never 0, or
/// nobody. Two threads may have the same: then one of them waits for nothing.
#[derive(Debug)]
#[repr(transparent)]
pub struct Summons(AtomicU32);

const NOBODY: u32 = 0;

impl Summons {
    /// Nobody is.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self(AtomicU32::new(NOBODY))
    }

    /// Nobody is.
    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(NOBODY))
    }

    fn name(turn: usize) -> u32 {
        turn as u32
    }

    /// Summons the thread whose turn is at an address. Fails while another summoner has not
    /// dismissed the one it has summoned.
    #[must_use]
    pub fn call(&self, turn: usize) -> bool {
        // AcqRel: see `CORRECT`. Relaxed: who fails does nothing.
        let called =
            self.0.compare_exchange(NOBODY, Self::name(turn), Ordering::AcqRel, Ordering::Relaxed);
        called.is_ok()
    }

    /// Lets the thread go that the caller has summoned.
    pub fn dismiss(&self) {
        self.dismiss_by(&CORRECT);
    }

    pub(crate) fn dismiss_by(&self, orders: &Orders) {
        self.0.store(NOBODY, orders.dismiss);
        #[cfg(not(loom))]
        freehold_sys::futex::wake_all(&self.0);
    }

    /// Whether anybody is summoned.
    #[inline(always)]
    fn is_for_any(&self) -> bool {
        // Acquire: as in `is_for`.
        self.0.load(Ordering::Acquire) != NOBODY
    }

    #[inline(always)]
    fn is_for(&self, turn: &Turn) -> bool {
        // Acquire: see `CORRECT`.
        let name = self.0.load(Ordering::Acquire);
        // First whether anybody is, which is rare: the thread need not find out its name for that.
        name != NOBODY && is_name_of(name, turn)
    }

    /// Waits while the thread is summoned.
    #[cold]
    #[inline(never)]
    fn wait_for(&self, turn: &Turn) {
        #[cfg(not(loom))]
        for _ in 0..SPINS {
            if !self.is_for(turn) {
                return;
            }
            pause();
        }
        while self.is_for(turn) {
            #[cfg(not(loom))]
            freehold_sys::futex::wait(&self.0, Self::name(turn.address()));
            #[cfg(loom)]
            loom::thread::yield_now();
        }
    }
}

/// Whether a name is that of a thread.
#[cold]
fn is_name_of(name: u32, turn: &Turn) -> bool {
    name == Summons::name(turn.address())
}

#[cfg(not(loom))]
impl Default for Summons {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use freehold_sys::System;
    use std::sync::atomic::{AtomicBool, AtomicU32 as Word, Ordering::SeqCst};

    #[test]
    fn a_summoned_thread_begins_when_it_is_dismissed_and_others_at_once() {
        let (turn, other, summons) = (Turn::new(), Turn::new(), Summons::new());
        let begun = AtomicBool::new(false);
        assert!(summons.call(turn.address()) && !summons.call(other.address()));
        other.begin(&summons);
        assert!(other.is_in());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                turn.begin(&summons);
                begun.store(true, SeqCst);
                turn.end();
            });
            // Longer than it spins.
            std::thread::sleep(std::time::Duration::from_millis(50));
            assert!(!begun.load(SeqCst) && !turn.is_in());
            summons.dismiss();
        });
        assert!(begun.load(SeqCst) && !turn.is_in());
    }

    #[test]
    fn who_has_something_else_to_do_begins_no_turn_while_in_or_while_anybody_is_summoned() {
        #[repr(C)]
        struct Place(u32, Turn);
        const OFFSET: usize = core::mem::offset_of!(Place, 1);
        let (mut place, other, summons) = (Place(7, Turn::new()), Turn::new(), Summons::new());
        let base = (&raw mut place).cast();
        // SAFETY: the turn is there, and this thread's.
        let begin = || unsafe { Turn::try_begin_at::<OFFSET>(base, &summons) };
        // SAFETY: as above.
        let turn = unsafe { &*base.add(OFFSET).cast::<Turn>() };
        for _ in 0..300 {
            assert!(begin() && turn.is_in());
            assert!(!begin() && !begin() && turn.is_in());
            turn.end();
            assert!(!turn.is_in());
            assert!(summons.call(other.address()));
            assert!(!begin() && !turn.is_in());
            summons.dismiss();
        }
        assert_eq!(place.0, 7);
    }

    /// Says so in the end, also of a thread that panics.
    struct Done<'a>(&'a AtomicBool);

    impl Drop for Done<'_> {
        fn drop(&mut self) {
            self.0.store(true, SeqCst);
        }
    }

    #[test]
    fn what_a_thread_does_in_its_turns_nobody_disturbs() {
        let (turn, summons, done) = (Turn::new(), Summons::new(), AtomicBool::new(false));
        // Each of them makes the two differ for a moment.
        let (first, second) = (Word::new(0), Word::new(0));
        let both = || {
            let before = first.load(Ordering::Relaxed);
            assert_eq!(before, second.load(Ordering::Relaxed));
            first.store(before + 1, Ordering::Relaxed);
            second.store(before + 1, Ordering::Relaxed);
        };
        let system = freehold_sys::Linux::new();
        if !system.barrier() {
            std::eprintln!("skipped: no membarrier(2) here, or a filter of system calls");
            return;
        }
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _done = Done(&done);
                for _ in 0..200_000 {
                    let base = core::ptr::from_ref(&turn).cast_mut().cast();
                    // SAFETY: this thread's turn, no bytes from itself.
                    let begun = unsafe { Turn::try_begin_at::<0>(base, &summons) };
                    if !begun {
                        turn.begin(&summons);
                    }
                    both();
                    turn.end();
                }
            });
            let mut times = 0;
            while !done.load(SeqCst) || times == 0 {
                assert!(summons.call(turn.address()));
                assert!(system.barrier());
                if system.peek(turn.address()).is_some_and(tells_out) {
                    both();
                    times += 1;
                }
                summons.dismiss();
            }
        });
    }
}
