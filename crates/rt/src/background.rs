//! The background thread: gives memory back while nobody frees.
//!
//! What a program has freed stays dirty for a moment, since most programs want it back. A thread
//! that frees can look whether that is too much, but nobody looks when all are idle. So the first
//! look that finds 8 MiB free and dirty, or that 4 MiB of slabs were put into a pool, or that more
//! would stay at hand with this thread, or that others want what a thread frees, or that a heap is
//! about to populate blocks, or that a thread has sent home what was in its magazines, in a process
//! of several threads starts it. It purges what is not claimed, and what threads that free leave to
//! it, since the system may take milliseconds for that; and it looks whether the program writes to
//! what it has, since a filter of the program's may forbid that to its own threads.
//!
//! It ends as soon as nothing is left to do: an idle process does not have it. Nor does a busy
//! process of one thread: when the others have ended it ends as well, but not at once, since a
//! program that starts threads for each piece of work will soon have others, and would fault in
//! again what was purged in between.
//!
//! It is no thread of the C library's (`freehold_sys::thread` says why), calls nothing but the
//! arena, and blocks every signal. `FREEHOLD_BACKGROUND=0` in the environment forbids it.

use crate::{process, report, settings};
use freehold_heap::arena::Arena;
use freehold_heap::policy::purge::{LOOK_MILLISECONDS, TICK_MILLISECONDS, TICKS_ALONE};
use freehold_heap::purge::Watch;
use freehold_sync::atomic::{AtomicBool, AtomicU32, Ordering};
use freehold_sys::{Linux, thread};

static ROOM: thread::Room = thread::Room::new();

/// The number of the process that may start the thread: a child made by `vfork` shares this memory,
/// but must not have a thread in it.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Whether the environment forbids the thread. Written before there is an arena.
static FORBIDDEN: AtomicBool = AtomicBool::new(false);

/// Looks whether a variable of the environment forbids the thread. Called as the arena is made.
pub(crate) fn consider(variable: &[u8]) {
    if settings::switch(variable, c"FREEHOLD_BACKGROUND") == Some(false) {
        FORBIDDEN.store(true, Ordering::Relaxed);
    }
}

/// Remembers the process. Called once as the arena is made, and in the child of a fork, where the
/// thread does not exist.
pub(crate) fn prepare() {
    // Relaxed here and below: facts about the process, the same whoever finds them.
    PROCESS.store(freehold_sys::process::process_id(), Ordering::Relaxed);
    ROOM.vacate();
}

/// Starts the thread, unless it is there or forbidden.
#[cold]
pub(crate) fn start() {
    if ROOM.is_occupied() || !is_this_process() || FORBIDDEN.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: the body makes system calls only, and uses no thread-local storage.
    unsafe { ROOM.start(body) };
}

/// Ends the thread, if it is there: because the process is about to do what only one of a single
/// thread can, such as entering a user namespace.
pub(crate) fn end() {
    // In a child that was made without the fork handlers the thread is only remembered.
    if ROOM.is_occupied() && is_this_process() {
        ROOM.empty();
    }
}

fn is_this_process() -> bool {
    PROCESS.load(Ordering::Relaxed) == freehold_sys::process::process_id()
}

extern "C" fn body() {
    let Some(arena) = process::any_arena() else { return };
    thread::set_name(c"freehold");
    // In a mode it is not the threads' own caches that objects are taken from.
    let in_mode = process::existing_arena().is_none();
    // SAFETY: a cache is part of its thread's own storage, and used by `slow`, `exit` and `fork`,
    // which mark the thread as busy, but for the fast path.
    let mut watch = if in_mode { Watch::default() } else { unsafe { Watch::reclaiming() } };
    loop {
        // Only this thread says so, for as long as it is there.
        arena.set_helped(true);
        let dismissed = purge_until_idle(arena, &mut watch);
        arena.set_helped(false);
        if dismissed {
            arena.purge_without_help();
            return;
        }
        // Once more for those who have released in between, and left it to this thread. Nothing
        // orders that: what this look misses waits for the next one of a thread that frees.
        if !purge(arena, &mut watch) {
            return;
        }
    }
}

/// Purges what is not claimed, until nothing is left to do. Returns whether the thread has to end
/// before: because it is told to, or because the program goes on with one thread.
fn purge_until_idle(arena: &Arena<Linux>, watch: &mut Watch) -> bool {
    let (mut alone, mut left) = (0, true);
    while purge(arena, watch) {
        let busy_alone = watch.has_seen_somebody() && !arena.has_several_threads();
        alone = if busy_alone { alone + 1 } else { 0 };
        if alone > TICKS_ALONE || sleep_and_purge_left(arena, watch, &mut left) {
            return true;
        }
    }
    false
}

/// Sleeps until the next tick, and purges meanwhile what threads have `left` to this one, unless
/// they left nothing in the last tick: a program that frees little is not worth waking up for that
/// often. Returns whether the thread is to end.
fn sleep_and_purge_left(arena: &Arena<Linux>, watch: &mut Watch, left: &mut bool) -> bool {
    let looks = if *left { TICK_MILLISECONDS / LOOK_MILLISECONDS } else { 1 };
    *left = false;
    for _ in 0..looks {
        if ROOM.sleep(TICK_MILLISECONDS / looks) {
            return true;
        }
        arena.find_out_whether_reclaimed(watch);
        *left |= arena.purge_left();
    }
    false
}

/// Purges once what is not claimed. Returns whether there is more to come.
fn purge(arena: &Arena<Linux>, watch: &mut Watch) -> bool {
    match arena.purge_idle(watch) {
        Ok(more) => more,
        Err(invalid) => report::invalid("free", invalid),
    }
}
