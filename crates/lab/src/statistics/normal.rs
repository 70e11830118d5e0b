//! The normal distribution, where counts are too large for exact tables.

/// The chance of a value above `z`.
pub(super) fn upper_tail(z: f64) -> f64 {
    if z < 0.0 {
        return 1.0 - upper_tail(-z);
    }
    // A rational approximation of the complementary error function, good to seven digits.
    let t = 1.0 / (1.0 + 0.327_591_1 * z / std::f64::consts::SQRT_2);
    let series = t
        * (0.254_829_592
            + t * (-0.284_496_736
                + t * (1.421_413_741 + t * (-1.453_152_027 + t * 1.061_405_429))));
    0.5 * series * (-z * z / 2.0).exp()
}

/// The value that is exceeded with this chance.
pub(super) fn quantile(chance: f64) -> f64 {
    let (mut low, mut high) = (-8.0, 8.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if upper_tail(middle) > chance { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (chance, z) in [(0.025, 1.959_964), (0.005, 2.575_829), (0.5, 0.0), (0.000_5, 3.290_5)]
        {
            assert!((quantile(chance) - z).abs() < 1e-4, "{chance}: {}", quantile(chance));
        }
        assert!((upper_tail(-1.0) - 0.841_345).abs() < 1e-5);
    }
}
