//! Sizes by powers of two, from 16 bytes to 64 KiB, as libmtmalloc had them. What is larger is
//! oversize.

/// How many there are.
pub(crate) const CLASSES: usize = 13;

const SMALLEST: usize = 16;

/// The class of the smallest blocks that have room for `size` bytes; `None` for what is oversize.
pub(crate) fn of(size: usize) -> Option<usize> {
    let class = size.max(SMALLEST).checked_next_power_of_two()?.trailing_zeros() as usize;
    Some(class - SMALLEST.trailing_zeros() as usize).filter(|class| *class < CLASSES)
}

/// The size of a class's blocks.
pub(crate) fn bytes(class: usize) -> usize {
    SMALLEST << class
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_has_the_class_of_the_next_power_of_two() {
        for size in [0, 1, 16, 17, 512, 513, 65_535, 65_536] {
            let class = of(size).expect("not oversize");
            assert!(bytes(class) >= size && (class == 0 || bytes(class - 1) < size), "{size}");
        }
        assert_eq!(of(65_537), None);
        assert_eq!(of(usize::MAX), None);
    }
}
