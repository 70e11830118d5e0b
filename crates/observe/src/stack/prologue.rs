//! How far from the stack pointer a function's frame pointer is, by the instructions that it begins
//! with. Pure: it is given code.

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Mnemonic, Register};

/// `push rbp; mov rbp, rsp`, as compilers write it.
const BEGINNING: [u8; 4] = [0x55, 0x48, 0x89, 0xe5];

/// How far back the beginning of a function is looked for.
const FARTHEST: usize = 1 << 16;

/// Instructions within which a function has made room for itself.
const INSTRUCTIONS: usize = 16;

/// How far above the stack pointer the frame pointer is, in the body of the function that holds the
/// code at `at`; nothing for one that keeps no frame pointer.
pub(crate) fn frame_pointer_above(code: &[u8], at: usize) -> Option<u64> {
    let before = code.get(at.saturating_sub(FARTHEST)..at)?;
    let begins = before.windows(BEGINNING.len()).rposition(|own| own == BEGINNING)?;
    let mut decoder = Decoder::new(64, &before[begins + BEGINNING.len()..], DecoderOptions::NONE);
    let mut room = 0;
    for _ in 0..INSTRUCTIONS {
        if !decoder.can_decode() {
            break;
        }
        let instruction = decoder.decode();
        let is_of_stack = instruction.op0_register() == Register::RSP;
        match (instruction.mnemonic(), instruction.flow_control()) {
            (Mnemonic::Push, _) if instruction.code() == Code::Push_r64 => room += 8,
            (Mnemonic::Sub, _) if is_of_stack => return Some(room + instruction.immediate(1)),
            (_, FlowControl::Next) => {}
            _ => break,
        }
    }
    Some(room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pushed_and_what_is_set_aside_lies_beneath_the_frame_pointer() {
        // nop; push rbp; mov rbp, rsp; push r15; push r14; push rbx; sub rsp, 0x28; call; nop
        let code = [
            0x90, 0x55, 0x48, 0x89, 0xe5, 0x41, 0x57, 0x41, 0x56, 0x53, 0x48, 0x83, 0xec, 0x28,
            0xe8, 0, 0, 0, 0, 0x90,
        ];
        assert_eq!(frame_pointer_above(&code, 19), Some(3 * 8 + 0x28));
    }

    #[test]
    fn a_function_without_variables_sets_nothing_aside() {
        // push rbp; mov rbp, rsp; push rbx; call
        let code = [0x55, 0x48, 0x89, 0xe5, 0x53, 0xe8, 0, 0, 0, 0];
        assert_eq!(frame_pointer_above(&code, 10), Some(8));
        // sub rsp, 8; call
        assert_eq!(frame_pointer_above(&[0x48, 0x83, 0xec, 0x08, 0xe8, 0, 0, 0, 0], 9), None);
    }
}
