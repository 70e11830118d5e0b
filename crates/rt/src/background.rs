//! The background thread: gives memory back while nobody frees.
//!
//! What a program has freed stays dirty for a moment, since most programs want it back. A thread
//! that frees can look whether that is too much, but nobody looks when all are idle. So the first
//! look that finds 8 MiB free and dirty in a process of several threads starts this thread. It
//! purges what is not claimed, and ends as soon as nothing is left to do: an idle process does not
//! have it. A process of one thread never has a second one: the last but one of its threads takes
//! this one along.
//!
//! It is no thread of the C library's (`freehold_sys::thread` says why), calls nothing but the
//! arena, and blocks every signal. `FREEHOLD_BACKGROUND=0` in the environment forbids it.

use crate::process;
use freehold_heap::arena::Arena;
use freehold_heap::policy::purge::TICK_MILLISECONDS;
use freehold_heap::purge::Watch;
use freehold_sync::atomic::{AtomicU8, AtomicU32, Ordering};
use freehold_sys::{Linux, environment, thread};

static ROOM: thread::Room = thread::Room::new();

/// The number of the process that may start the thread: a child made by `vfork` shares this memory,
/// but must not have a thread in it.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Whether the environment forbids the thread: read when that is first asked.
static PERMISSION: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const GRANTED: u8 = 1;
const REFUSED: u8 = 2;

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
    if ROOM.is_occupied() || !is_this_process() || !is_permitted() {
        return;
    }
    // SAFETY: the body makes system calls only, and uses no thread-local storage.
    unsafe { ROOM.start(body) };
}

/// Ends the thread, if it is there: because the process has only one other left, which may do what
/// only a process of one thread can, such as entering a user namespace.
pub(crate) fn end(arena: &Arena<Linux>) {
    // In a child that was made without the fork handlers the thread is only remembered.
    if ROOM.is_occupied() && is_this_process() {
        ROOM.empty();
        arena.purge_without_help();
    }
}

fn is_this_process() -> bool {
    PROCESS.load(Ordering::Relaxed) == freehold_sys::process::process_id()
}

fn is_permitted() -> bool {
    let mut known = PERMISSION.load(Ordering::Relaxed);
    if known == UNKNOWN {
        let refused = environment::starts_with(c"FREEHOLD_BACKGROUND", b"0");
        known = if refused { REFUSED } else { GRANTED };
        PERMISSION.store(known, Ordering::Relaxed);
    }
    known == GRANTED
}

extern "C" fn body() {
    let Some(arena) = process::existing_arena() else { return };
    thread::set_name(c"freehold");
    let mut watch = Watch::default();
    loop {
        // Only this thread says so, for as long as it is there.
        arena.set_helped(true);
        let mut called = false;
        while !called && arena.purge_idle(&mut watch) {
            called = ROOM.sleep(TICK_MILLISECONDS) || !arena.has_several_threads();
        }
        arena.set_helped(false);
        if called {
            arena.purge_without_help();
            return;
        }
        // Once more for those who have released in between, and left it to this thread. Nothing
        // orders that: what this look misses waits for the next one of a thread that frees.
        if !arena.purge_idle(&mut watch) {
            return;
        }
    }
}
