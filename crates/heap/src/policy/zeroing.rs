//! How memory that was used before is made zero: by writing to it, or by giving it back.
//!
//! Memory that the system takes back is zero when it is touched again, and as long as it is not it
//! costs nothing. But each page that the program writes to then costs a page fault, ten to twenty
//! times as much as clearing a page. So it is worth it for a program that writes to little of what
//! it asks to be zero, a large table for instance, and only for such a one. Nor is it worth it for
//! a program that asks for much that is too small to be given back: that is written to, and would
//! find the pages gone that were given back for the large, unless these are much larger.

/// From this size on memory is given back, if that is worth it: for less, the call costs as much as
/// clearing.
pub const LARGE: usize = 128 << 10;
/// From this size on memory is given back whatever else is asked for: a large table is not to
/// become resident as a whole because of small ones.
pub const HUGE: usize = 8 * LARGE;
/// All of the memory that was asked to be zero, as a share.
const ALL: u32 = 256;
/// A look at one page counts for this part of what is known.
const LOOKS: u32 = 8;
/// Worth giving back is memory of which less than this is written to. By time alone it would be
/// half of that; but what is not touched is not resident either.
const LITTLE: u32 = ALL / 8;

/// Memory that is too small to be given back may be this part of what is large enough.
const SMALL: u32 = 10;
/// Bytes that count as one.
const COUNTED: usize = 4 << 10;
/// Numbers are halved when there are so many, so that they tell of the last memory only.
const MOST: u32 = 64 << 10;

/// How much memory was asked to be zero that is too small to be given back, and how much that is
/// large enough.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Asked {
    /// Too small.
    pub small: u32,
    /// Large enough.
    pub large: u32,
}

impl Asked {
    /// The same after another request.
    #[must_use]
    pub fn and(self, bytes: usize) -> Self {
        let more = (bytes / COUNTED).min(MOST as usize) as u32;
        let Self { mut small, mut large } = self;
        *(if bytes < LARGE { &mut small } else { &mut large }) += more;
        if small + large > MOST {
            (small, large) = (small / 2, large / 2);
        }
        Self { small, large }
    }

    /// Whether next to all of it is large enough.
    pub fn is_large(self) -> bool {
        self.small * SMALL <= self.large
    }
}

/// Whether a program that writes to such a share of what it asks to be zero writes to little.
pub fn is_little(written: u32) -> bool {
    written < LITTLE
}

/// The share after one more page was looked at, which had been written to or not.
pub fn learned(written: u32, is_written: bool) -> u32 {
    let more = if is_written { ALL / LOOKS } else { 0 };
    written - written / LOOKS + more
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(looks: u32, written: u32, is_written: impl Fn(u32) -> bool) -> u32 {
        (0..looks).fold(written, |written, n| learned(written, is_written(n)))
    }

    #[test]
    fn one_page_that_was_written_to_is_enough_to_doubt_and_two_in_a_row_to_be_sure_for_a_while() {
        assert!(is_little(0));
        assert!(!is_little(learned(0, true)));
        assert!(is_little(after(1, learned(0, true), |_| false)));
        assert!(!is_little(after(4, after(2, 0, |_| true), |_| false)));
    }

    #[test]
    fn a_program_that_asks_for_much_that_is_too_small_is_told_from_one_that_does_not() {
        let sizes_up_to = |most: usize| {
            let sizes = (0..10_000_usize).map(|n| n.wrapping_mul(0x9E37_79B9) % most);
            sizes.filter(|&size| size >= 32 << 10).fold(Asked::default(), Asked::and)
        };
        assert!(Asked::default().is_large() && Asked::default().and(LARGE).is_large());
        assert!(!sizes_up_to(LARGE).is_large() && !sizes_up_to(2 * LARGE).is_large());
        assert!(sizes_up_to(6 * LARGE).is_large() && sizes_up_to(64 * LARGE).is_large());
        // What was long ago does not count.
        let other = (0..1000).fold(sizes_up_to(LARGE), |asked, _| asked.and(1 << 20));
        assert!(other.is_large() && other.and(usize::MAX).is_large());
    }

    #[test]
    fn a_share_never_exceeds_all_and_is_forgotten_within_twenty_looks() {
        let all = after(1000, 0, |_| true);
        assert!((ALL - LOOKS..=ALL + LOOKS).contains(&all), "{all}");
        assert!(!is_little(after(10, all, |_| false)));
        assert!(is_little(after(20, all, |_| false)));
    }

    #[test]
    fn a_program_that_writes_to_every_twentieth_page_is_told_from_one_that_writes_to_every_third() {
        let little = |every: u32| {
            let shares = (1..1000).scan(0, |share, n| {
                *share = learned(*share, n % every == 0);
                Some(*share)
            });
            shares.filter(|&share| is_little(share)).count()
        };
        assert!(little(20) > 900 && little(3) < 10, "{} and {}", little(20), little(3));
    }
}
