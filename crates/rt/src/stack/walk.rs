//! The way from a frame to its caller's, and so on.

use super::DEPTH;
use super::image::Image;
use super::memory::Memory;
use super::registers::Registers;
use super::table::Frame;

/// Frames that are looked at, with those that are left out.
const MOST: usize = DEPTH + 16;

/// Images that one walk remembers.
const IMAGES: usize = 4;

/// The images that were met, since finding one costs more than all the rest.
#[derive(Default)]
struct Images {
    met: [Option<Image>; IMAGES],
    next: usize,
}

impl Images {
    fn containing(&mut self, address: usize) -> Option<Image> {
        let known = self.met.iter().flatten().find(|it| it.range().contains(&address));
        if let Some(&known) = known {
            return Some(known);
        }
        let found = Image::containing(address)?;
        self.met[self.next % IMAGES] = Some(found);
        self.next += 1;
        Some(found)
    }
}

/// The calls that led to where a thread has these registers. With `without_own` those of this
/// library are left out, unless it is a part of the program.
pub(crate) fn walk(mut registers: Registers, without_own: bool) -> [usize; DEPTH] {
    let (mut memory, mut images) = (Memory::default(), Images::default());
    let mut found = [0; DEPTH];
    let mut count = 0;
    // The place of the first instruction; of the callers' the place that they go on from, and the
    // instruction that called ends there.
    let mut address = registers.pc;
    for _ in 0..MOST {
        let image = images.containing(address);
        let is_own = |it: &Image| !it.is_program && it.range().contains(&own_code());
        // The first place is in this file in any case.
        let own = || address == registers.pc || image.as_ref().is_some_and(is_own);
        if !(without_own && count == 0 && own()) {
            found[count] = address;
            count += 1;
            if count == DEPTH {
                break;
            }
        }
        let before = registers.stack_pointer();
        let caller = match image.and_then(|image| Frame::of(&image, address)) {
            Some(frame) => frame.caller(address, &registers, &mut memory),
            None => by_frame_pointer(&registers, &mut memory),
        };
        let Some(caller) = caller else { break };
        // The stack only grows one way; a caller at the same place called nobody.
        let stands = caller.stack_pointer() == before && caller.pc == registers.pc;
        if caller.stack_pointer() < before || stands || caller.pc < 2 {
            break;
        }
        registers = caller;
        address = registers.pc - 1;
    }
    found
}

/// An address in this library's code.
fn own_code() -> usize {
    walk as fn(Registers, bool) -> [usize; DEPTH] as usize
}

/// The caller by the frame pointer, if that points into the stack.
fn by_frame_pointer(registers: &Registers, memory: &mut Memory) -> Option<Registers> {
    const WORD: usize = size_of::<usize>();
    let frame = registers.frame_pointer();
    if frame < registers.stack_pointer() {
        return None;
    }
    let mut caller = *registers;
    caller.set_frame_pointer(memory.word(frame)?);
    caller.pc = memory.word(frame.checked_add(WORD)?)?;
    caller.set_stack_pointer(frame + 2 * WORD);
    Some(caller)
}
