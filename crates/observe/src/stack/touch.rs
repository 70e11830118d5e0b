//! Which data a thread is about to touch: its next instructions, decoded, with the registers that
//! a sample has. This takes the place of the data addresses that processors sample, which virtual
//! machines rarely have and ordinary users may rarely use.

use std::ops::Range;

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, OpAccess, OpKind,
    Register,
};

use crate::perf::record::{Registers, SP};

/// Instructions that are looked at: a loop that waits is shorter.
const INSTRUCTIONS: usize = 12;

/// How near to the stack pointer data is the thread's own.
const STACK: u64 = 8 << 20;

/// Data that is about to be touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Touch {
    /// Where it is.
    pub(crate) address: u64,
    /// Whether it is written.
    pub(crate) is_write: bool,
    /// Whether that is done in one step with reading it, as locks and counters do.
    pub(crate) is_atomic: bool,
}

/// How far before the next instruction decoding begins, to find the last one: decoding that begins
/// amid an instruction is in step after a few.
const BACK: Range<u64> = 24..32;

/// Data that is touched by the instructions at `pc`, in code that begins at `begin`, and by the one
/// before where that takes a line in one step: a thread that is interrupted while it has to wait
/// for the line stands behind. A loop is followed to its beginning; stack data is left out.
pub(crate) fn touches(code: &[u8], begin: u64, pc: u64, registers: &Registers) -> Vec<Touch> {
    let mut walk = Walk { registers, changed: Vec::new(), found: Vec::new() };
    let mut at = pc;
    let mut factory = InstructionInfoFactory::new();
    let mut is_loop = false;
    for _ in 0..INSTRUCTIONS {
        let Some(instruction) = decode(code, begin, at) else { break };
        walk.take(&instruction, &mut factory);
        match next(&instruction) {
            Some(next) => at = next,
            None => break,
        }
        is_loop |= at == pc;
    }
    // At the head of a loop it is its end, more often, that was run last.
    if !is_loop && let Some(last) = last(code, begin, pc).filter(is_exchange) {
        let mut behind = Walk { registers, changed: Vec::new(), found: Vec::new() };
        behind.take_back(&last, &mut factory);
        walk.found.extend(behind.found);
    }
    walk.found
}

fn decode(code: &[u8], begin: u64, at: u64) -> Option<Instruction> {
    let from = usize::try_from(at.wrapping_sub(begin)).ok();
    let bytes = from.and_then(|from| code.get(from..))?;
    let instruction = Decoder::with_ip(64, bytes, at, DecoderOptions::NONE).decode();
    (!instruction.is_invalid()).then_some(instruction)
}

/// The instruction that ends at `pc`, as most beginnings before have it.
fn last(code: &[u8], begin: u64, pc: u64) -> Option<Instruction> {
    let ending = |back: u64| {
        let mut instruction = decode(code, begin, pc.wrapping_sub(back))?;
        while instruction.next_ip() < pc {
            instruction = decode(code, begin, instruction.next_ip())?;
        }
        (instruction.next_ip() == pc).then_some(instruction)
    };
    let found: Vec<_> = BACK.filter_map(ending).collect();
    let votes = |own: &Instruction| found.iter().filter(|other| other.ip() == own.ip()).count();
    found.iter().max_by_key(|own| votes(own)).copied()
}

/// Whether an instruction reads and writes memory in one step.
fn is_exchange(instruction: &Instruction) -> bool {
    let has_memory =
        (0..instruction.op_count()).any(|operand| instruction.op_kind(operand) == OpKind::Memory);
    has_memory
        && (instruction.has_lock_prefix() || instruction.mnemonic() == iced_x86::Mnemonic::Xchg)
}

/// Where execution goes after an instruction, as far as that is likely.
fn next(instruction: &Instruction) -> Option<u64> {
    let target = instruction.near_branch_target();
    match instruction.flow_control() {
        FlowControl::UnconditionalBranch => Some(target),
        // A jump back is a loop's end, which is mostly taken.
        FlowControl::ConditionalBranch if target < instruction.ip() => Some(target),
        FlowControl::Next | FlowControl::ConditionalBranch => Some(instruction.next_ip()),
        _ => None,
    }
}

struct Walk<'a> {
    registers: &'a Registers,
    /// Registers that no longer have the value that the sample gives.
    changed: Vec<Register>,
    found: Vec<Touch>,
}

impl Walk<'_> {
    fn take(&mut self, instruction: &Instruction, factory: &mut InstructionInfoFactory) {
        self.take_operands(instruction, factory);
        self.take_changes(instruction, factory);
    }

    /// The same for one that has been run already: what it has changed tells no address.
    fn take_back(&mut self, instruction: &Instruction, factory: &mut InstructionInfoFactory) {
        self.take_changes(instruction, factory);
        self.take_operands(instruction, factory);
    }

    fn take_operands(&mut self, instruction: &Instruction, factory: &mut InstructionInfoFactory) {
        let info = factory.info(instruction);
        for operand in 0..instruction.op_count() {
            if instruction.op_kind(operand) == OpKind::Memory {
                let access = info.op_access(operand);
                self.found.extend(self.touch(instruction, operand, access));
            }
        }
    }

    fn take_changes(&mut self, instruction: &Instruction, factory: &mut InstructionInfoFactory) {
        for used in factory.info(instruction).used_registers() {
            if !matches!(used.access(), OpAccess::Read | OpAccess::CondRead) {
                self.changed.push(used.register().full_register());
            }
        }
    }

    fn touch(&self, instruction: &Instruction, operand: u32, access: OpAccess) -> Option<Touch> {
        let is_write = matches!(
            access,
            OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        );
        let is_access = is_write || matches!(access, OpAccess::Read | OpAccess::CondRead);
        let value = |register: Register, _, _| self.value(register);
        let address = instruction.virtual_address(operand, 0, value)?;
        let near =
            address.wrapping_sub(self.registers[SP]).min(self.registers[SP].wrapping_sub(address));
        (is_access && near > STACK).then_some(Touch {
            address,
            is_write,
            is_atomic: is_write && is_exchange(instruction),
        })
    }

    /// The value of a register; nothing if it changed since the sample, or is not in it.
    fn value(&self, register: Register) -> Option<u64> {
        // The order in which the kernel gives them.
        const ORDER: [Register; 17] = [
            Register::RAX,
            Register::RBX,
            Register::RCX,
            Register::RDX,
            Register::RSI,
            Register::RDI,
            Register::RBP,
            Register::RSP,
            Register::RIP,
            Register::R8,
            Register::R9,
            Register::R10,
            Register::R11,
            Register::R12,
            Register::R13,
            Register::R14,
            Register::R15,
        ];
        if matches!(register, Register::DS | Register::ES | Register::SS | Register::CS) {
            return Some(0);
        }
        let full = register.full_register();
        let at = ORDER.iter().position(|known| *known == full)?;
        (!self.changed.contains(&full)).then(|| self.registers[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the code of the tests is, and a stack that is far from its data.
    const PC: u64 = 0x40_1000;
    const FAR: u64 = 0x7fff_0000_0000;

    fn registers(pairs: &[(usize, u64)]) -> Registers {
        let mut registers = [0; 17];
        registers[SP] = FAR;
        for &(at, value) in pairs {
            registers[at] = value;
        }
        registers
    }

    fn of(code: &[u8], registers: &Registers) -> Vec<Touch> {
        touches(code, PC, PC, registers)
    }

    #[test]
    fn an_increment_in_memory_is_a_write() {
        // add qword [rdi], 1; ret
        let found = of(&[0x48, 0x83, 0x07, 0x01, 0xc3], &registers(&[(5, 0x1000)]));
        assert_eq!(found, [Touch { address: 0x1000, is_write: true, is_atomic: false }]);
    }

    #[test]
    fn an_exchange_and_a_locked_instruction_are_atomic() {
        // xchg [rdi], eax; lock inc dword [rdi+8]; ret
        let code = [0x87, 0x07, 0xf0, 0xff, 0x47, 0x08, 0xc3];
        let found = of(&code, &registers(&[(5, 0x1000)]));
        assert!(found.iter().all(|touch| touch.is_atomic), "{found:?}");
        assert_eq!(found[1].address, 0x1008);
    }

    #[test]
    fn a_register_that_changed_tells_no_address_any_more() {
        // mov rdi, [rsi]; mov [rdi], rax; ret
        let code = [0x48, 0x8b, 0x3e, 0x48, 0x89, 0x07, 0xc3];
        let found = of(&code, &registers(&[(4, 0x2000), (5, 0x1000)]));
        assert_eq!(found, [Touch { address: 0x2000, is_write: false, is_atomic: false }]);
    }

    #[test]
    fn a_loop_is_followed_to_its_beginning() {
        // inc dword [rdi]; dec rcx; jne back: sampled at the dec
        let code = [0xff, 0x07, 0x48, 0xff, 0xc9, 0x75, 0xf9, 0xc3];
        let found = touches(&code, PC, PC + 2, &registers(&[(5, 0x1000)]));
        assert!(found.iter().any(|touch| touch.address == 0x1000 && touch.is_write), "{found:?}");
    }

    /// mov rax, rsi, twelve times; lock inc qword [rdi]; then what is given.
    fn behind(code: &[u8]) -> (Vec<u8>, u64) {
        let before = [0x48, 0x89, 0xf0].repeat(12);
        let whole = [&before, &[0xf0, 0x48, 0xff, 0x07][..], code].concat();
        (whole, PC + 40)
    }

    #[test]
    fn a_thread_that_waited_for_a_line_stands_behind_the_step_that_takes_it() {
        // mov eax, 1; ret
        let (code, pc) = behind(&[0xb8, 1, 0, 0, 0, 0xc3]);
        let found = touches(&code, PC, pc, &registers(&[(5, 0x1000)]));
        assert_eq!(found, [Touch { address: 0x1000, is_write: true, is_atomic: true }]);
        // A step later it is over.
        assert!(touches(&code, PC, pc + 5, &registers(&[(5, 0x1000)])).is_empty());
    }

    #[test]
    fn the_head_of_a_loop_was_mostly_reached_from_its_end() {
        // dec rcx; jne back; ret
        let (code, pc) = behind(&[0x48, 0xff, 0xc9, 0x75, 0xfb, 0xc3]);
        assert!(touches(&code, PC, pc, &registers(&[(5, 0x1000)])).is_empty());
    }

    #[test]
    fn a_step_that_has_changed_its_own_address_tells_none() {
        // lock xadd [rax], rax; ret: what the register was is gone.
        let before = [0x48, 0x89, 0xf0].repeat(12);
        let code = [&before, &[0xf0, 0x48, 0x0f, 0xc1, 0x00, 0xc3][..]].concat();
        assert!(touches(&code, PC, PC + 41, &registers(&[(0, 0x1000)])).is_empty());
    }

    #[test]
    fn the_stack_is_the_threads_own() {
        // mov [rsp+8], rax; ret
        assert!(of(&[0x48, 0x89, 0x44, 0x24, 0x08, 0xc3], &registers(&[])).is_empty());
    }
}
