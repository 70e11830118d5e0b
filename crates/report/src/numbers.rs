//! Numbers as people read them. It must not know which numbers they are.

use freehold_model::Interval;

const MIB: f64 = 1_048_576.0;

/// A rate with three digits or more: large ones whole and grouped, small ones with decimals.
pub(crate) fn rate(value: f64) -> String {
    if value >= 99.95 {
        grouped(value.round() as u64)
    } else if value >= 9.995 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

/// Digits in groups of three.
pub(crate) fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes in MiB, with a decimal where it matters.
pub(crate) fn mib(bytes: f64) -> String {
    let value = bytes / MIB;
    if value >= 99.95 { grouped(value.round() as u64) } else { format!("{value:.1}") }
}

/// A part as a whole percentage.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// What stands in brackets behind ratios whose intervals have these levels; nothing where none has
/// an interval.
pub(crate) fn intervals(levels: impl IntoIterator<Item = f64>) -> Option<String> {
    let levels: Vec<f64> = levels.into_iter().filter(|level| *level > 0.0).collect();
    let least = levels.iter().copied().min_by(f64::total_cmp)?;
    let most = levels.iter().copied().max_by(f64::total_cmp)?;
    // Rounded down: an interval holds the true value as often as it says, or more often.
    let shown = |level: f64| (level * 100.0 + 1e-9).floor();
    let (least, most) = (shown(least), shown(most));
    Some(if least < most {
        format!("intervals of {least} to {most} %, the less the fewer rounds there are")
    } else {
        format!("the {most} % interval")
    })
}

/// A ratio with what is known of its accuracy.
pub(crate) fn ratio(interval: &Interval) -> String {
    let Interval { estimate, low, high, level } = interval;
    if *level > 0.0 {
        format!("{estimate:.2}x ({low:.2} to {high:.2})")
    } else {
        format!("{estimate:.2}x")
    }
}

/// A ratio as a change, with its interval where there is one.
pub(crate) fn change(interval: &Interval) -> String {
    let Interval { estimate, low, high, level } = *interval;
    if level > 0.0 {
        format!("{} % ({} to {})", signed(estimate), signed(low), signed(high))
    } else {
        format!("{} %", signed(estimate))
    }
}

/// A ratio as a signed percentage: 1.05 is +5.0.
fn signed(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    let sign = if percent > -0.05 { "+" } else { "-" };
    format!("{sign}{:.1}", percent.abs())
}

/// A time in a unit that suits it.
pub(crate) fn time(seconds: f64) -> String {
    if seconds >= 9.995 {
        format!("{seconds:.1} s")
    } else if seconds >= 0.9995 {
        format!("{seconds:.3} s")
    } else {
        format!("{:.1} ms", seconds * 1000.0)
    }
}

/// Seconds without needless zeros.
pub(crate) fn seconds(value: f64) -> String {
    format!("{value} s")
}

/// A time with the unit that suits it.
pub(crate) fn duration(seconds: f64) -> String {
    match seconds {
        _ if seconds >= 1.0 => format!("{seconds:.2} s"),
        _ if seconds >= 1e-3 => format!("{:.1} ms", seconds * 1e3),
        _ => format!("{:.0} µs", seconds * 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_keep_three_digits_at_least() {
        assert_eq!(rate(1_234_567.8), "1,234,568");
        assert_eq!(rate(123.4), "123");
        assert_eq!(rate(99.96), "100");
        assert_eq!(rate(12.34), "12.3");
        assert_eq!(rate(1.234), "1.23");
        assert_eq!(rate(0.0), "0.00");
    }

    #[test]
    fn digits_are_grouped_from_the_right() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1000), "1,000");
        assert_eq!(grouped(12_345_678), "12,345,678");
    }

    #[test]
    fn a_change_is_signed_and_never_minus_nothing() {
        let interval = Interval { estimate: 0.95, low: 0.9, high: 0.9999, level: 0.99 };
        assert_eq!(change(&interval), "-5.0 % (-10.0 to +0.0)");
        assert_eq!(change(&Interval { level: 0.0, ..interval }), "-5.0 %");
    }

    #[test]
    fn times_are_in_a_unit_that_suits_them() {
        assert_eq!(time(0.01234), "12.3 ms");
        assert_eq!(time(1.2345), "1.234 s");
        assert_eq!(time(12.345), "12.3 s");
    }

    #[test]
    fn memory_and_shares() {
        assert_eq!(mib(1_048_576.0), "1.0");
        assert_eq!(mib(1_048_576.0 * 1048.2), "1,048");
        assert_eq!(percent(0.126), "13 %");
        assert_eq!(seconds(0.35), "0.35 s");
        assert_eq!(seconds(1.0), "1 s");
    }

    #[test]
    fn a_ratio_shows_its_interval_only_when_there_is_one() {
        let mut interval = Interval { estimate: 1.5, low: 1.25, high: 2.0, level: 0.95 };
        assert_eq!(ratio(&interval), "1.50x (1.25 to 2.00)");
        interval.level = 0.0;
        assert_eq!(ratio(&interval), "1.50x");
    }

    #[test]
    fn intervals_are_called_what_they_are() {
        assert_eq!(intervals([0.0]), None);
        assert_eq!(intervals([0.75, 0.0]).as_deref(), Some("the 75 % interval"));
        assert_eq!(intervals([0.9986, 0.99]).as_deref(), Some("the 99 % interval"));
        let both = intervals([0.95, 0.5]).expect("two levels");
        assert!(both.starts_with("intervals of 50 to 95 %"), "{both}");
    }

    #[test]
    fn durations_have_the_unit_that_suits_them() {
        assert_eq!(duration(2.5), "2.50 s");
        assert_eq!(duration(0.0025), "2.5 ms");
        assert_eq!(duration(0.000_002_5), "2 µs");
    }
}
