//! Numbers that nobody can guess. Sources: `getrandom(2)`, `getauxval(3)`.

use crate::process::File;
use crate::syscall::{self, failed, number};

/// Do not wait until the kernel has gathered enough, early in the life of a machine.
const GRND_NONBLOCK: usize = 1;

/// Fills `words` from the kernel's generator. Where it refuses, they are what the kernel reads from
/// its device, or else made of where this process happens to lie in memory.
pub fn words<const N: usize>() -> [u64; N] {
    let mut found = [0_u64; N];
    let bytes = size_of_val(&found);
    let arguments = [found.as_mut_ptr() as usize, bytes, GRND_NONBLOCK, 0, 0, 0];
    // SAFETY: the kernel writes at most as many bytes as there are.
    let got = unsafe { syscall::call(number::GETRANDOM, arguments) };
    if !failed(got) && got as usize == bytes {
        return found;
    }
    // SAFETY: words may be viewed and written as bytes; the view ends with this block.
    let view = unsafe { core::slice::from_raw_parts_mut(found.as_mut_ptr().cast::<u8>(), bytes) };
    let read = File::open(c"/dev/urandom").map_or(0, |file| file.read(view));
    if read < bytes {
        let (stack, code) = (&raw const found as u64, words as fn() -> [u64; N] as usize as u64);
        for (i, word) in found.iter_mut().enumerate() {
            *word ^=
                (stack.rotate_left(32) ^ code).wrapping_mul(0x9e37_79b9_7f4a_7c15 + 2 * i as u64);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_words_are_the_same() {
        let (a, b) = (words::<4>(), words::<4>());
        for (i, word) in a.iter().enumerate() {
            assert!(!a[..i].contains(word) && !b.contains(word));
        }
    }
}
