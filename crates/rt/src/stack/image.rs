//! The files of which the process is made, and where their tables are.

use crate::libc::{PhdrInfo, dl_iterate_phdr};
use crate::tls;
use core::ffi::{c_int, c_void};
use core::ops::Range;
use freehold_sync::atomic::{AtomicBool, AtomicU32, Ordering};
use freehold_sync::gate::Gate;
use freehold_sys::futex;

const PT_LOAD: u32 = 1;
const PT_GNU_EH_FRAME: u32 = 0x6474_e550;

/// Who asks the loader holds its lock, which would stay held in the child of a fork: nobody asks
/// while a thread forks, and stacks that are looked at meanwhile are cut short.
static GATE: Gate = Gate::new();

/// Whether the calling thread is asking the loader.
fn asks() -> &'static AtomicBool {
    // SAFETY: the thread's own storage, which is there as long as the thread, and nobody keeps the
    // reference or gives it to another thread.
    unsafe { &(*tls::local()).asks_loader }
}

/// Before a fork. Waits for those who are asking, however long: a thread that is not running may
/// hold the loader's lock, and a child that found it held would wait for ever. They wait for nobody
/// but the loader. If this thread is asking itself, a signal handler forks: it cannot wait.
pub(crate) fn close() {
    let never = AtomicU32::new(0);
    GATE.close();
    // Relaxed: written by this thread.
    while !asks().load(Ordering::Relaxed) && !GATE.is_empty() {
        futex::wait_shortly(&never, 0, 1);
    }
}

/// After a fork, in the parent.
pub(crate) fn open() {
    GATE.open();
}

/// After a fork, in the child.
pub(crate) fn reset() {
    GATE.reset();
}

/// A program or library in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Image {
    start: usize,
    end: usize,
    /// The index of the table of frames: `PT_GNU_EH_FRAME`.
    pub(crate) index: usize,
    /// Whether it is the program itself.
    pub(crate) is_program: bool,
}

/// What [`visit`] looks for, and finds.
struct Search {
    address: usize,
    visited: usize,
    found: Option<Image>,
}

impl Image {
    /// The image that contains `address`, if that has a table of frames.
    pub(crate) fn containing(address: usize) -> Option<Self> {
        let mut search = Search { address, visited: 0, found: None };
        // Relaxed: read by this thread, in a signal handler at most. Set before the gate is entered
        // and reset after it is left, so that a handler in between finds it set.
        let before = asks().swap(true, Ordering::Relaxed);
        if GATE.enter() {
            // SAFETY: the function is of the kind asked for, and the search outlives the call.
            unsafe { dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
            GATE.leave();
        }
        asks().store(before, Ordering::Relaxed);
        search.found
    }

    /// The addresses from its first to its last byte.
    pub(crate) fn range(&self) -> Range<usize> {
        self.start..self.end
    }
}

unsafe extern "C" fn visit(info: *mut PhdrInfo, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: the loader's description of an image, and the search that was passed with this
    // function.
    let (info, search) = unsafe { (&*info, &mut *data.cast::<Search>()) };
    let is_program = search.visited == 0;
    search.visited += 1;
    if info.headers.is_null() {
        return 0;
    }
    // SAFETY: the program headers of a loaded image, which stay while the loader's lock is held.
    let headers = unsafe { core::slice::from_raw_parts(info.headers, info.count.into()) };
    let place = |address: usize| info.base.wrapping_add(address);
    let loaded = || headers.iter().filter(|it| it.kind == PT_LOAD);
    let contains = loaded().any(|it| search.address.wrapping_sub(place(it.address)) < it.size);
    let index = headers.iter().find(|it| it.kind == PT_GNU_EH_FRAME);
    let (true, Some(index)) = (contains, index) else { return contains.into() };
    search.found = Some(Image {
        start: loaded().map(|it| place(it.address)).min().unwrap_or(0),
        end: loaded().map(|it| place(it.address) + it.size).max().unwrap_or(0),
        index: place(index.address),
        is_program,
    });
    1
}
