//! The arena of the process: made on the first allocation, there until the end.

use crate::{figures, guarded, mode};
use core::ptr;
use freehold_heap::arena::Arena;
use freehold_sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use freehold_sys::{Linux, futex, process};

static ARENA: AtomicPtr<Arena<Linux>> = AtomicPtr::new(ptr::null_mut());

/// The arena of a process that has a mode (`mode`), where [`ARENA`] stays empty.
static ARENA_IN_MODE: AtomicPtr<Arena<Linux>> = AtomicPtr::new(ptr::null_mut());

/// The start of the arena's region; 0 before there is one. Relaxed: before a thread has seen the
/// arena, the limit of its map is 0, and nothing is below that, whatever the region.
pub static REGION: AtomicUsize = AtomicUsize::new(0);

/// 0 before, 1 after the arena has been made; in between the number of the thread that makes it.
static STATE: AtomicU32 = AtomicU32::new(UNMADE);
const UNMADE: u32 = 0;
const MADE: u32 = 1;

/// The start of the arena's region.
#[inline(always)]
pub(crate) fn region() -> usize {
    REGION.load(Ordering::Relaxed)
}

/// The arena, if it has been made.
#[inline]
pub(crate) fn existing_arena() -> Option<&'static Arena<Linux>> {
    // Acquire pairs with the Release in `make`.
    // SAFETY: never unmade.
    unsafe { ARENA.load(Ordering::Acquire).as_ref() }
}

/// The arena, made now if need be. `None` when there is no address space for one, when a signal
/// handler asks while its own thread is making it, or when the process has a mode.
#[inline]
pub(crate) fn arena() -> Option<&'static Arena<Linux>> {
    existing_arena().or_else(make)
}

/// The arena of a process that has a mode, if it has been made.
#[inline]
pub(crate) fn arena_in_mode() -> Option<&'static Arena<Linux>> {
    // Acquire pairs with the Release in `make`.
    // SAFETY: never unmade.
    unsafe { ARENA_IN_MODE.load(Ordering::Acquire).as_ref() }
}

/// The arena, if it has been made, whether the process has a mode or not.
pub(crate) fn any_arena() -> Option<&'static Arena<Linux>> {
    existing_arena().or_else(arena_in_mode)
}

#[cold]
fn make() -> Option<&'static Arena<Linux>> {
    if mode::current().is_some() {
        return None;
    }
    // Thread numbers are never 0, and 1 is the first process's, whose first allocation is made
    // before it has others: they cannot be taken for a state.
    let me = process::thread_id().max(MADE + 1);
    loop {
        // Acquire pairs with the Release below, for who finds the arena made.
        match STATE.compare_exchange(UNMADE, me, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => break,
            Err(MADE) => return existing_arena(),
            Err(maker) if maker == me => return None,
            Err(maker) => futex::wait(&STATE, maker),
        }
    }
    crate::exit::prepare();
    crate::fork::prepare();
    crate::background::prepare();
    let mode = mode::choose();
    let made = match mode {
        None => Arena::create(Linux::new()),
        Some(mode) => mode.create_arena(),
    };
    if let Some(arena) = made {
        // SAFETY: just made; never unmade.
        let new = unsafe { arena.as_ref() };
        REGION.store(new.region(), Ordering::Relaxed);
        figures::announce(new);
        let place = if mode.is_none() { &ARENA } else { &ARENA_IN_MODE };
        // Release pairs with the Acquire in `existing_arena` and `arena_in_mode`.
        place.store(arena.as_ptr(), Ordering::Release);
    }
    // Release pairs with the Acquire above.
    STATE.store(if made.is_some() { MADE } else { UNMADE }, Ordering::Release);
    futex::wake_all(&STATE);
    guarded::begin();
    existing_arena()
}
