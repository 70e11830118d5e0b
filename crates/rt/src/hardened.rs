//! Hardened mode in a process: `freehold_heap::hardened` with this thread's storage, and the words
//! on standard error for what it finds.

use crate::tls::{self, Local};
use crate::{background, emergency, exit, foreign, free, process, report, slow};
use core::num::NonZeroUsize;
use core::ptr::{self, NonNull};
use freehold_heap::arena::Arena;
use freehold_heap::hardened::{Misuse, Secret, TakenBack, Thread};
use freehold_heap::heap::Heap;
use freehold_heap::invalid::Invalid;
use freehold_heap::layout::{UNIT, at};
use freehold_heap::usage::Usage;
use freehold_sys::{Linux, random};

/// Makes the arena, with a secret of this process.
pub(crate) fn create_arena() -> Option<NonNull<Arena<Linux>>> {
    Arena::create_hardened(Linux::new(), Secret::new(random::words()))
}

/// Runs `f` with what the thread has at hand, marked busy. `None` if the thread is busy already, or
/// there is no arena.
///
/// What a thread has at hand is marked itself, and that alone counts from then on, for it is where
/// the fast path looks: with a second mark a signal handler could come between the two, and be let
/// in here and not there, with an object on its hands that is none any more. Until a thread has
/// anything, and as it ends, its cache is marked, as in the usual mode.
#[inline]
fn enter<R>(f: impl FnOnce(&mut Thread, &'static Arena<Linux>) -> R) -> Option<R> {
    // SAFETY: the thread's own storage. The busy marks keep signal handlers from making a second
    // reference to what this one leads to while that is in use.
    let local = unsafe { &mut *tls::local() };
    let is_busy = match NonNull::new(local.hardened) {
        // SAFETY: what is leased to this thread; only looked at.
        Some(thread) => unsafe { thread.as_ref() }.is_busy(),
        None => local.cache.is_busy(),
    };
    if is_busy {
        return None;
    }
    let arena = process::arena_in_mode()?;
    let result = match NonNull::new(local.hardened) {
        Some(thread) => AtHand(thread).run(arena, f),
        None => begin(local, arena, f),
    };
    free_deferred(local);
    Some(result)
}

/// Whether the calling thread is at what it has at hand, by whatever way.
pub(crate) fn is_at_it() -> bool {
    // SAFETY: what is leased to this thread; only looked at.
    unsafe { (*tls::local()).hardened.as_ref() }.is_some_and(Thread::is_busy)
}

/// Marks what the calling thread has at hand, if anything, as busy or not. Nothing is using it.
pub(crate) fn set_at_it(busy: bool) {
    // SAFETY: what is leased to this thread, which does not use it at the moment.
    if let Some(thread) = unsafe { (*tls::local()).hardened.as_mut() } {
        thread.set_busy(busy);
    }
}

/// Frees what signal handlers have freed while the thread, which is not any more, was busy.
#[inline]
fn free_deferred(local: &mut Local) {
    if !local.deferred.is_null() {
        // SAFETY: what is leased to this thread, which does not use it at the moment.
        if let Some(thread) = unsafe { local.hardened.as_mut() } {
            thread.note_deferred(false);
        }
        free::free_deferred(local);
    }
}

/// Runs `f` in a thread that has nothing at hand: with what it has from now on, or, if it is about
/// to end or there is no memory for more, with something that is there for this call only.
#[cold]
fn begin<R>(
    local: &mut Local,
    arena: &'static Arena<Linux>,
    f: impl FnOnce(&mut Thread, &'static Arena<Linux>) -> R,
) -> R {
    local.cache.set_busy(true);
    let may_keep = !local.has_ended;
    exit::arrange(local);
    let result = if let Some(place) = may_keep.then(|| arena.lease_hardened()).flatten() {
        local.hardened = place.as_ptr();
        AtHand(place).run(arena, f)
    } else {
        let mut passing = Thread::new(arena, ptr::from_ref(local).addr());
        let result = f(&mut passing, arena);
        or_report("free", passing.end(arena));
        result
    };
    local.cache.set_busy(false);
    result
}

/// What was to be had, unless the program did what it must not.
#[inline]
fn or_report<T>(function: &str, result: Result<T, Misuse>) -> T {
    match result {
        Ok(value) => value,
        Err(Misuse(invalid)) => report::invalid(function, invalid),
    }
}

/// What a thread has at hand in hardened mode.
///
/// The functions here are written so that the common case needs few registers and no stack: each
/// ends with the call of what goes on where it cannot.
#[derive(Clone, Copy)]
pub struct AtHand(NonNull<Thread>);

impl AtHand {
    /// That of the calling thread, if it has anything.
    #[inline(always)]
    pub fn of_this_thread() -> Option<Self> {
        NonNull::new(tls::hardened()).map(Self)
    }

    /// Gives out `size` bytes, all zero, if they make a tiny object, there is one at hand, and
    /// nothing is wrong or to be done first. Otherwise [`AtHand::allocate`] may.
    #[inline(always)]
    pub fn allocate_tiny(self, size: usize) -> Option<NonNull<u8>> {
        // SAFETY: leased to this thread.
        if !unsafe { self.0.as_ref() }.may_give() {
            return None;
        }
        let given = self.enter().give_tiny(size);
        self.leave();
        given.map(at_not_null)
    }

    /// Gives out a small object of `size` bytes, all zero, if there is one at hand and nothing is
    /// wrong.
    #[inline(always)]
    pub fn allocate(self, size: usize) -> Option<NonNull<u8>> {
        // SAFETY: leased to this thread.
        if !unsafe { self.0.as_ref() }.may_give() && !self.look() {
            return None;
        }
        let given = self.enter().give_small(size);
        self.leave();
        given.map(at_not_null)
    }

    /// Looks at the object given out last. Fails if there is something else to be done first, or if
    /// it is damaged: the general way finds that once more.
    #[inline(never)]
    fn look(self) -> bool {
        let Some(arena) = process::arena_in_mode() else { return false };
        // SAFETY: as above.
        if !unsafe { self.0.as_ref() }.may_take_back() {
            return false;
        }
        let whole = self.enter().look(arena);
        self.leave();
        whole
    }

    /// Runs `f` with the thread, marked as busy.
    #[inline(always)]
    fn run<R>(
        self,
        arena: &'static Arena<Linux>,
        f: impl FnOnce(&mut Thread, &'static Arena<Linux>) -> R,
    ) -> R {
        let result = f(self.enter(), arena);
        self.leave();
        result
    }

    /// Marks the thread as busy until [`AtHand::leave`].
    #[inline(always)]
    fn enter<'a>(mut self) -> &'a mut Thread {
        // SAFETY: leased to this thread, and in use by nobody else: it was not busy.
        let thread = unsafe { self.0.as_mut() };
        thread.set_busy(true);
        thread
    }

    #[inline(always)]
    fn leave(mut self) {
        // SAFETY: as above; what `enter` has given is not used any longer.
        unsafe { self.0.as_mut() }.set_busy(false);
    }
}

#[inline(always)]
fn at_not_null(address: NonZeroUsize) -> NonNull<u8> {
    // SAFETY: it is not 0.
    unsafe { NonNull::new_unchecked(at(address.get())) }
}

/// As `Mode::allocate_medium`.
#[inline(never)]
pub(crate) fn allocate_medium(size: usize) -> *mut u8 {
    let taken = enter(|thread, arena| thread.allocate_medium(arena, size));
    match taken.map(|taken| or_report("malloc", taken)) {
        Some(Some(address)) => at(address),
        Some(None) | None => allocate(size, UNIT),
    }
}

/// As `Mode::allocate`; what is given out is zero.
#[inline(never)]
pub(crate) fn allocate(size: usize, align: usize) -> *mut u8 {
    if size > isize::MAX as usize {
        return ptr::null_mut();
    }
    let taken = match enter(|thread, arena| thread.allocate(arena, size, align)) {
        Some(taken) => or_report("malloc", taken),
        None => emergency::map(size, align),
    };
    taken.map_or(ptr::null_mut(), at)
}

/// As `Mode::deallocate`, in a thread that has something at hand.
///
/// # Safety
/// As there.
#[inline(never)]
pub(crate) unsafe fn deallocate_at_hand(thread: AtHand, object: *mut u8) {
    // SAFETY: leased to this thread.
    if !unsafe { thread.0.as_ref() }.may_take_back() {
        // SAFETY: the caller's promise.
        return unsafe { deallocate(object) };
    }
    let (region, address) = (process::region(), object.addr());
    // SAFETY: the caller's promise.
    let taken = unsafe { thread.enter().take_back::<true>(region, is_alone, address) };
    thread.leave();
    match taken {
        TakenBack::Done => {}
        TakenBack::For(former) => let_go(former),
        // SAFETY: as above.
        TakenBack::Not => unsafe { deallocate_small(thread, object) },
    }
}

/// Whether no other thread has begun.
#[inline(always)]
fn is_alone() -> bool {
    // SAFETY: who has something at hand has got it from the arena.
    unsafe { process::arena_in_mode().unwrap_unchecked() }.is_alone()
}

/// The same for what is not tiny.
///
/// # Safety
/// As there.
#[inline(never)]
unsafe fn deallocate_small(thread: AtHand, object: *mut u8) {
    let (region, address) = (process::region(), object.addr());
    // SAFETY: the caller's promise.
    let taken = unsafe { thread.enter().take_back::<false>(region, is_alone, address) };
    thread.leave();
    match taken {
        TakenBack::Done => {}
        TakenBack::For(former) => let_go(former),
        // SAFETY: as above.
        TakenBack::Not => unsafe { deallocate_elsewhere(thread, object) },
    }
}

/// The same for small objects of other heaps.
///
/// # Safety
/// As there.
#[inline(never)]
unsafe fn deallocate_elsewhere(thread: AtHand, object: *mut u8) {
    // SAFETY: who has something at hand has got it from the arena.
    let arena = unsafe { process::arena_in_mode().unwrap_unchecked() };
    // SAFETY: the caller's promise.
    let taken = unsafe { thread.enter().take_back_elsewhere(arena, object.addr()) };
    thread.leave();
    match taken {
        TakenBack::Done => {}
        TakenBack::For(former) => let_go(former),
        // SAFETY: as above.
        TakenBack::Not => unsafe { deallocate(object) },
    }
}

/// Releases an object that has waited, and for which the thread has no room.
#[inline(never)]
fn let_go(former: NonZeroUsize) {
    let entered =
        enter(|thread, arena| (thread.let_go(arena, former), thread.cache.take_wish_for_help()));
    finish(at(former.get()), entered);
}

/// As `Mode::deallocate`.
///
/// # Safety
/// As there.
#[inline(never)]
pub(crate) unsafe fn deallocate(object: *mut u8) {
    let entered = enter(|thread, arena| {
        // SAFETY: the caller gives the object up.
        let freed = unsafe { thread.free(arena, object.addr()) };
        (freed, thread.cache.take_wish_for_help())
    });
    finish(object, entered);
}

/// Does what is left to do after an attempt to take an object back: `None` if the thread was busy.
fn finish(object: *mut u8, entered: Option<(Result<(), Misuse>, bool)>) {
    match entered {
        Some((freed, wish)) => {
            if let Err(Misuse(invalid)) = freed {
                free::deallocate_other(object, invalid);
            }
            if wish {
                background::start();
            }
        }
        None if emergency::unmap(object.addr()) => {}
        None => defer(object),
    }
}

/// Remembers an object to be freed when the thread is no longer busy, if there is room in it for a
/// link. Otherwise it is lost.
fn defer(object: *mut u8) {
    // There is in what lies elsewhere, and for its size the interrupted thread may have the lock.
    if is_in_region(object.addr()) && usable_size("free", object) < size_of::<*mut u8>() {
        return;
    }
    free::link_deferred(object);
    // SAFETY: the thread's own storage, and what is leased to it. The thread that was interrupted
    // is at it, and looks at this note only when it begins.
    if let Some(thread) = unsafe { (*tls::local()).hardened.as_mut() } {
        thread.note_deferred(true);
    }
}

fn is_in_region(address: usize) -> bool {
    process::arena_in_mode().is_some_and(|arena| arena.granule_of(address).is_some())
}

/// As `Mode::usable_size`.
pub(crate) fn usable_size(function: &str, object: *mut u8) -> usize {
    let address = object.addr();
    let elsewhere = if is_in_region(address) { None } else { emergency::usable(address) };
    // Looks only, so that even a busy thread may do it, but for direct mappings: those are last.
    let known = elsewhere.or_else(|| {
        match process::arena_in_mode().map(|arena| arena.sealed_size(address)) {
            Some(Ok(size)) => Some(size),
            Some(Err(Misuse(Invalid::Foreign { .. }))) | None => foreign::usable_size(object),
            Some(Err(Misuse(invalid))) => report::invalid(function, invalid),
        }
    });
    known.unwrap_or_else(|| report::invalid(function, Invalid::Foreign { address }))
}

/// As `Mode::reallocate`.
pub(crate) unsafe fn reallocate(object: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: the caller's promise.
    let entered = enter(|thread, arena| unsafe { thread.resize(arena, object.addr(), size) });
    match entered {
        Some(Ok(new)) => new.map_or(ptr::null_mut(), at),
        Some(Err(Misuse(Invalid::Foreign { .. }))) | None => {
            // SAFETY: the caller's promise.
            unsafe { slow::move_to_new(object, size) }
        }
        Some(Err(Misuse(invalid))) => report::invalid("realloc", invalid),
    }
}

/// As `Mode::trim`.
pub(crate) fn trim() -> usize {
    let trimmed = enter(|thread, arena| {
        or_report("malloc_trim", thread.trim(arena));
        or_report("malloc_trim", arena.let_go_of_shared().map_err(Misuse::from));
        arena.purge_all()
    });
    trimmed.unwrap_or(0)
}

/// As `Mode::usage`.
pub(crate) fn usage() -> Usage {
    enter(|_, arena| arena.usage()).unwrap_or_default()
}

/// As `Mode::end_thread`.
pub(crate) fn end_thread() {
    // SAFETY: the thread's own storage, and nothing of ours is using it.
    let local = unsafe { &mut *tls::local() };
    local.has_ended = true;
    let (Some(arena), Some(mut place)) = (process::arena_in_mode(), NonNull::new(local.hardened))
    else {
        return;
    };
    // SAFETY: leased to this thread.
    let thread = unsafe { place.as_mut() };
    if thread.is_busy() {
        // It was cancelled inside.
        return;
    }
    // Both, since it is over with what it has at hand before the end.
    thread.set_busy(true);
    local.cache.set_busy(true);
    let ended = thread.end(arena);
    let wish = thread.cache.take_wish_for_help();
    local.hardened = ptr::null_mut();
    // SAFETY: leased to this thread, ended, and forgotten.
    unsafe { arena.give_back_hardened(place) };
    local.cache.set_busy(false);
    if wish || arena.has_work_for_a_thread() {
        background::start();
    }
    or_report("thread exit", ended);
}

/// As `Mode::after_fork_in_child`.
pub(crate) fn after_fork_in_child(arena: &Arena<Linux>) {
    arena.after_fork_in_child(heap());
    // SAFETY: what is leased to this thread, which is not inside: it forks.
    arena.recount_kept(unsafe { (*tls::local()).hardened.as_ref() });
}

/// The heap of the calling thread, which is busy, if it has one.
pub(crate) fn heap() -> Option<&'static Heap> {
    // SAFETY: the thread's own storage, and what is leased to it, which nothing of ours is using.
    let mine = unsafe { (*tls::local()).hardened.as_ref() };
    mine.and_then(|thread| thread.cache.heap())
}
