//! Debugging mode, after libumem's `UMEM_DEBUG` and the options of Solaris' mtmalloc: every object
//! is remembered, filled, surrounded and looked at, as `FREEHOLD_DEBUG` says (`options`).
//!
//! | file | what it is about |
//! |---|---|
//! | `options` | what is asked for |
//! | `heap` | where objects stand, and where they wait after they were freed |
//! | `table` | what is known of each object |
//! | `zones` | patterns in memory |
//! | `report` | what was found, in words |
//!
//! A thread inside one of these functions is marked busy, and holds the lock; a signal handler that
//! finds its own thread so is served by the emergency store, and what it frees is put into `LATER`.

mod heap;
mod options;
mod report;
mod table;
mod zones;

use crate::stack::Stack;
use crate::words::line;
use crate::{background, emergency, exit, foreign, free, guarded, process, tls};
use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::ptr;
use freehold_heap::arena::Arena;
use freehold_heap::invalid::Invalid;
use freehold_heap::layout::at;
use freehold_heap::order;
use freehold_heap::usage::Usage;
use freehold_sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use freehold_sync::lock::Lock;
use freehold_sys::signal::{self, Action, Context, Details, SA_ONSTACK, SA_RESTART, SA_SIGINFO};
use freehold_sys::{Linux, environment, process as own};
use heap::{Heap, Misuse};
use options::{Asked, HELP, parse};
use table::{Note, Record};

/// The one heap.
struct Debugged {
    lock: Lock,
    /// Protected by `lock`.
    heap: UnsafeCell<Heap>,
}

// SAFETY: the heap is used with the lock held, or before the process has an arena.
unsafe impl Sync for Debugged {}

static DEBUGGED: Debugged =
    Debugged { lock: Lock::new(order::DEBUGGING), heap: UnsafeCell::new(Heap::new()) };

/// Whether who calls is remembered. Written before there is an arena.
static AUDIT: AtomicBool = AtomicBool::new(false);

/// Whether a signal has asked for a check.
static CHECK: AtomicBool = AtomicBool::new(false);

/// What signal handlers have freed while their threads were busy; 0: a free place.
static LATER: [AtomicUsize; 64] = [const { AtomicUsize::new(0) }; 64];

/// Whether there is something in `LATER`.
static HAS_LATER: AtomicBool = AtomicBool::new(false);

/// Threads that have called and not ended: whom a fork has to reckon with.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Whether a variable of the environment asks for this mode. Called as the arena is made.
pub(crate) fn consider(variable: &[u8]) -> bool {
    let Some(value) = environment::value_of(variable, c"FREEHOLD_DEBUG") else { return false };
    if environment::is_privileged() {
        return false;
    }
    let options = match parse(value) {
        Ok(Asked::For(options)) => options,
        Ok(Asked::Nothing) => return false,
        Ok(Asked::Help) => {
            for text in HELP {
                line(format_args!("{text}"));
            }
            return false;
        }
        Err(word) => {
            let word = core::str::from_utf8(word).unwrap_or("?");
            line(format_args!(
                "freehold: FREEHOLD_DEBUG is ignored, since {word:?} in it is none of what \
                 FREEHOLD_DEBUG=help tells"
            ));
            return false;
        }
    };
    // SAFETY: the arena is just being made, by one thread; nobody else is here.
    let begun = unsafe { (*DEBUGGED.heap.get()).begin(options) };
    if !begun {
        line(format_args!("freehold: FREEHOLD_DEBUG is ignored: there is no address space for it"));
        return false;
    }
    AUDIT.store(options.audit, Ordering::Relaxed);
    if options.signal != 0 {
        let action = Action::call(on_signal, SA_SIGINFO | SA_ONSTACK | SA_RESTART);
        // SAFETY: the handler stores a word.
        unsafe { signal::set(options.signal.into(), &action) };
    }
    true
}

unsafe extern "C" fn on_signal(_: c_int, _: *mut Details, _: *mut Context) {
    // Relaxed: a wish, that comes with nothing.
    CHECK.store(true, Ordering::Relaxed);
}

/// Looks at all objects, and says how many are damaged. (A function of its own: what is done with a
/// lock held stands with what every program runs first.)
#[cold]
#[inline(never)]
fn check_as_asked(heap: &mut Heap) {
    let found = look_at_all(heap);
    line(format_args!("freehold: check: {found} found"));
}

/// Runs `f` with the heap, the thread marked busy. `None` if it is busy already, or there is no
/// arena.
fn enter<R>(f: impl FnOnce(&mut Heap, &'static Arena<Linux>) -> R) -> Option<R> {
    // SAFETY: the thread's own storage.
    let busy = |busy| unsafe { (*tls::local()).cache.set_busy(busy) };
    if is_busy() {
        return None;
    }
    let arena = process::arena_in_mode()?;
    busy(true);
    if !is_counted() {
        count_thread();
    }
    let (result, wish) = DEBUGGED.lock.hold(|| {
        // SAFETY: the lock is held, and the busy mark keeps this thread's signal handlers away.
        let heap = unsafe { &mut *DEBUGGED.heap.get() };
        if CHECK.swap(false, Ordering::Relaxed) {
            check_as_asked(heap);
        }
        (f(heap, arena), heap.cache.take_wish_for_help())
    });
    busy(false);
    if wish {
        background::start();
    }
    // Acquire pairs with the Release in `put_off`.
    if HAS_LATER.swap(false, Ordering::Acquire) {
        for place in &LATER {
            let object = place.swap(0, Ordering::Acquire);
            if object != 0 {
                // SAFETY: a handler has given it up.
                unsafe { deallocate(at(object)) };
            }
        }
    }
    Some(result)
}

/// Whether the calling thread is one of `THREADS`.
fn is_counted() -> bool {
    // SAFETY: the thread's own storage.
    unsafe { (*tls::local()).will_exit && !(*tls::local()).has_ended }
}

/// Counts the calling thread, which is busy, until it ends.
#[cold]
fn count_thread() {
    // SAFETY: the thread's own storage; the busy mark keeps its signal handlers away.
    let local = unsafe { &mut *tls::local() };
    if !local.has_ended {
        exit::arrange(local);
    }
    if is_counted() {
        // Relaxed, here and below: a thread that forks at this moment may miss it, as it misses one
        // that is about to begin.
        THREADS.fetch_add(1, Ordering::Relaxed);
    }
}

/// As `Mode::end_thread`.
pub(crate) fn end_thread() {
    if is_counted() {
        THREADS.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: the thread's own storage.
        unsafe { (*tls::local()).has_ended = true };
    }
}

/// Whether any other thread has called and not ended.
pub(crate) fn has_other_threads() -> bool {
    THREADS.load(Ordering::Relaxed) > usize::from(is_counted())
}

/// Remembers an object to be freed later. If there is no place, it is lost.
fn put_off(object: usize) {
    for place in &LATER {
        // Release pairs with the Acquire in `enter`.
        if place.compare_exchange(0, object, Ordering::Release, Ordering::Relaxed).is_ok() {
            HAS_LATER.store(true, Ordering::Release);
            return;
        }
    }
}

/// Who calls; nobody, if that is not asked for.
#[inline(always)]
fn note() -> Note {
    // Relaxed: who finds nothing is too early for there to be a heap.
    if AUDIT.load(Ordering::Relaxed) {
        Note { thread: own::thread_id(), stack: Stack::here() }
    } else {
        Note::default()
    }
}

/// What was to be had, unless the program did what it must not, to an object of this record. For a
/// thread that holds no lock: to find out who calls takes the loader's, which somebody who
/// allocates may have.
fn or_report<T>(function: &str, result: Result<T, Misuse>, record: Option<&Record>) -> T {
    match result {
        Ok(value) => value,
        Err(misuse) => report::end(function, misuse, record, &Stack::here()),
    }
}

/// As `Mode::allocate`.
pub(crate) fn allocate(size: usize, align: usize, zeroed: bool) -> *mut u8 {
    if size > isize::MAX as usize {
        return ptr::null_mut();
    }
    let note = note();
    let given = enter(|heap, arena| {
        if guarded::is_constructed() && heap.is_to_fail() {
            return None;
        }
        heap.allocate(arena, (size, align), zeroed, note)
    });
    let address = match given {
        Some(given) => given,
        None => emergency::map(size, align),
    };
    address.map_or(ptr::null_mut(), at)
}

/// As `Mode::deallocate`.
pub(crate) unsafe fn deallocate(object: *mut u8) {
    let address = object.addr();
    let note = note();
    let mut record = None;
    let freed = enter(|heap, arena| match heap.free(arena, address, note) {
        Err(Misuse::NoObject(_)) if arena.granule_of(address).is_none() => Ok(false),
        other => heap.table.recall(other.map(|()| true), &mut record),
    });
    let freed = freed.map(|freed| or_report("free", freed, record.as_ref()));
    match freed {
        Some(true) => {}
        Some(false) => free::deallocate_other(object, Invalid::Foreign { address }),
        None if emergency::unmap(address) => {}
        None => put_off(address),
    }
}

/// The bytes of an object; `None` if it is not of this heap, or the thread is busy.
fn size_here(function: &str, address: usize) -> Option<usize> {
    let mut record = None;
    let size = enter(|heap, arena| match heap.size(address) {
        Err(Misuse::NoObject(_)) if arena.granule_of(address).is_none() => Ok(None),
        other => heap.table.recall(other.map(Some), &mut record),
    });
    or_report(function, size?, record.as_ref())
}

/// Whether the thread is inside the allocator.
fn is_busy() -> bool {
    // SAFETY: the thread's own storage.
    unsafe { (*tls::local()).cache.is_busy() }
}

/// As `Mode::usable_size`. For a thread that is busy nothing can be used but what it got while it
/// was.
pub(crate) fn usable_size(function: &str, object: *mut u8) -> usize {
    let address = object.addr();
    let known = emergency::usable(address)
        .or_else(|| size_here(function, address))
        .or_else(|| if is_busy() { Some(0) } else { foreign::usable_size(object) });
    known.unwrap_or_else(|| crate::report::invalid(function, Invalid::Foreign { address }))
}

/// As `Mode::reallocate`: the object always moves, so that pointers to where it was are noticed. A
/// thread that is busy gets no memory for an object that it had before.
pub(crate) unsafe fn reallocate(object: *mut u8, size: usize) -> *mut u8 {
    if is_busy() && emergency::usable(object.addr()).is_none() {
        return ptr::null_mut();
    }
    let old = usable_size("realloc", object);
    let new = allocate(size, 1, false);
    if !new.is_null() {
        // SAFETY: both are objects of at least so many bytes, and different ones; the old one is
        // given up.
        unsafe {
            ptr::copy_nonoverlapping(object, new, old.min(size));
            deallocate(object);
        }
    }
    new
}

/// Whether an address lies in an object that has a mapping of its own.
pub(crate) fn owns(address: usize) -> bool {
    let firewalled = |heap: &mut Heap, _: &Arena<Linux>| {
        heap.table.all().any(|record| record.is_firewalled && record.contains(address))
    };
    enter(firewalled).unwrap_or(false)
}

/// As `Mode::trim`.
pub(crate) fn trim() -> usize {
    let mut record = None;
    let trimmed = enter(|heap, arena| {
        let ended = heap.end_all_waits(arena);
        let trimmed = ended.and_then(|()| heap.cache.trim(arena).map_err(Misuse::Cell));
        heap.table.recall(trimmed.map(|()| arena.purge_all()), &mut record)
    });
    trimmed.map_or(0, |trimmed| or_report("malloc_trim", trimmed, record.as_ref()))
}

/// As `Mode::usage`.
pub(crate) fn usage() -> Usage {
    enter(|_, arena| arena.usage()).unwrap_or_default()
}

/// Before a fork.
pub(crate) fn lock() {
    DEBUGGED.lock.acquire();
}

/// After a fork, in the parent.
pub(crate) fn unlock() {
    DEBUGGED.lock.release();
}

/// As `Mode::after_fork_in_child`.
pub(crate) fn after_fork_in_child(arena: &Arena<Linux>) {
    // SAFETY: the lock is held, by the only thread.
    arena.after_fork_in_child(unsafe { (*DEBUGGED.heap.get()).cache.heap() });
    DEBUGGED.lock.reset();
    THREADS.store(usize::from(is_counted()), Ordering::Relaxed);
}

/// Reports everything that is wrong; returns how much that is.
fn look_at_all(heap: &Heap) -> usize {
    let mut count = 0;
    for record in heap.table.all() {
        if let Some(damage) = heap.damage(record) {
            report::found(record, damage);
            count += 1;
        }
    }
    count
}

/// Looks at all objects, and reports what is wrong; returns how many are damaged. `None` when the
/// thread is inside the allocator.
pub(crate) fn check() -> Option<usize> {
    enter(|heap, _| look_at_all(heap))
}

/// Runs as the program ends.
extern "C" fn at_end() {
    if process::arena_in_mode().is_some() && crate::mode::is_debugging() {
        list_leaks();
    }
}

// A function of its own, which is not among what every program runs.
#[cold]
#[inline(never)]
fn list_leaks() {
    enter(|heap, _| {
        if heap.options.leaks {
            report::leaks(&heap.table);
        }
    });
}

#[used]
#[unsafe(link_section = ".fini_array")]
static AT_END: extern "C" fn() = at_end;
