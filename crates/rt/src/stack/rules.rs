//! The rules of a frame: how the caller's registers are found from the callee's.

use super::memory::Memory;
use super::registers::{REGISTERS, Registers};
use super::table::{Cursor, Frame};

/// How deeply states are remembered: compilers remember one.
const REMEMBERED: usize = 3;

/// Where the caller's value of a register is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// Where it was.
    Same,
    /// Nowhere.
    Lost,
    /// In memory, so far from the frame's address.
    At(i32),
    /// It is the frame's address and so much.
    Is(i32),
    /// In another register.
    In(u8),
}

/// The rules at one place of the code.
#[derive(Clone, Copy)]
struct Row {
    /// The register that the frame's address is counted from; `None` if it is not that simple.
    base: Option<u8>,
    offset: i64,
    rules: [Rule; REGISTERS],
}

/// What runs a program of rules.
struct Machine {
    row: Row,
    first: Row,
    remembered: [Option<Row>; REMEMBERED],
    depth: usize,
    place: usize,
}

impl Frame {
    /// The registers of the caller, for a callee that is at `address` of this frame. `None` when
    /// there is none, or it cannot be known.
    pub(crate) fn caller(
        &self,
        address: usize,
        registers: &Registers,
        memory: &mut Memory,
    ) -> Option<Registers> {
        let row = self.row_at(address)?;
        let base = *registers.values.get(usize::from(row.base?))?;
        let frame = base.wrapping_add_signed(row.offset as isize);
        let mut caller = *registers;
        for (number, rule) in row.rules.iter().enumerate() {
            let value = match *rule {
                Rule::Same | Rule::Lost => continue,
                Rule::At(offset) => memory.word(frame.wrapping_add_signed(offset as isize))?,
                Rule::Is(offset) => frame.wrapping_add_signed(offset as isize),
                Rule::In(other) => *registers.values.get(usize::from(other))?,
            };
            caller.values[number] = value;
        }
        if row.rules.get(self.return_register)? == &Rule::Lost {
            return None;
        }
        caller.pc = without_signature(caller.values[self.return_register]);
        caller.set_stack_pointer(frame);
        Some(caller)
    }

    fn row_at(&self, address: usize) -> Option<Row> {
        let none = Row { base: None, offset: 0, rules: [Rule::Same; REGISTERS] };
        let mut machine = Machine {
            row: none,
            first: none,
            remembered: [None; REMEMBERED],
            depth: 0,
            place: self.start,
        };
        machine.run(self, self.common.clone(), usize::MAX)?;
        machine.first = machine.row;
        machine.run(self, self.own.clone(), address)?;
        Some(machine.row)
    }
}

/// A return address without the signature that aarch64 keeps in its upper bits.
fn without_signature(address: usize) -> usize {
    if cfg!(target_arch = "aarch64") { address & 0x0000_ffff_ffff_ffff } else { address }
}

impl Machine {
    /// Runs a program up to the rules for `address`.
    fn run(&mut self, frame: &Frame, mut program: Cursor, address: usize) -> Option<()> {
        while let Some(code) = program.byte() {
            let low = code & 0x3f;
            let units = match code >> 6 {
                1 => u64::from(low),
                2 => {
                    let offset = program.unsigned()? as i64 * frame.data_unit;
                    self.set(low.into(), Rule::At(offset as i32));
                    0
                }
                3 => {
                    self.restore(low.into());
                    0
                }
                _ => self.run_other(frame, low, &mut program)?,
            };
            self.place = self.place.checked_add((units * frame.code_unit) as usize)?;
            if self.place > address {
                return Some(());
            }
        }
        Some(())
    }

    /// An instruction without an operand in its code; returns how many units it advances by.
    fn run_other(&mut self, frame: &Frame, code: u8, program: &mut Cursor) -> Option<u64> {
        let unit = frame.data_unit;
        match code {
            // Nothing; and on aarch64: whether the return address is signed, which does not matter.
            0x00 | 0x2d => {}
            0x02 => return Some(program.byte()?.into()),
            0x03 => return Some(program.half()?.into()),
            0x04 => return Some(program.word()?.into()),
            0x05 => {
                let (register, offset) = (program.unsigned()?, program.unsigned()? as i64 * unit);
                self.set(register, Rule::At(offset as i32));
            }
            0x06 => self.restore(program.unsigned()?),
            0x07 => self.set(program.unsigned()?, Rule::Lost),
            0x08 => self.set(program.unsigned()?, Rule::Same),
            0x09 => self.set(program.unsigned()?, Rule::In(program.unsigned()? as u8)),
            0x0a => {
                *self.remembered.get_mut(self.depth)? = Some(self.row);
                self.depth += 1;
            }
            0x0b => {
                self.depth = self.depth.checked_sub(1)?;
                self.row = self.remembered[self.depth]?;
            }
            // An expression: the register's value is not to be had.
            0x10 | 0x16 => {
                let register = program.unsigned()?;
                skip_block(program)?;
                self.set(register, Rule::Lost);
            }
            0x11 => self.set(program.unsigned()?, Rule::At((program.signed()? * unit) as i32)),
            0x14 => {
                let (register, offset) = (program.unsigned()?, program.unsigned()? as i64 * unit);
                self.set(register, Rule::Is(offset as i32));
            }
            0x15 => self.set(program.unsigned()?, Rule::Is((program.signed()? * unit) as i32)),
            // Bytes of arguments on the stack, which only exceptions are interested in.
            0x2e => {
                program.unsigned()?;
            }
            _ => self.define(code, unit, program)?,
        }
        Some(0)
    }

    /// An instruction that says what the frame's address is counted from.
    fn define(&mut self, code: u8, unit: i64, program: &mut Cursor) -> Option<()> {
        if matches!(code, 0x0c | 0x0d | 0x12) {
            self.row.base = Some(program.unsigned()? as u8);
        }
        match code {
            0x0c | 0x0e => self.row.offset = program.unsigned()? as i64,
            0x0d => {}
            0x0f => {
                self.row.base = None;
                skip_block(program)?;
            }
            0x12 | 0x13 => self.row.offset = program.signed()? * unit,
            _ => return None,
        }
        Some(())
    }

    /// Registers without a place here, such as those for vectors, do not matter.
    fn set(&mut self, register: u64, rule: Rule) {
        if let Some(place) = self.row.rules.get_mut(register as usize) {
            *place = rule;
        }
    }

    fn restore(&mut self, register: u64) {
        if let Some(&rule) = self.first.rules.get(register as usize) {
            self.set(register, rule);
        }
    }
}

fn skip_block(program: &mut Cursor) -> Option<()> {
    let bytes = program.unsigned()? as usize;
    program.skip(bytes)?;
    Some(())
}
