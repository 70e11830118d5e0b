//! What happens on a signal: setting it, what the kernel tells a handler, and what a thread shares
//! with its own handlers.
//!
//! Made by raw system calls, since other libraries put functions of their own in the place of
//! `sigaction(3)`. Sources: `sigaction(2)`, `sigreturn(2)`, the kernel's `asm/ucontext.h` and
//! `asm/sigcontext.h` of each architecture.

use crate::process::{process_id, thread_id};
use crate::syscall::{self, number};
use core::ffi::c_int;

/// An access to memory that is not mapped, or not with the rights it takes.
pub const SIGSEGV: c_int = 11;

/// The handler gets the details.
pub const SA_SIGINFO: usize = 4;
/// The handler runs on the stack that `sigaltstack(2)` was told of, if there is one.
pub const SA_ONSTACK: usize = 0x0800_0000;
/// System calls that were interrupted go on.
pub const SA_RESTART: usize = 0x1000_0000;
/// The signal is not blocked while its handler runs.
pub const SA_NODEFER: usize = 0x4000_0000;
/// The default action comes back as the handler starts.
pub const SA_RESETHAND: usize = 0x8000_0000;
#[cfg(target_arch = "x86_64")]
const SA_RESTORER: usize = 0x0400_0000;

/// The default action, in the place of a handler's address.
pub const SIG_DFL: usize = 0;
/// Nothing, in the place of a handler's address.
pub const SIG_IGN: usize = 1;

const SIG_BLOCK: usize = 0;
const SIG_UNBLOCK: usize = 1;

/// What happens on a signal, as the kernel has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Action {
    /// The handler's address, [`SIG_DFL`] or [`SIG_IGN`].
    pub handler: usize,
    /// `SA_…`.
    pub flags: usize,
    restorer: usize,
    /// The signals that are blocked meanwhile: bit n − 1 for signal n.
    pub mask: u64,
}

// What a handler returns to: the very instructions by which debuggers and unwinders know the frame
// of a signal.
#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".pushsection .text.freehold_signal_return, \"ax\", @progbits",
    ".globl freehold_signal_return",
    ".hidden freehold_signal_return",
    ".type freehold_signal_return, @function",
    "nop",
    "freehold_signal_return:",
    "mov rax, 15",
    "syscall",
    ".popsection",
);

impl Action {
    /// Calls `handler`, with these flags.
    pub fn call(handler: Handler, flags: usize) -> Self {
        let action = Self { handler: handler as usize, flags, ..Self::default() };
        #[cfg(target_arch = "x86_64")]
        {
            unsafe extern "C" {
                fn freehold_signal_return();
            }
            let restorer = freehold_signal_return as *const () as usize;
            Self { flags: flags | SA_RESTORER, restorer, ..action }
        }
        #[cfg(not(target_arch = "x86_64"))]
        action
    }
}

/// A handler that gets the details.
pub type Handler = unsafe extern "C" fn(c_int, *mut Details, *mut Context);

/// Sets what happens on a signal; returns what did before. `None` if the kernel refuses.
///
/// # Safety
/// A handler is one for the flags beside it, and does only what may be done in a signal handler.
pub unsafe fn set(signal: c_int, action: &Action) -> Option<Action> {
    let mut before = Action::default();
    let (new, old) = (core::ptr::from_ref(action) as usize, &raw mut before as usize);
    // SAFETY: two actions of the kernel's layout, with masks of 8 bytes.
    let result = unsafe {
        syscall::call(number::RT_SIGACTION, [signal as usize, new, old, size_of::<u64>(), 0, 0])
    };
    (!syscall::failed(result)).then_some(before)
}

/// Blocks these signals for the calling thread, or lets them through.
pub fn set_blocked(signals: u64, blocked: bool) {
    let how = if blocked { SIG_BLOCK } else { SIG_UNBLOCK };
    // SAFETY: the mask is 8 bytes, as the call is told.
    unsafe {
        syscall::call(number::RT_SIGPROCMASK, [how, &raw const signals as usize, 0, 8, 0, 0]);
    }
}

/// Sends a signal to the calling thread.
pub fn send_to_self(signal: c_int) {
    let (process, thread) = (process_id() as usize, thread_id() as usize);
    // SAFETY: takes no pointers; what follows is what the process has set for the signal.
    unsafe { syscall::call(number::TGKILL, [process, thread, signal as usize, 0, 0, 0]) };
}

/// What the kernel says about a signal: the start of `siginfo_t`.
#[derive(Debug)]
#[repr(C)]
pub struct Details {
    number: c_int,
    error: c_int,
    code: c_int,
    padding: c_int,
    address: usize,
}

impl Details {
    /// The address that was accessed, if this signal is the kernel's own word for an access, and
    /// was not sent by a process.
    pub fn accessed(&self) -> Option<usize> {
        (self.code > 0).then_some(self.address)
    }
}

/// The state of the thread when the signal came: `ucontext_t`.
#[derive(Debug)]
#[repr(C)]
#[cfg(target_arch = "x86_64")]
pub struct Context {
    flags_link_stack: [usize; 5],
    registers: [usize; 23],
}

#[cfg(target_arch = "x86_64")]
impl Context {
    /// The registers that DWARF numbers 0 to 16 stand for, the last one being the place of the
    /// instruction.
    pub fn registers(&self) -> [usize; 17] {
        // rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 to r15, rip
        const PLACES: [usize; 17] = [13, 12, 14, 11, 9, 8, 10, 15, 0, 1, 2, 3, 4, 5, 6, 7, 16];
        PLACES.map(|place| self.registers[place])
    }

    /// Whether the access was a write; `None` if that is not known.
    pub fn was_write(&self) -> Option<bool> {
        // The processor's error code for page faults.
        Some(self.registers[19] & 2 != 0)
    }
}

/// The state of the thread when the signal came: `ucontext_t`.
#[derive(Debug)]
#[repr(C)]
#[cfg(target_arch = "aarch64")]
pub struct Context {
    flags_link_stack_mask: [usize; 22],
    fault_address: usize,
    registers: [usize; 33],
}

#[cfg(target_arch = "aarch64")]
impl Context {
    /// The registers that DWARF numbers 0 to 31 stand for, and the place of the instruction.
    pub fn registers(&self) -> [usize; 33] {
        self.registers
    }

    /// Whether the access was a write; `None` if that is not known.
    pub fn was_write(&self) -> Option<bool> {
        None
    }
}

/// Whether the aligned word at `address` can be read. By a system call that looks at the word and
/// then finds that it is told to do nothing with it.
pub fn is_readable(address: usize) -> bool {
    const NOTHING: usize = usize::MAX;
    const EFAULT: isize = -14;
    if address == 0 {
        // For the kernel that is no mask at all.
        return false;
    }
    // SAFETY: the kernel copies 8 bytes from the address, or refuses to; it changes nothing, since
    // there is no such thing to do with a mask.
    let result = unsafe { syscall::call(number::RT_SIGPROCMASK, [NOTHING, address, 0, 8, 0, 0]) };
    result != EFAULT
}

/// Puts a value in the place of another, and returns that one, by one instruction as far as the
/// thread's own signal handlers can tell: none comes between the reading and the writing. Other
/// threads must stay away, so that no lock on the bus is needed.
///
/// # Safety
/// The place can be read and written to, is aligned, and is the calling thread's alone.
#[inline]
pub unsafe fn replace(place: *mut usize, value: usize) -> usize {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the caller's promise. Compares and writes in one instruction, and begins again with
    // what is there if a handler changed it since it was read.
    unsafe {
        let mut old = place.read_volatile();
        core::arch::asm!(
            "2:",
            "cmpxchg qword ptr [{place}], {value}",
            "jne 2b",
            place = in(reg) place,
            value = in(reg) value,
            inout("rax") old,
            options(nostack),
        );
        old
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    // SAFETY: the caller's promise. Relaxed: nobody else comes here.
    unsafe {
        use core::sync::atomic::{AtomicUsize, Ordering};
        AtomicUsize::from_ptr(place).swap(value, Ordering::Relaxed)
    }
}

/// Takes one from the byte `OFFSET` bytes from `base` if that is zero, and returns whether it was.
/// One instruction looks and takes, so that whoever interrupts the thread finds it before or after.
///
/// # Safety
/// The byte can be read and written to, and only the calling thread writes to it, and handlers that
/// interrupt it, which leave it as they found it. Other threads read it at most.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
#[must_use]
pub unsafe fn take_one_from_zero<const OFFSET: usize>(base: *mut u8) -> bool {
    // SAFETY: the caller's promise. Only from zero anything has to be borrowed.
    unsafe {
        core::arch::asm!(
            "sub byte ptr [{base} + {offset}], 1",
            "jnc {was_not_zero}",
            base = in(reg) base,
            offset = const OFFSET,
            was_not_zero = label {
                // SAFETY: as above: it gets back what was taken. A handler in between finds that it
                // is not zero, and leaves it as it is.
                unsafe {
                    let byte = base.add(OFFSET);
                    byte.write_volatile(byte.read_volatile().wrapping_add(1));
                }
                return false;
            },
            options(nostack),
        );
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_read_is_told_from_what_cannot() {
        let word = 1_u64;
        assert!(is_readable(core::ptr::from_ref(&word).addr()));
        assert!(!is_readable(0));
        assert!(!is_readable(usize::MAX - 7));
        let reserved = crate::System::reserve(&crate::Linux::new(), 4096, 4096).unwrap();
        assert!(!is_readable(reserved));
    }

    #[test]
    fn a_handler_gets_what_was_sent_and_returns() {
        use core::sync::atomic::{AtomicUsize, Ordering};
        const SIGUSR2: c_int = 12;
        static SEEN: AtomicUsize = AtomicUsize::new(0);
        unsafe extern "C" fn handler(_: c_int, details: *mut Details, context: *mut Context) {
            // SAFETY: the kernel's.
            let (details, context) = unsafe { (&*details, &*context) };
            let pc = *context.registers().last().unwrap();
            SEEN.store(pc + usize::from(details.accessed().is_some()), Ordering::Relaxed);
        }
        let action = Action::call(handler, SA_SIGINFO | SA_ONSTACK | SA_RESTART);
        // SAFETY: the handler stores a number.
        let before = unsafe { set(SIGUSR2, &action) }.unwrap();
        assert_eq!(before.handler, SIG_DFL);
        send_to_self(SIGUSR2);
        // The signal came inside `send_to_self`, or what was inlined of it.
        assert!(SEEN.load(Ordering::Relaxed) > 4096);
        // SAFETY: what it was.
        let ours = unsafe { set(SIGUSR2, &before) }.unwrap();
        assert_eq!(ours, action);
    }

    #[test]
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    fn from_a_byte_that_is_not_zero_nothing_is_taken() {
        for before in 0..=u8::MAX {
            let mut bytes = [before, before, before];
            // SAFETY: the second of them, this thread's.
            let taken = unsafe { take_one_from_zero::<1>(bytes.as_mut_ptr()) };
            assert_eq!(taken, before == 0);
            assert_eq!(bytes, [before, if taken { u8::MAX } else { before }, before]);
        }
    }

    #[test]
    fn a_value_is_replaced_and_returned() {
        let mut place = 7;
        // SAFETY: this test's own.
        unsafe {
            assert_eq!(replace(&raw mut place, 0), 7);
            assert_eq!(replace(&raw mut place, 9), 0);
        }
        assert_eq!(place, 9);
    }
}
