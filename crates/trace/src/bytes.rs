//! Numbers in bytes: fixed fields in little-endian order, and short numbers in few bytes.

/// The four bytes at `at`.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let field = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*field))
}

/// The eight bytes at `at`.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let field = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_le_bytes(*field))
}

/// The most bytes of a number in groups of seven bits.
pub(crate) const LONGEST_GROUPED: usize = 10;

/// Writes a number in groups of seven bits, the lowest first, the top bit of each byte but the
/// last set. Returns the bytes, the first of them the lowest, and how many they are.
#[inline]
pub(crate) fn grouped(mut value: u64) -> (u128, usize) {
    let mut bytes = u128::from(value & 0x7f);
    let mut used = 1;
    while value > 0x7f {
        value >>= 7;
        bytes |= (0x80 | u128::from(value & 0x7f) << 8) << (8 * (used - 1));
        used += 1;
    }
    (bytes, used)
}

/// Reads a number in groups of seven bits; returns it and how many bytes it took.
pub(crate) fn read_grouped(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    for (index, byte) in bytes.iter().take(LONGEST_GROUPED).enumerate() {
        let group = u64::from(byte & 0x7f);
        let shift = 7 * index as u32;
        // The last group of the longest has room for one bit.
        if shift == 63 && group > 1 {
            return None;
        }
        value |= group << shift;
        if byte & 0x80 == 0 {
            return Some((value, index + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grouped_number_comes_back_in_the_bytes_it_took() {
        for value in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let (bytes, used) = grouped(value);
            let bytes = bytes.to_le_bytes();
            assert!(bytes[used..].iter().all(|&byte| byte == 0));
            assert_eq!(read_grouped(&bytes[..used]), Some((value, used)));
            assert_eq!(read_grouped(&bytes[..used - 1]), None, "{value} was cut");
        }
    }

    #[test]
    fn a_number_that_does_not_end_is_none() {
        assert_eq!(read_grouped(&[0xff; 12]), None);
        assert_eq!(read_grouped(&[]), None);
    }

    #[test]
    fn fields_beyond_the_end_are_none() {
        let bytes = [1, 0, 0, 0, 2, 0, 0, 0, 0];
        assert_eq!(u32_at(&bytes, 4), Some(2));
        assert_eq!(u64_at(&bytes, 0), Some(1 | 2 << 32));
        assert_eq!(u32_at(&bytes, 6), None);
        assert_eq!(u64_at(&bytes, 100), None);
    }
}
