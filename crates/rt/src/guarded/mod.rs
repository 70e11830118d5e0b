//! Sampled guarding: about one in so many objects has inaccessible pages around it, and leaves
//! inaccessible pages behind when it is freed. So a use after free or an overflow that happens
//! again and again, on many machines, is found in the end, in the middle of an access that would
//! have gone unnoticed, and at a price that programs in use can pay. GWP-ASan and the Linux
//! kernel's KFENCE are of the same kind.
//!
//! `FREEHOLD_GUARD=N` asks for one in about N objects that a thread fetches from beyond its
//! magazines, `FREEHOLD_GUARD=on` for the usual rate. The fast path knows nothing of it: who comes
//! to the slow path is counted there with all that it takes along (`sample`), and a guarded object
//! comes back by the slow path, since it lies outside the region.
//!
//! | file | what it is about |
//! |---|---|
//! | `sample` | which objects |
//! | `pool` | the slots, and the objects in them |
//! | `fault` | the handler of SIGSEGV |
//! | `explain` | what is wrong, in words |

mod explain;
mod fault;
mod pool;
pub(crate) mod sample;

use crate::mode;
use crate::words::line;
use freehold_sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use freehold_sys::environment;
use pool::Pool;

/// Objects in one that is guarded; 0 when none are, which is before the library's constructor has
/// run, and mostly after it.
static ONE_IN: AtomicU32 = AtomicU32::new(0);

static POOL: AtomicPtr<Pool> = AtomicPtr::new(core::ptr::null_mut());

/// What "on" stands for: so that programs which do little else than allocate are not slower by more
/// than a hundredth (`docs/hardening.md`).
const USUAL_ONE_IN: u32 = 20_000;

/// What greater numbers stand for.
const MOST_ONE_IN: u32 = 1 << 30;

/// Whether objects are guarded.
#[inline]
pub(crate) fn is_on() -> bool {
    // Relaxed: the pool is read with Acquire.
    ONE_IN.load(Ordering::Relaxed) != 0
}

fn pool() -> Option<&'static Pool> {
    // Acquire pairs with the Release in `begin`: the pool is complete.
    // SAFETY: never unmade.
    unsafe { POOL.load(Ordering::Acquire).as_ref() }
}

/// What the environment has asked for; 0 while that is nothing.
static ASKED_FOR: AtomicU32 = AtomicU32::new(0);

/// Whether the library's constructor has run.
static CONSTRUCTED: AtomicBool = AtomicBool::new(false);

/// Looks whether a variable of the environment is the setting. Called as the arena is made.
pub(crate) fn consider(variable: &[u8]) {
    let Some(value) = environment::value_of(variable, c"FREEHOLD_GUARD") else { return };
    match parse(value) {
        Some(one_in) => ASKED_FOR.store(one_in, Ordering::Relaxed),
        None => line(format_args!(
            "freehold: FREEHOLD_GUARD={} is none of: off; on; a number N, to guard about one \
             object in N",
            core::str::from_utf8(value).unwrap_or("?")
        )),
    }
}

/// Whether the program has started, or begun to.
pub(crate) fn is_constructed() -> bool {
    // Relaxed: it comes with nothing.
    CONSTRUCTED.load(Ordering::Relaxed)
}

/// Runs as the program starts, or when the library is loaded. The very first objects, the loader's,
/// are not guarded: nothing of the C library's is relied upon before.
extern "C" fn constructed() {
    CONSTRUCTED.store(true, Ordering::Relaxed);
    begin();
}

/// Begins to guard, if that is asked for and the time has come; called when either of it is new.
pub(crate) fn begin() {
    // Relaxed: whoever is first begins; both conditions are mostly made by the first thread.
    let one_in = ASKED_FOR.load(Ordering::Relaxed);
    if one_in == 0 || !CONSTRUCTED.load(Ordering::Relaxed) {
        return;
    }
    if ASKED_FOR.swap(0, Ordering::Relaxed) == 0 || environment::is_privileged() {
        return;
    }
    if mode::current().is_some() {
        return line(format_args!(
            "freehold: FREEHOLD_GUARD has no effect in the mode that is asked for"
        ));
    }
    let Some(pool) = Pool::create() else {
        return line(format_args!("freehold: there is no address space for guarded objects"));
    };
    // Release pairs with the Acquire in `pool`.
    POOL.store(core::ptr::from_ref(pool).cast_mut(), Ordering::Release);
    fault::install();
    ONE_IN.store(one_in, Ordering::Relaxed);
}

/// Objects in one that is guarded, 0 for none; `None` if that is not what a value says.
fn parse(value: &[u8]) -> Option<u32> {
    match value {
        b"" | b"off" => Some(0),
        b"on" => Some(USUAL_ONE_IN),
        number if number.iter().all(u8::is_ascii_digit) => {
            let number = core::str::from_utf8(number).ok()?.parse().unwrap_or(u32::MAX);
            Some(number.min(MOST_ONE_IN))
        }
        _ => None,
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = constructed;

/// Whether `address` lies in the pool.
#[inline]
pub(crate) fn owns(address: usize) -> bool {
    is_on() && pool().is_some_and(|pool| pool.contains(address))
}

/// Takes back the object at `address`, which lies in the pool. What is not an object is reported,
/// and ends the process. For a thread that is marked busy.
pub(crate) fn free(address: usize) {
    let Some(pool) = pool() else { return };
    if let Err(misuse) = pool.free(address) {
        explain::end("free", pool, misuse);
    }
}

/// The bytes that can be used at `address`, if that is a guarded object: as many as were asked for.
/// An address in the pool that is none is reported in the name of `function`, and ends the process.
pub(crate) fn usable_size(function: &str, address: usize) -> Option<usize> {
    let pool = pool().filter(|_| owns(address))?;
    match pool.size(address) {
        Ok(size) => Some(size),
        Err(misuse) => explain::end(function, pool, misuse),
    }
}

/// Before a fork: nobody else is at the pool.
pub(crate) fn lock() {
    if let Some(pool) = pool() {
        pool.lock();
    }
}

/// After a fork, in either process.
pub(crate) fn unlock() {
    if let Some(pool) = pool() {
        pool.unlock();
    }
}

/// In the child of a fork, whoever has forked.
pub(crate) fn after_fork_in_child() {
    fault::reset();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_on_off_or_a_number() {
        let cases: [(&[u8], _); 13] = [
            (b"", Some(0)),
            (b"off", Some(0)),
            (b"0", Some(0)),
            (b"on", Some(USUAL_ONE_IN)),
            (b"1", Some(1)),
            (b"1000", Some(1000)),
            (b"1073741824", Some(MOST_ONE_IN)),
            (b"1073741825", Some(MOST_ONE_IN)),
            (b"1000000000000000000000", Some(MOST_ONE_IN)),
            (b"-1", None),
            (b"1k", None),
            (b"yes", None),
            (b"\xff", None),
        ];
        for (value, expected) in cases {
            assert_eq!(parse(value), expected, "{value:?}");
        }
    }
}
