//! Histograms of bars, in the form of `DTrace`'s `quantize` and `lquantize`. It must not know what
//! is counted.

use std::fmt::Write as _;

use freehold_model::{Bin, LinearHistogram};

/// The length of a bar that stands for everything.
const BAR: usize = 40;

/// A histogram by powers of two. Rows without a value are shown between those with one, and one
/// more at either end.
pub(crate) fn powers_of_two(bins: &[Bin]) -> String {
    let (Some(first), Some(last)) = (bins.first(), bins.last()) else {
        return rows(&[]);
    };
    let below = |least: u64| least / 2;
    let above = |least: u64| if least == 0 { Some(1) } else { least.checked_mul(2) };
    let mut shown = Vec::new();
    if first.least > 0 {
        shown.push((below(first.least), 0));
    }
    let mut least = Some(first.least);
    while let Some(value) = least.filter(|&value| value <= last.least) {
        let found = bins.iter().find(|bin| bin.least == value);
        shown.push((value, found.map_or(0, |bin| bin.count)));
        least = above(value);
    }
    shown.extend(least.map(|value| (value, 0)));
    let shown: Vec<_> = shown.iter().map(|(value, count)| (value.to_string(), *count)).collect();
    rows(&shown)
}

/// A histogram in steps. Only rows from the first with a value to the last are shown, and one more
/// at either end.
pub(crate) fn linear(histogram: &LinearHistogram) -> String {
    let LinearHistogram { lower, upper, step, below, bins, above } = histogram;
    let mut all = vec![(format!("< {lower}"), *below)];
    let values = (0..).map(|index| lower + index * step);
    all.extend(values.zip(bins).map(|(value, &count)| (value.to_string(), count)));
    all.push((format!(">= {upper}"), *above));
    let is_used = |(_, count): &(String, u64)| *count > 0;
    let (Some(first), Some(last)) = (all.iter().position(is_used), all.iter().rposition(is_used))
    else {
        return rows(&[]);
    };
    rows(&all[first.saturating_sub(1)..(last + 2).min(all.len())])
}

fn rows(rows: &[(String, u64)]) -> String {
    let total: u64 = rows.iter().map(|(_, count)| count).sum();
    let head = "------------- Distribution -------------";
    let mut text = format!("{:>16}  {head} count\n", "value");
    for (value, count) in rows {
        let share = *count as f64 / total.max(1) as f64;
        let bar = "@".repeat((share * BAR as f64).round() as usize);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{value:>16} |{bar:<BAR$} {count}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two_are_shown_as_dtrace_shows_them() {
        let bins = [Bin { least: 16, count: 30 }, Bin { least: 64, count: 10 }];
        assert_eq!(
            powers_of_two(&bins),
            "           value  ------------- Distribution ------------- count
               8 |                                         0
              16 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@           30
              32 |                                         0
              64 |@@@@@@@@@@                               10
             128 |                                         0
"
        );
    }

    #[test]
    fn a_histogram_from_nothing_to_everything_is_shown() {
        let bins = [Bin { least: 0, count: 1 }, Bin { least: 1 << 63, count: 1 }];
        let text = powers_of_two(&bins);
        assert_eq!(text.lines().count(), 1 + 65);
        assert!(text.lines().nth(1).is_some_and(|row| row.trim_start().starts_with("0 |@@@@")));
        assert_eq!(powers_of_two(&[]).lines().count(), 1);
    }

    #[test]
    fn steps_are_shown_as_dtrace_shows_them() {
        let histogram = LinearHistogram {
            lower: 0,
            upper: 4096,
            step: 1024,
            below: 0,
            bins: vec![0, 1, 0, 0],
            above: 3,
        };
        assert_eq!(
            linear(&histogram),
            "           value  ------------- Distribution ------------- count
               0 |                                         0
            1024 |@@@@@@@@@@                               1
            2048 |                                         0
            3072 |                                         0
         >= 4096 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@           3
"
        );
    }
}
