//! Hardened mode in a process: `freehold_heap::hardened` with this thread's storage, and the words
//! on standard error for what it finds.

use crate::tls::{self, Local};
use crate::{background, emergency, exit, foreign, process, report, slow};
use core::ptr::{self, NonNull};
use freehold_heap::arena::Arena;
use freehold_heap::hardened::{Misuse, Secret, Thread};
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
#[inline]
fn enter<R>(f: impl FnOnce(&mut Thread, &'static Arena<Linux>) -> R) -> Option<R> {
    // SAFETY: the thread's own storage. The busy mark keeps signal handlers from making a second
    // reference while this one is in use.
    let local = unsafe { &mut *tls::local() };
    if local.cache.is_busy() {
        return None;
    }
    let arena = process::arena_in_mode()?;
    local.cache.set_busy(true);
    let result = match NonNull::new(local.in_mode.cast::<Thread>()) {
        // SAFETY: leased to this thread.
        Some(mut thread) => f(unsafe { thread.as_mut() }, arena),
        None => begin(local, arena, f),
    };
    local.cache.set_busy(false);
    if !local.deferred.is_null() {
        slow::free_deferred(local);
    }
    Some(result)
}

/// Runs `f` in a thread that has nothing at hand: with what it has from now on, or, if it is about
/// to end or there is no memory for more, with something that is there for this call only.
#[cold]
fn begin<R>(
    local: &mut Local,
    arena: &'static Arena<Linux>,
    f: impl FnOnce(&mut Thread, &'static Arena<Linux>) -> R,
) -> R {
    let may_keep = !local.has_ended;
    exit::arrange(local);
    if let Some(mut place) = may_keep.then(|| arena.lease_hardened()).flatten() {
        local.in_mode = place.as_ptr().cast();
        // SAFETY: leased to this thread just now.
        return f(unsafe { place.as_mut() }, arena);
    }
    let mut passing = Thread::new(arena, ptr::from_ref(local).addr());
    let result = f(&mut passing, arena);
    or_report("free", passing.end(arena));
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

/// What the thread has at hand, and the arena, if it has anything and is not busy: marked busy from
/// here to [`leave`]. The same as [`enter`] for what must be fast.
#[inline(always)]
fn try_enter<'a>() -> Option<(&'a mut Local, &'a mut Thread, &'static Arena<Linux>)> {
    // SAFETY: as in `enter`.
    let local = unsafe { &mut *tls::local() };
    let thread = local.in_mode.cast::<Thread>();
    if local.cache.is_busy() || thread.is_null() {
        return None;
    }
    let arena = process::arena_in_mode()?;
    local.cache.set_busy(true);
    // SAFETY: leased to this thread, and in use by nobody else, for it was not busy.
    Some((local, unsafe { &mut *thread }, arena))
}

/// Ends what [`try_enter`] has begun; references to what the thread has at hand are not used again.
#[inline(always)]
fn leave(local: &mut Local) {
    local.cache.set_busy(false);
    if !local.deferred.is_null() {
        slow::free_deferred(local);
    }
}

/// As `Mode::allocate_small`.
#[inline(always)]
pub(crate) fn allocate_small(size: usize) -> *mut u8 {
    if size > Thread::SMALL_MAX {
        return allocate_medium(size);
    }
    let Some((local, thread, arena)) = try_enter() else { return allocate(size, UNIT) };
    let taken = thread.allocate_small(arena, size);
    leave(local);
    match taken {
        Some(address) => at(address.get()),
        None => allocate(size, UNIT),
    }
}

/// As `Mode::allocate_medium`.
#[inline(always)]
pub(crate) fn allocate_medium(size: usize) -> *mut u8 {
    let Some((local, thread, arena)) = try_enter() else { return allocate(size, UNIT) };
    let taken = thread.allocate_medium(arena, size);
    leave(local);
    match or_report("malloc", taken) {
        Some(address) => at(address),
        None => allocate(size, UNIT),
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

/// As `Mode::deallocate`.
#[inline(always)]
pub(crate) unsafe fn deallocate(object: *mut u8) {
    let Some((local, thread, arena)) = try_enter() else {
        // SAFETY: the caller gives the object up.
        return unsafe { deallocate_otherwise(object) };
    };
    // SAFETY: as above.
    let freed = unsafe { thread.free(arena, object.addr()) };
    let wish = thread.cache.take_wish_for_help();
    leave(local);
    if let Err(Misuse(invalid)) = freed {
        slow::deallocate_other(object, invalid);
    }
    if wish {
        background::start();
    }
}

/// Takes an object back in a thread that has nothing at hand or is busy.
#[cold]
#[inline(never)]
unsafe fn deallocate_otherwise(object: *mut u8) {
    let entered = enter(|thread, arena| {
        // SAFETY: the caller gives the object up.
        let freed = unsafe { thread.free(arena, object.addr()) };
        (freed, thread.cache.take_wish_for_help())
    });
    match entered {
        Some((freed, wish)) => {
            if let Err(Misuse(invalid)) = freed {
                slow::deallocate_other(object, invalid);
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
    if usable_size("free", object) >= size_of::<*mut u8>() {
        slow::link_deferred(object);
    }
}

/// As `Mode::usable_size`.
pub(crate) fn usable_size(function: &str, object: *mut u8) -> usize {
    let address = object.addr();
    // Looks only, so that even a busy thread may do it.
    let known = match process::arena_in_mode().map(|arena| arena.sealed_size(address)) {
        Some(Ok(size)) => Some(size),
        Some(Err(Misuse(Invalid::Foreign { .. }))) | None => {
            emergency::usable(address).or_else(|| foreign::usable_size(object))
        }
        Some(Err(Misuse(invalid))) => report::invalid(function, invalid),
    };
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
        arena.let_go_of_shared();
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
    let (Some(arena), Some(mut place)) =
        (process::arena_in_mode(), NonNull::new(local.in_mode.cast::<Thread>()))
    else {
        return;
    };
    local.cache.set_busy(true);
    // SAFETY: leased to this thread.
    let thread = unsafe { place.as_mut() };
    let ended = thread.end(arena);
    let wish = thread.cache.take_wish_for_help();
    local.in_mode = ptr::null_mut();
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
}

/// The heap of the calling thread, which is busy, if it has one.
pub(crate) fn heap() -> Option<&'static Heap> {
    // SAFETY: the thread's own storage, and what is leased to it, which nothing of ours is using.
    let mine = unsafe { (*tls::local()).in_mode.cast::<Thread>().as_ref() };
    mine.and_then(|thread| thread.cache.heap())
}
