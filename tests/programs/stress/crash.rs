//! Words on standard error when the process is killed for what it did to memory: at which address,
//! and where in the library that serves malloc. It may be the child of a fork, so that neither a
//! debugger nor anybody else sees more than its status.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::complain::fail;

/// Words of the stack that are looked at.
const DEPTH: usize = 256;
/// Places that are told, at most.
const MOST: usize = 24;

/// Where malloc is loaded, and where that ends.
static FIRST: AtomicUsize = AtomicUsize::new(0);
static END: AtomicUsize = AtomicUsize::new(0);

/// Has such signals said. They end the process all the same.
pub(crate) fn watch() {
    let signals = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL];
    // SAFETY: calls with pointers to local variables; the handler calls nothing that may not be
    // called from one.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        let malloc = libc::malloc as *const () as usize;
        if libc::dladdr(malloc as *const c_void, &raw mut info) != 0 {
            FIRST.store(info.dli_fbase as usize, Ordering::Relaxed);
            libc::dl_iterate_phdr(Some(find_end), info.dli_fname.cast_mut().cast());
        }
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = say as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESETHAND;
        for signal in signals {
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

/// Notes where the library ends whose file `name` says.
unsafe extern "C" fn find_end(
    library: *mut libc::dl_phdr_info,
    _: usize,
    name: *mut c_void,
) -> c_int {
    // SAFETY: the C library describes one that is loaded; the name is what it said before.
    unsafe {
        let library = &*library;
        let is_it = !library.dlpi_name.is_null()
            && CStr::from_ptr(library.dlpi_name) == CStr::from_ptr(name.cast());
        if !is_it {
            return 0;
        }
        let parts = std::slice::from_raw_parts(library.dlpi_phdr, library.dlpi_phnum.into());
        let ends = parts.iter().filter(|part| part.p_type == libc::PT_LOAD);
        let end = ends.map(|part| part.p_vaddr + part.p_memsz).max().unwrap_or(0);
        END.store((library.dlpi_addr + end) as usize, Ordering::Relaxed);
        1
    }
}

/// Says what is known, in offsets from where malloc is loaded: where the thread was if that is
/// there, and what on its stack may be where it was to go back to.
extern "C" fn say(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let first = FIRST.load(Ordering::Relaxed);
    let in_malloc = |place: usize| {
        let is_there = (first..END.load(Ordering::Relaxed)).contains(&place);
        is_there.then(|| place - first)
    };
    // SAFETY: the kernel describes the signal.
    let (address, (at, stack)) = unsafe { ((*info).si_addr() as usize, place(context)) };
    // SAFETY: above a function's frame are those of its callers, and what a thread begins with.
    let words = (0..DEPTH).map(|n| unsafe { (stack as *const usize).add(n).read_volatile() });
    let (mut places, mut count) = ([0; MOST], 0);
    for found in [at].into_iter().chain(words).filter_map(in_malloc).take(MOST) {
        places[count] = found;
        count += 1;
    }
    fail(format_args!(
        "signal {signal} for address {address:#x} at {at:#x}, malloc's {:x?}",
        &places[..count]
    ));
}

/// The next instruction of the thread that was interrupted, and its stack.
///
/// # Safety
/// The kernel has given this to a handler of a signal, which has not ended.
unsafe fn place(context: *mut c_void) -> (usize, usize) {
    // SAFETY: the caller's promise.
    let registers = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext };
    #[cfg(target_arch = "x86_64")]
    {
        let register = |n: c_int| registers.gregs[n as usize] as usize;
        (register(libc::REG_RIP), register(libc::REG_RSP))
    }
    #[cfg(target_arch = "aarch64")]
    {
        (registers.pc as usize, registers.sp as usize)
    }
}
