//! Taking back what the fast path did not keep: one function for each place where an object may
//! have come from, with what is most frequent first.

use crate::hardened::AtHand;
use crate::slow::enter;
use crate::tls::{self, Local};
use crate::{background, emergency, foreign, guarded, hardened, mode, process, report};
#[cfg(target_arch = "x86_64")]
use core::hint;
use freehold_heap::arena::Arena;
use freehold_heap::cache::ThreadCache;
use freehold_heap::class::Class;
use freehold_heap::free::{Found, InSlab, Posted};
use freehold_heap::invalid::Invalid;
use freehold_heap::layout::{Granule, at};
use freehold_sys::{Linux, signal};

/// Takes an object back that the fast path did not keep.
///
/// # Safety
/// Nobody uses the object any longer, and it is not null.
#[cold]
#[inline(never)]
pub unsafe extern "C" fn deallocate(object: *mut u8) {
    debug_assert!(!object.is_null());
    let Some(arena) = process::existing_arena() else {
        // SAFETY: the caller gives the object up.
        return unsafe { deallocate_in_mode(object) };
    };
    // SAFETY: the caller gives the object up.
    unsafe { deallocate_found(object, arena, || arena.granule_of(object.addr())) }
}

/// As [`deallocate`], for an object in a granule that the thread's map reaches.
///
/// # Safety
/// As for [`deallocate`]; `granule` is the object's, and below the limit of the thread's map. (The
/// two before it are what the fast path has in those registers.)
#[cfg(target_arch = "x86_64")]
#[cold]
#[inline(never)]
pub unsafe extern "C" fn deallocate_mapped(object: *mut u8, _: usize, _: usize, granule: usize) {
    // SAFETY: there is one: a map that reaches anything is that of a heap of it, which the thread
    // has leased. In a mode no thread leases one for its own storage.
    let arena = unsafe { process::existing_arena().unwrap_unchecked() };
    // SAFETY: no region has more granules than that.
    unsafe { hint::assert_unchecked(u32::try_from(granule).is_ok()) };
    // SAFETY: as far as a map reaches the region is committed; the caller gives the object up.
    unsafe { deallocate_found(object, arena, || Some(Granule(granule as u32))) }
}

/// Takes an object back whose granule `find` tells, if it is one that is committed.
#[inline(always)]
unsafe fn deallocate_found(
    object: *mut u8,
    arena: &Arena<Linux>,
    find: impl FnOnce() -> Option<Granule>,
) {
    // SAFETY: the thread's own storage, as in `enter`.
    let cache = unsafe { &mut (*tls::local()).cache };
    if !cache.try_set_busy() {
        // SAFETY: the caller gives the object up.
        return unsafe { deallocate_rarely(object) };
    }
    let Some(g) = find() else {
        // SAFETY: as above.
        return unsafe { deallocate_after_all(object, cache) };
    };
    // SAFETY: it is committed, and the caller gives the object up, which is there. (By the part
    // itself: made into an answer and taken apart again it costs six instructions.)
    unsafe {
        let part = arena.part_of(g);
        let class = Class(part.class());
        if class.is_medium() {
            match cache.keep_medium(arena, (g, part), object.addr()) {
                Ok(()) => cache.set_busy(false),
                Err(Some(n)) => deallocate_medium_elsewhere(object, cache, n),
                Err(None) => deallocate_medium_at(object, cache),
            }
        } else if class.is_small() {
            if !cache.took_last(class, object.addr())
                && cache.put_aside_small(arena, g, class, object.addr())
            {
                cache.set_busy(false);
                return;
            }
            deallocate_small(object, g, cache, arena, class);
        } else if part.is_run() {
            deallocate_run(object, g, cache, arena);
        } else {
            deallocate_after_all(object, cache);
        }
    }
}

/// Takes an object back when nothing else would do. The thread is marked as busy.
#[cold]
#[inline(never)]
unsafe fn deallocate_after_all(object: *mut u8, cache: &mut ThreadCache) {
    cache.set_busy(false);
    // SAFETY: the caller gives the object up.
    unsafe { deallocate_rarely(object) }
}

/// Takes an object of a class back that the fast path would have kept if its magazine were not
/// full.
///
/// # Safety
/// As for [`deallocate`]; it is of that small class.
#[inline(never)]
pub unsafe extern "C" fn deallocate_in_full(object: *mut u8, class: usize) {
    // SAFETY: the thread's own storage, as in `enter`.
    let cache = unsafe { &mut (*tls::local()).cache };
    if cache.try_set_busy() {
        // SAFETY: the caller's promise.
        let kept = unsafe { cache.push_after_setting_aside(Class(class as u8), object.addr()) };
        cache.set_busy(false);
        if kept {
            return;
        }
    }
    // SAFETY: as above.
    unsafe { deallocate_after_unloading(object) }
}

#[inline(never)]
unsafe fn deallocate_after_unloading(object: *mut u8) {
    // SAFETY: the caller gives the object up.
    let entered = enter(|local, arena| unsafe { local.cache.keep_in_full(arena, object.addr()) });
    finish(object, entered);
}

/// Takes an object back where there is no arena, or that of a mode.
#[cold]
#[inline(never)]
unsafe fn deallocate_in_mode(object: *mut u8) {
    if let Some(thread) = AtHand::of_this_thread() {
        // SAFETY: the caller gives the object up.
        return unsafe { hardened::deallocate_at_hand(thread, object) };
    }
    match mode::current() {
        // SAFETY: as above.
        Some(mode) => unsafe { mode.deallocate(object) },
        // SAFETY: as above.
        None => unsafe { deallocate_rarely(object) },
    }
}

/// Takes back an object of this granule of small objects, for which there is no parcel with room.
/// The thread is marked as busy.
#[inline(never)]
unsafe fn deallocate_small(
    object: *mut u8,
    g: Granule,
    cache: &mut ThreadCache,
    arena: &Arena<Linux>,
    class: Class,
) {
    // SAFETY: a small class.
    if unsafe { cache.took_last(class, object.addr()) } {
        // SAFETY: the caller gives the object up, and found it there.
        return unsafe { deallocate_taken_last(object, g, cache, arena, class) };
    }
    // SAFETY: the caller gives the object up, and found it there.
    unsafe { deallocate_small_elsewhere(object, g, cache, arena, class) }
}

/// Takes back a small object that was the last to be taken out of its magazine. The thread is
/// marked as busy.
#[cold]
#[inline(never)]
unsafe fn deallocate_taken_last(
    object: *mut u8,
    g: Granule,
    cache: &mut ThreadCache,
    arena: &Arena<Linux>,
    class: Class,
) {
    if cache.put_back(g, class, object.addr()) {
        cache.set_busy(false);
        return;
    }
    // SAFETY: the caller gives the object up, and found it there.
    unsafe { deallocate_small_elsewhere(object, g, cache, arena, class) }
}

/// Takes back a medium object, wherever it is. The thread is marked as busy.
#[cold]
#[inline(never)]
unsafe fn deallocate_medium_at(object: *mut u8, cache: &mut ThreadCache) {
    let arena = process::existing_arena();
    // SAFETY: the caller gives the object up, and if it is found it is there.
    unsafe {
        match arena.and_then(|arena| Some((arena, arena.object_at(object.addr())?))) {
            Some((arena, place)) => deallocate_medium_rarely(object, cache, arena, place),
            None => deallocate_after_all(object, cache),
        }
    }
}

/// Takes back a medium object that is not kept hot, so many objects into its slab. The thread is
/// marked as busy.
#[inline(never)]
unsafe fn deallocate_medium_elsewhere(object: *mut u8, cache: &mut ThreadCache, index: usize) {
    let Some(arena) = process::existing_arena() else {
        // SAFETY: the caller gives the object up.
        return unsafe { deallocate_after_all(object, cache) };
    };
    // SAFETY: the caller gives the object up, and found it there.
    unsafe {
        let InSlab { class, slab, .. } = arena.numbered(object.addr(), index);
        if cache.may_hand_over(arena, class) {
            deallocate_medium_for_others(object, cache, arena, index, slab, class);
        } else {
            deallocate_medium_by_post(object, cache, arena, index, slab, class);
        }
    }
}

/// Takes back a medium object that is not kept hot and that others may want: so many objects into
/// its slab. The thread is marked as busy.
#[inline(never)]
unsafe fn deallocate_medium_for_others(
    object: *mut u8,
    cache: &mut ThreadCache,
    arena: &Arena<Linux>,
    index: usize,
    slab: Granule,
    class: Class,
) {
    // SAFETY: the caller gives the object up, and found it there.
    unsafe {
        match cache.hand_over_medium(arena, InSlab { class, slab, index }, object.addr()) {
            Posted::Done => cache.set_busy(false),
            Posted::Alone => deallocate_medium_alone(object, cache, arena, index),
            Posted::No => deallocate_medium_by_post(object, cache, arena, index, slab, class),
        }
    }
}

/// Takes back a medium object that is not kept hot: so many objects into its slab. The thread is
/// marked as busy.
#[inline(never)]
unsafe fn deallocate_medium_by_post(
    object: *mut u8,
    cache: &mut ThreadCache,
    arena: &Arena<Linux>,
    index: usize,
    slab: Granule,
    class: Class,
) {
    // SAFETY: the caller gives the object up, and found it there.
    unsafe {
        let mut twice = None;
        if cache.keep_medium_instead(arena, class, object.addr(), |it| twice = Some(it)) {
            cache.set_busy(false);
            if let Some(invalid) = twice {
                report::invalid("free", invalid);
            }
            return;
        }
        match cache.post_medium(arena, InSlab { class, slab, index }, object.addr()) {
            Posted::Done => cache.set_busy(false),
            Posted::Alone => deallocate_medium_alone(object, cache, arena, index),
            Posted::No => deallocate_medium_late(object, cache, arena, index),
        }
    }
}

/// Takes back a medium object that goes home alone. The thread is marked as busy.
#[inline(never)]
unsafe fn deallocate_medium_alone(
    object: *mut u8,
    cache: &mut ThreadCache,
    arena: &Arena<Linux>,
    index: usize,
) {
    // SAFETY: the caller gives the object up, and found it there.
    unsafe {
        let done = cache.send_medium_alone(arena, arena.numbered(object.addr(), index));
        finish_when_busy(object, cache, done);
    }
}

/// Takes back a medium object for which there is no slot in the outbox yet, or there may be room
/// elsewhere. The thread is marked as busy.
#[cold]
#[inline(never)]
unsafe fn deallocate_medium_late(
    object: *mut u8,
    cache: &mut ThreadCache,
    arena: &Arena<Linux>,
    index: usize,
) {
    // SAFETY: the caller gives the object up, and found it there.
    unsafe {
        deallocate_medium_rarely(object, cache, arena, arena.numbered(object.addr(), index));
    }
}

/// Takes back a medium object for which there was no room. The thread is marked as busy.
#[inline(always)]
unsafe fn deallocate_medium_rarely(
    object: *mut u8,
    cache: &mut ThreadCache,
    arena: &Arena<Linux>,
    place: InSlab,
) {
    // SAFETY: the caller gives the object up, and found it there.
    unsafe {
        let done = cache.put_aside_medium(arena, place, object.addr());
        finish_when_busy(object, cache, done);
    }
}

/// Ends the attempt of a thread that is marked as busy to take an object back, whether or not that
/// is done.
#[inline(always)]
unsafe fn finish_when_busy(object: *mut u8, cache: &mut ThreadCache, done: bool) {
    cache.set_busy(false);
    if cache.take_wish_for_help() {
        background::start();
    }
    if !done {
        // SAFETY: the caller gives the object up.
        unsafe { deallocate_rarely(object) }
    }
}

/// Takes back a run, whose first granule this is. The thread is marked as busy.
#[inline(never)]
unsafe fn deallocate_run(
    object: *mut u8,
    g: Granule,
    cache: &mut ThreadCache,
    arena: &Arena<Linux>,
) {
    // SAFETY: the caller gives the object up, and found it there.
    if unsafe { cache.keep_run(arena, g, object.addr()) } {
        cache.set_busy(false);
        return;
    }
    // SAFETY: as above.
    unsafe { deallocate_run_elsewhere(object, cache, arena) }
}

/// Takes back a run that is not kept hot without more ado. The thread is marked as busy.
#[inline(never)]
unsafe fn deallocate_run_elsewhere(object: *mut u8, cache: &mut ThreadCache, arena: &Arena<Linux>) {
    // What it gathers for others, who has done nothing else yet, is to be given back as it ends.
    // SAFETY: the thread's own storage, of which this is another part than the cache.
    if !unsafe { (*tls::local()).will_exit } {
        cache.set_busy(false);
        // SAFETY: the caller gives the object up.
        return unsafe { deallocate_rarely(object) };
    }
    // SAFETY: the caller gives the object up.
    let done = unsafe { cache.put_run(arena, object.addr()) };
    // SAFETY: as above.
    unsafe { finish_when_busy(object, cache, done) };
}

/// Takes back a small object that was not put aside. The thread is marked as busy.
#[inline(never)]
unsafe fn deallocate_small_elsewhere(
    object: *mut u8,
    g: Granule,
    cache: &mut ThreadCache,
    arena: &Arena<Linux>,
    class: Class,
) {
    // SAFETY: the caller gives the object up, and found it there.
    let posted = unsafe { cache.post_small(arena, g, class, object.addr()) };
    cache.set_busy(false);
    if !posted {
        // SAFETY: the caller gives the object up.
        unsafe { deallocate_rarely(object) }
    }
}

#[cold]
#[inline(never)]
unsafe fn deallocate_rarely(object: *mut u8) {
    // SAFETY: the caller gives the object up.
    let entered = enter(|local, arena| unsafe {
        if guarded::owns(object.addr()) {
            guarded::free(object.addr());
            return Ok(());
        }
        local.cache.free_slow(arena, object.addr())
    });
    finish(object, entered);
}

/// Does what is left to do after an attempt to free an object: `None` if the thread was busy, or
/// there is no arena.
#[inline]
fn finish(object: *mut u8, entered: Option<Result<(), Invalid>>) {
    match entered {
        Some(Ok(())) => {}
        Some(Err(invalid)) => deallocate_other(object, invalid),
        None if emergency::unmap(object.addr()) => {}
        None => defer(object),
    }
}

/// Takes back what the arena does not know.
pub(crate) fn deallocate_other(object: *mut u8, invalid: Invalid) {
    let known = matches!(invalid, Invalid::Foreign { .. })
        && (emergency::unmap(object.addr()) || foreign::free(object));
    if !known {
        report::invalid("free", invalid);
    }
}

/// Frees what a signal handler freed while the thread was busy.
#[cold]
pub(crate) fn free_deferred(local: &mut Local) {
    // By one instruction: a handler that came between a load and a store would free the same.
    // SAFETY: an aligned word of the thread's own storage.
    let first = unsafe { signal::replace((&raw mut local.deferred).cast(), 0) };
    let mut object = at::<u8>(first);
    while !object.is_null() {
        // SAFETY: `defer` linked these through their first words, and nobody uses them.
        unsafe {
            let next = at::<*mut u8>(object.addr()).read();
            deallocate_deferred(object);
            object = next;
        }
    }
}

/// Takes back what a signal handler freed while the thread was busy.
unsafe fn deallocate_deferred(object: *mut u8) {
    let is_small = process::existing_arena()
        .is_some_and(|arena| matches!(arena.slab_at(object.addr()), Found::Small(..)));
    if !is_small {
        // SAFETY: the caller gives the object up.
        return unsafe { deallocate(object) };
    }
    // SAFETY: as above.
    let home =
        |local: &mut Local, arena| unsafe { local.cache.free_past_magazine(arena, object.addr()) };
    finish(object, enter(home));
}

/// Remembers an object to be freed when the thread is no longer busy. One in which there is no room
/// for a link is lost: of no bytes, or a guarded one of less than a word, which has no more than
/// was asked for.
fn defer(object: *mut u8) {
    let address = object.addr();
    // Of what lies elsewhere only guarded objects may be too small, and for the size of others the
    // interrupted thread may have the lock.
    let known = process::existing_arena().filter(|arena| arena.granule_of(address).is_some());
    let room = match known.map(|arena| arena.usable_size(address)) {
        Some(size) => size.ok(),
        None => guarded::usable_size("free", address),
    };
    if room.is_none_or(|bytes| bytes >= size_of::<*mut u8>()) {
        link_deferred(object);
    }
}

/// Links an object to those that are freed when the thread is no longer busy. It has room for a
/// link.
pub(crate) fn link_deferred(object: *mut u8) {
    // SAFETY: the thread's own storage, and an object of at least a word that its user gave up.
    unsafe {
        let local = tls::local();
        at::<*mut u8>(object.addr()).write((*local).deferred);
        (*local).deferred = object;
    }
}
