//! Everything but the fast path: one function for each thing a program can ask for.
//!
//! A thread inside one of these is *busy*. If a signal handler finds its own thread busy it must
//! not enter again: what it allocates comes from the emergency store, and what it frees is
//! deferred.

use crate::mode::Mode;
use crate::tls::{self, Local};
use crate::{
    background, debugging, emergency, exit, foreign, free, guarded, mode, process, report,
};
use core::ptr::{self, NonNull};
use freehold_heap::arena::Arena;
use freehold_heap::blocks::Prefer;
use freehold_heap::class::{Class, MEDIUM_MAX, SMALL_MAX};
use freehold_heap::invalid::Invalid;
use freehold_heap::layout::{UNIT, at};
use freehold_heap::medium::Given;
use freehold_heap::usage::Usage;
use freehold_sys::{Linux, System};

pub use crate::hardened::AtHand;

/// Runs `f` with the thread's storage and the arena, marked busy. `None` if the thread is busy
/// already, or there is no arena.
pub(crate) fn enter<R>(f: impl FnOnce(&mut Local, &'static Arena<Linux>) -> R) -> Option<R> {
    // SAFETY: the thread's own storage. The busy mark keeps signal handlers from making a second
    // reference while this one is in use; the fast path, which they may take, uses none.
    let local = unsafe { &mut *tls::local() };
    if local.cache.is_busy() {
        return None;
    }
    local.cache.set_busy(true);
    let result = process::arena().map(|arena| {
        exit::arrange(local);
        f(local, arena)
    });
    local.cache.set_busy(false);
    if let Some(invalid) = local.cache.take_found_late() {
        report::invalid("free", invalid);
    }
    if local.cache.take_wish_for_help() {
        background::start();
    }
    if !local.deferred.is_null() {
        free::free_deferred(local);
    }
    result
}

/// Enters to allocate, or takes from the emergency store if that is impossible. `f` gives the
/// address, or `None` when there is no memory.
fn enter_or_emergency(
    size: usize,
    align: usize,
    zeroed: bool,
    f: impl FnOnce(&mut Local, &'static Arena<Linux>) -> Option<usize>,
) -> *mut u8 {
    let address = match enter(f) {
        Some(taken) => taken,
        None => match mode::current() {
            Some(mode) => return mode.allocate(size, align, zeroed),
            None => emergency::map(size, align),
        },
    };
    address.map_or(ptr::null_mut(), at)
}

/// Counts an object that the thread did not have at hand; tells whether it is to be guarded.
#[inline]
fn is_guarded_due() -> bool {
    // SAFETY: the thread's own storage. A signal handler in between changes a number at most.
    guarded::is_on() && unsafe { (*tls::local()).countdown.is_due() }
}

/// Gives out a guarded object, if one can be had; null says that it is to be another.
#[cold]
#[inline(never)]
fn allocate_guarded(size: usize, align: usize) -> *mut u8 {
    let given = enter(|local, _| guarded::sample::allocate(&mut local.countdown, size, align));
    given.flatten().map_or(ptr::null_mut(), at)
}

/// Counts what a thread has at hand of the class of a size, now that something was fetched.
#[cold]
fn count_fetched(local: &mut Local, size: usize, align: usize) {
    let class = if size <= MEDIUM_MAX { Class::of_aligned(size, align) } else { None };
    local.countdown.count(class.map_or(0, |class| local.cache.at_hand(class)));
}

/// Gives out an object of a small class whose magazine is empty.
#[inline(never)]
fn refill(size: usize) -> *mut u8 {
    if let Some(mode) = mode::current() {
        return mode.allocate(size, UNIT, false);
    }
    if is_guarded_due() {
        let object = allocate_guarded(size, UNIT);
        if !object.is_null() {
            return object;
        }
    }
    let class = Class::of_small(size);
    enter_or_emergency(size, UNIT, false, |local, arena| {
        let object = local.cache.refill(arena, class);
        if guarded::is_on() {
            count_fetched(local, size, UNIT);
        }
        (!object.is_null()).then(|| object.addr())
    })
}

/// Gives out `size` bytes when the fast path had none.
#[cold]
#[inline(never)]
pub fn allocate(size: usize) -> *mut u8 {
    let at_hand =
        if size <= SMALL_MAX { allocate_set_aside(size) } else { allocate_large_at_hand(size) };
    match at_hand {
        Some(object) => object.as_ptr(),
        None => allocate_otherwise(size),
    }
}

/// Gives out a small object whose magazine is empty, if the thread has set a full one aside.
#[inline(always)]
pub fn allocate_set_aside(size: usize) -> Option<NonNull<u8>> {
    // SAFETY: the thread's own storage, as in `enter`.
    let cache = unsafe { &mut (*tls::local()).cache };
    cache.heap()?;
    // What is fetched is to be counted where objects are guarded.
    if guarded::is_on() || !cache.try_set_busy() {
        return None;
    }
    let object = cache.pop_set_aside(Class::of_small(size));
    cache.set_busy(false);
    object
}

/// Gives out `size` bytes: a small object that the thread has at hand in hardened mode, or what it
/// has not. (Part of `allocate`, it would have that save what it need not.)
#[inline(never)]
fn allocate_otherwise(size: usize) -> *mut u8 {
    match AtHand::of_this_thread().and_then(|thread| thread.allocate(size)) {
        Some(object) => object.as_ptr(),
        None => allocate_rarely(size),
    }
}

/// Gives out a medium object, or a run, that the thread has at hand, for more than [`SMALL_MAX`]
/// bytes.
#[inline(always)]
pub fn allocate_large_at_hand(size: usize) -> Option<NonNull<u8>> {
    let address = if size > MEDIUM_MAX { pop_run(size)? } else { pop_medium(size)?.address };
    // SAFETY: no object is at the start of the address space, nor is any run.
    Some(unsafe { NonNull::new_unchecked(at(address)) })
}

#[inline(always)]
fn pop_run(size: usize) -> Option<usize> {
    // SAFETY: the thread's own storage, as in `enter`.
    let cache = unsafe { &mut (*tls::local()).cache };
    cache.heap()?;
    // SAFETY: there is one: the thread has leased a heap of it. In a mode no thread leases one for
    // its own storage.
    let arena = unsafe { process::existing_arena().unwrap_unchecked() };
    if !cache.try_set_busy() {
        return None;
    }
    let address = cache.pop_run(arena, size);
    cache.set_busy(false);
    address
}

#[inline(always)]
fn is_medium(size: usize) -> bool {
    size > SMALL_MAX && size <= MEDIUM_MAX
}

/// Gives out an object of more than [`SMALL_MAX`] bytes and at most [`MEDIUM_MAX`] that the thread
/// has at hand.
#[inline(always)]
fn pop_medium(size: usize) -> Option<Given> {
    // SAFETY: the thread's own storage, as in `enter`.
    let cache = unsafe { &mut (*tls::local()).cache };
    if !cache.try_set_busy() {
        return None;
    }
    let given = cache.pop_medium(Class::of_medium(size));
    cache.set_busy(false);
    given
}

/// Gives out `size` bytes when neither the fast path nor [`allocate_large_at_hand`] had any.
#[inline(never)]
pub fn allocate_rarely(size: usize) -> *mut u8 {
    if size <= SMALL_MAX {
        return refill(size);
    }
    if size <= MEDIUM_MAX {
        return allocate_medium(size);
    }
    allocate_run(size)
}

/// Gives out a medium object of which the thread has none at hand.
#[inline(never)]
fn allocate_medium(size: usize) -> *mut u8 {
    if let Some(mode) = mode::current() {
        return mode.allocate_medium(size);
    }
    if guarded::is_on() {
        return allocate_aligned(size, UNIT);
    }
    enter_or_emergency(size, UNIT, false, |local, arena| {
        let class = Class::of_medium(size);
        local.cache.note_medium_missed(arena, class);
        let given = local.cache.take_medium(arena, class);
        given.map(|given| given.address)
    })
}

/// Gives out a run of which the thread has none at hand.
#[inline(never)]
fn allocate_run(size: usize) -> *mut u8 {
    if size > isize::MAX as usize {
        return ptr::null_mut();
    }
    enter_or_emergency(size, UNIT, false, |local, arena| {
        local.cache.take_run(arena, size, UNIT, Prefer::Dirty).map(|given| given.address)
    })
}

/// Gives out `size` bytes at a multiple of `align`, a power of two; null when there is no memory.
pub fn allocate_aligned(size: usize, align: usize) -> *mut u8 {
    if let Some(mode) = mode::current() {
        return mode.allocate(size, align, false);
    }
    if size > isize::MAX as usize {
        return ptr::null_mut();
    }
    if is_guarded_due() {
        let object = allocate_guarded(size, align);
        if !object.is_null() {
            return object;
        }
    }
    enter_or_emergency(size, align, false, |local, arena| {
        let given = local.cache.take(arena, size, align, Prefer::Dirty);
        if guarded::is_on() {
            count_fetched(local, size, align);
        }
        given.map(|given| given.address)
    })
}

/// Gives out `size` bytes that are zero; null when there is no memory. Clears only what is not
/// known to be zero.
pub fn allocate_zeroed(size: usize) -> *mut u8 {
    if is_medium(size)
        && let Some(given) = pop_medium(size)
    {
        let object = at::<u8>(given.address);
        if !given.zero {
            // SAFETY: just given out, with at least `size` bytes.
            unsafe { object.write_bytes(0, size) };
        }
        return object;
    }
    if size > isize::MAX as usize {
        return ptr::null_mut();
    }
    if is_guarded_due() {
        let object = allocate_guarded(size, UNIT);
        if !object.is_null() {
            // SAFETY: just given out, with at least `size` bytes.
            unsafe { object.write_bytes(0, size) };
            return object;
        }
    }
    enter_or_emergency(size, UNIT, true, |local, arena| {
        // What stays hot is not fetched, and only what is fetched may be guarded.
        if is_medium(size) && !guarded::is_on() {
            local.cache.note_medium_missed(arena, Class::of_medium(size));
        }
        local.cache.take_zeroed(arena, size, UNIT)
    })
}

/// Gives out `size` bytes that are zero at a multiple of `align`, a power of two; null when there
/// is no memory. Clears only what is not known to be zero.
pub fn allocate_zeroed_aligned(size: usize, align: usize) -> *mut u8 {
    if let Some(mode) = mode::current() {
        return mode.allocate(size, align, true);
    }
    if guarded::is_on() {
        let object = allocate_aligned(size, align);
        if !object.is_null() {
            // SAFETY: just given out, with at least `size` bytes.
            unsafe { object.write_bytes(0, size) };
        }
        return object;
    }
    if size > isize::MAX as usize {
        return ptr::null_mut();
    }
    enter_or_emergency(size, align, true, |local, arena| {
        local.cache.take_zeroed(arena, size, align)
    })
}

/// The bytes that can be used at `object`: 0 for null.
///
/// # Safety
/// The object is in use by the caller.
pub unsafe fn usable_size(object: *mut u8) -> usize {
    if object.is_null() { 0 } else { usable_or_report("malloc_usable_size", object) }
}

/// The bytes that can be used at `object`; if it is none, that is reported, in the name of
/// `function`, and ends the process.
fn usable_or_report(function: &str, object: *mut u8) -> usize {
    let address = object.addr();
    let arena = process::arena();
    if arena.is_none()
        && let Some(mode) = mode::current()
    {
        return mode.usable_size(function, object);
    }
    let is_in_region = arena.is_some_and(|arena| arena.granule_of(address).is_some());
    let elsewhere = if is_in_region {
        None
    } else {
        guarded::usable_size(function, address).or_else(|| emergency::usable(address))
    };
    // Direct mappings last, whose lock the thread may have that a handler has interrupted. All else
    // is only looked at, so that even a busy thread may do it.
    let known = elsewhere.or_else(|| match arena.map(|arena| arena.usable_size(address)) {
        Some(Ok(size)) => Some(size),
        Some(Err(Invalid::Foreign { .. })) | None => foreign::usable_size(object),
        Some(Err(invalid)) => report::invalid(function, invalid),
    });
    known.unwrap_or_else(|| report::invalid(function, Invalid::Foreign { address }))
}

/// Changes the size of an object, which may move; null when there is no memory, and the object is
/// as before then. A null object is as good as none.
///
/// # Safety
/// The object is in use by the caller alone.
pub unsafe fn reallocate(object: *mut u8, size: usize) -> *mut u8 {
    if object.is_null() {
        return crate::allocate(size);
    }
    if size > isize::MAX as usize {
        return ptr::null_mut();
    }
    // SAFETY: the caller's promise.
    let entered = enter(|local, arena| unsafe { local.cache.resize(arena, object.addr(), size) });
    match entered {
        Some(Ok(new)) => new.map_or(ptr::null_mut(), at),
        Some(Err(Invalid::Foreign { .. })) | None => match mode::current() {
            // SAFETY: the caller's promise.
            Some(mode) => unsafe { mode.reallocate(object, size) },
            // SAFETY: the caller's promise.
            None => unsafe { move_to_new(object, size) },
        },
        Some(Err(invalid)) => report::invalid("realloc", invalid),
    }
}

/// Copies an object that is not the arena's, or that a busy thread cannot resize, to a new one.
pub(crate) unsafe fn move_to_new(object: *mut u8, size: usize) -> *mut u8 {
    let old = usable_or_report("realloc", object);
    let new = crate::allocate(size);
    if !new.is_null() {
        // SAFETY: both are objects of at least so many bytes, and different ones.
        unsafe {
            ptr::copy_nonoverlapping(object, new, old.min(size));
            crate::deallocate(object);
        }
    }
    new
}

/// Bytes in a page of this system.
pub fn page_size() -> usize {
    match process::arena().or_else(process::arena_in_mode) {
        Some(arena) => arena.system().page_size(),
        None => Linux::new().page_size(),
    }
}

/// Whether `object` points into memory of Freehold's.
pub fn owns(object: *const u8) -> bool {
    guarded::owns(object.addr())
        || mode::is_debugging() && debugging::owns(object.addr())
        || process::any_arena().is_some_and(|arena| arena.granule_of(object.addr()).is_some())
}

/// Gives everything that is free back to the system, as far as this thread can reach it: its own
/// cache, the heaps that threads share, and all free granules. Returns the bytes given back.
pub fn trim() -> usize {
    let trimmed = enter(|local, arena| {
        if let Err(invalid) = local.cache.trim(arena) {
            report::invalid("malloc_trim", invalid);
        }
        if let Err(invalid) = arena.let_go_of_shared() {
            report::invalid("malloc_trim", invalid);
        }
        arena.purge_within_slabs() + arena.purge_all()
    });
    trimmed.unwrap_or_else(|| mode::current().map_or(0, Mode::trim))
}

/// Looks at all objects, and reports on standard error what is wrong with them; returns how many
/// are damaged. `None` where nothing can be looked at, since the process is not debugged
/// (`FREEHOLD_DEBUG`).
pub fn check_heap() -> Option<usize> {
    if mode::is_debugging() { debugging::check() } else { None }
}

/// Leaves the process without a thread of Freehold's, until it needs one again.
pub fn end_background_thread() {
    background::end();
}

/// What the memory is used for at this moment.
pub fn usage() -> Usage {
    let usage = enter(|_, arena| arena.usage());
    usage.unwrap_or_else(|| mode::current().map_or_else(Usage::default, Mode::usage))
}
