//! A thread of the library's own, of which the C library knows nothing.
//!
//! `pthread_create` takes locks of the C library and allocates; called from inside an allocator it
//! can wait for itself. This thread is made by `clone(2)` with the flags that C libraries use for
//! theirs, so that filters which allow threads allow it as well. It has every signal blocked, a
//! stack of fixed size, and thread-local storage that is all zero and used by nobody; it must call
//! nothing but raw system calls.

use crate::alone;
use crate::futex;
use crate::syscall::{self, failed, number};
use core::arch::asm;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, Ordering};

const STACK: usize = 16 * 1024;

/// `VM | FS | FILES | SIGHAND | THREAD | SYSVSEM | SETTLS | PARENT_SETTID | CHILD_CLEARTID`: those
/// of glibc and musl. The kernel clears the word when the thread has left its stack for good.
const FLAGS: usize = 0x003d_0f00;
const SIG_SETMASK: usize = 2;

/// Room for one thread at a time, to be a static. What is looked at where there is no thread comes
/// first, so that it is near other statics.
#[repr(C, align(64))]
pub struct Room {
    /// The thread's number; 0 when there is none.
    number: AtomicU32,
    /// 1 when the thread is to end.
    called: AtomicU32,
    storage: UnsafeCell<[u64; 32]>,
    stack: UnsafeCell<Stack>,
}

#[repr(align(64))]
struct Stack {
    _bytes: [u8; STACK],
}

// SAFETY: stack and storage are used by the thread alone that the number stands for.
unsafe impl Sync for Room {}

/// While a thread is being made.
const MAKING: u32 = u32::MAX;

impl Room {
    /// An empty room.
    pub const fn new() -> Self {
        Self {
            number: AtomicU32::new(0),
            called: AtomicU32::new(0),
            storage: UnsafeCell::new([0; 32]),
            stack: UnsafeCell::new(Stack { _bytes: [0; STACK] }),
        }
    }

    /// Whether a thread is there, or about to be.
    #[inline]
    pub fn is_occupied(&self) -> bool {
        // Relaxed: a hint; `start` decides.
        self.number.load(Ordering::Relaxed) != 0
    }

    /// Sleeps for so many milliseconds, or until the thread is to end. Returns whether it is. For
    /// the thread that is here.
    pub fn sleep(&self, milliseconds: u64) -> bool {
        futex::wait_shortly(&self.called, 0, milliseconds);
        // Relaxed: nothing comes with it.
        self.called.load(Ordering::Relaxed) != 0
    }

    /// Makes the thread that is here end, and waits until it has, as `pthread_join` does. The body
    /// must look at what [`Room::sleep`] returns. One that is just being made, or that somebody
    /// starts meanwhile, is not waited for: it may last. It may be told to end as well.
    pub fn empty(&self) {
        // Acquire: `called` was cleared before the kernel wrote a number here.
        let number = self.number.load(Ordering::Acquire);
        if matches!(number, 0 | MAKING) {
            return;
        }
        self.called.store(1, Ordering::Relaxed);
        futex::wake_waiting_shortly(&self.called);
        // Acquire: what the thread did is done.
        while self.number.load(Ordering::Acquire) == number {
            futex::wait_shortly(&self.number, number, 10);
        }
        wait_until_forgotten(number);
    }

    /// Forgets the thread: in the child of a fork, where it does not exist.
    pub fn vacate(&self) {
        self.number.store(0, Ordering::Relaxed);
    }

    /// Starts a thread that runs `body` and ends, unless there is one. Returns whether it did.
    ///
    /// # Safety
    /// `body` calls nothing of the C library and uses no thread-local storage.
    pub unsafe fn start(&'static self, body: extern "C" fn()) -> bool {
        // Acquire: what the former thread did on the stack is over; the kernel's store to the word
        // comes after it.
        let free = self.number.compare_exchange(0, MAKING, Ordering::Acquire, Ordering::Relaxed);
        if free.is_err() {
            return false;
        }
        self.called.store(0, Ordering::Relaxed);
        alone::note_thread();
        let (all, mut before) = (u64::MAX, 0_u64);
        let (blocked, old) = (&raw const all as usize, &raw mut before as usize);
        // SAFETY: masks of 8 bytes; the thread inherits that everything is blocked. The stack and
        // the storage are the new thread's, since the number was 0.
        let made = unsafe {
            syscall::call(number::RT_SIGPROCMASK, [SIG_SETMASK, blocked, old, 8, 0, 0]);
            let made = self.clone_here(body);
            syscall::call(number::RT_SIGPROCMASK, [SIG_SETMASK, old, 0, 8, 0, 0]);
            made
        };
        if failed(made) {
            // Release pairs with the Acquire above.
            self.number.store(0, Ordering::Release);
        }
        !failed(made)
    }

    unsafe fn clone_here(&'static self, body: extern "C" fn()) -> isize {
        let stack = self.stack.get() as usize + STACK;
        let number = self.number.as_ptr() as usize;
        // The middle, since thread-local storage is addressed on both sides of its pointer.
        let storage = self.storage.get() as usize + size_of::<[u64; 16]>();
        let result: isize;
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the child starts on its own stack, calls `body`, and ends; it never comes back.
        unsafe {
            asm!(
                "syscall",
                "test rax, rax",
                "jnz 2f",
                "xor ebp, ebp",
                "call r9",
                "xor edi, edi",
                "mov eax, {exit}",
                "syscall",
                "ud2",
                "2:",
                exit = const number::EXIT,
                inlateout("rax") number::CLONE as isize => result,
                in("rdi") FLAGS, in("rsi") stack, in("rdx") number, in("r10") number,
                in("r8") storage, in("r9") body,
                lateout("rcx") _, lateout("r11") _,
            );
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: as above.
        unsafe {
            asm!(
                "svc 0",
                "cbnz x0, 2f",
                "mov x29, xzr",
                "blr x9",
                "mov x0, xzr",
                "mov x8, {exit}",
                "svc 0",
                "brk 1",
                "2:",
                exit = const number::EXIT,
                in("x8") number::CLONE,
                inlateout("x0") FLAGS as isize => result,
                in("x1") stack, in("x2") number, in("x3") storage, in("x4") number,
                in("x9") body,
            );
        }
        result
    }
}

impl Default for Room {
    fn default() -> Self {
        Self::new()
    }
}

/// Waits until the kernel does not count a thread any more that has left its stack for good: a
/// moment later. Until then the process is one of several threads to `unshare(2)`.
fn wait_until_forgotten(thread: u32) {
    let process = crate::process::process_id() as usize;
    // Bounded, since another thread may get the number.
    for _ in 0..10_000 {
        // SAFETY: signal 0 is none; the call only says whether there is such a thread.
        let there =
            unsafe { syscall::call(number::TGKILL, [process, thread as usize, 0, 0, 0, 0]) };
        if failed(there) {
            return;
        }
        // SAFETY: takes no arguments.
        unsafe { syscall::call(number::SCHED_YIELD, [0; 6]) };
    }
}

/// Gives the calling thread a name of at most 15 bytes.
pub fn set_name(name: &core::ffi::CStr) {
    const PR_SET_NAME: usize = 15;
    // SAFETY: the kernel reads a C string.
    unsafe { syscall::call(number::PRCTL, [PR_SET_NAME, name.as_ptr() as usize, 0, 0, 0, 0]) };
}

#[cfg(test)]
mod tests {
    use super::*;

    static ROOM: Room = Room::new();
    static RAN: AtomicU32 = AtomicU32::new(0);

    extern "C" fn body() {
        set_name(c"test");
        ROOM.sleep(1);
        RAN.fetch_add(1, Ordering::Relaxed);
    }

    static LASTING: Room = Room::new();

    extern "C" fn last() {
        while !LASTING.sleep(1000) {}
    }

    static CONTESTED: Room = Room::new();

    extern "C" fn lasting() {
        while !CONTESTED.sleep(1000) {}
    }

    #[test]
    fn who_ends_a_thread_does_not_wait_for_one_that_others_start() {
        let done = AtomicU32::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Somebody starts one again whenever there is none, and never ends it.
                while done.load(Ordering::Relaxed) == 0 {
                    // SAFETY: the body makes system calls only.
                    unsafe { CONTESTED.start(lasting) };
                }
            });
            for _ in 0..500 {
                CONTESTED.empty();
            }
            done.store(1, Ordering::Relaxed);
        });
        CONTESTED.empty();
        assert!(!CONTESTED.is_occupied());
    }

    #[test]
    fn a_thread_that_is_to_end_has_ended() {
        for _ in 0..20 {
            // SAFETY: the body makes system calls only.
            assert!(unsafe { LASTING.start(last) });
            LASTING.empty();
            assert!(!LASTING.is_occupied());
            LASTING.empty();
        }
    }

    #[test]
    fn threads_run_one_after_the_other_in_one_room() {
        for n in 1..=20 {
            // SAFETY: the body makes system calls only.
            assert!(unsafe { ROOM.start(body) });
            // SAFETY: as above.
            assert!(!unsafe { ROOM.start(body) });
            while ROOM.is_occupied() {
                std::thread::yield_now();
            }
            assert_eq!(RAN.load(Ordering::Relaxed), n);
        }
    }
}
