//! The registers of a thread, by the numbers that DWARF has for them.

use core::arch::asm;
use freehold_sys::signal::Context;

/// Registers that have a number, as far as they matter; on x86-64 the place of the instruction is
/// the last of them.
#[cfg(target_arch = "x86_64")]
pub(crate) const REGISTERS: usize = 17;
#[cfg(target_arch = "aarch64")]
pub(crate) const REGISTERS: usize = 32;

#[cfg(target_arch = "x86_64")]
const STACK_POINTER: usize = 7;
#[cfg(target_arch = "aarch64")]
const STACK_POINTER: usize = 31;

#[cfg(target_arch = "x86_64")]
const FRAME_POINTER: usize = 6;
#[cfg(target_arch = "aarch64")]
const FRAME_POINTER: usize = 29;

/// The registers.
#[derive(Clone, Copy)]
pub(crate) struct Registers {
    pub(crate) values: [usize; REGISTERS],
    /// The place of the instruction.
    pub(crate) pc: usize,
}

impl Registers {
    /// Those of this thread, in the function that this is inlined into.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(crate) fn here() -> Self {
        let mut values = [0; REGISTERS];
        let pc: usize;
        // SAFETY: stores the registers that calls preserve, and the stack pointer, to an array that
        // has room for them.
        unsafe {
            asm!(
                "mov [{values} + 24], rbx",
                "mov [{values} + 48], rbp",
                "mov [{values} + 56], rsp",
                "mov [{values} + 96], r12",
                "mov [{values} + 104], r13",
                "mov [{values} + 112], r14",
                "mov [{values} + 120], r15",
                "lea {pc}, [rip]",
                values = in(reg) values.as_mut_ptr(),
                pc = lateout(reg) pc,
                options(nostack, preserves_flags),
            );
        }
        Self { values, pc }
    }

    /// Those of this thread, in the function that this is inlined into.
    #[cfg(target_arch = "aarch64")]
    #[inline(always)]
    pub(crate) fn here() -> Self {
        let mut values = [0; REGISTERS];
        let (pc, stack): (usize, usize);
        // SAFETY: stores the registers that calls preserve to an array that has room for them.
        unsafe {
            asm!(
                "stp x19, x20, [{values}, #152]",
                "stp x21, x22, [{values}, #168]",
                "stp x23, x24, [{values}, #184]",
                "stp x25, x26, [{values}, #200]",
                "stp x27, x28, [{values}, #216]",
                "stp x29, x30, [{values}, #232]",
                "mov {stack}, sp",
                "adr {pc}, .",
                values = in(reg) values.as_mut_ptr(),
                stack = out(reg) stack,
                pc = out(reg) pc,
                options(nostack, preserves_flags),
            );
        }
        values[STACK_POINTER] = stack;
        Self { values, pc }
    }

    /// Those that a signal interrupted.
    pub(crate) fn interrupted(context: &Context) -> Self {
        let all = context.registers();
        let mut values = [0; REGISTERS];
        values.copy_from_slice(&all[..REGISTERS]);
        Self { values, pc: all[all.len() - 1] }
    }

    pub(crate) fn stack_pointer(&self) -> usize {
        self.values[STACK_POINTER]
    }

    pub(crate) fn set_stack_pointer(&mut self, value: usize) {
        self.values[STACK_POINTER] = value;
    }

    pub(crate) fn frame_pointer(&self) -> usize {
        self.values[FRAME_POINTER]
    }

    pub(crate) fn set_frame_pointer(&mut self, value: usize) {
        self.values[FRAME_POINTER] = value;
    }
}
