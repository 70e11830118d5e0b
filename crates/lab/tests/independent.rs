//! The statistics beside those of `SciPy`, computed from the same numbers by its own definitions.
//! Skipped, with a word on standard error, where no Python has `SciPy`.

use std::io::Write as _;
use std::process::{Command, Stdio};

use freehold_lab::statistics::{
    CLAIM_LEVEL, LEVEL, median, paired_ratio, pseudo_median, pseudo_median_bootstrap,
    unpaired_ratio,
};

/// What `SciPy` makes of two lines of numbers.
const SCRIPT: &str = r#"
import sys, warnings
import numpy as np
from scipy import stats
warnings.simplefilter("ignore")

def middle(values):
    values = np.asarray(values)
    return np.median([(a + b) / 2 for i, a in enumerate(values) for b in values[i:]])

def accepted(candidates, pvalue, alpha):
    """The hull of all shifts that a test does not reject, tried between the candidates."""
    candidates = np.sort(candidates)
    between = (candidates[1:] + candidates[:-1]) / 2
    kept = [i for i, shift in enumerate(between) if pvalue(shift) > alpha]
    return candidates[kept[0]], candidates[kept[-1] + 1]

lines = [np.array([float(word) for word in line.split()]) for line in sys.stdin]
logs = np.log(lines[0])
pairs = [(a + b) / 2 for i, a in enumerate(logs) for b in logs[i:]]
print(np.median(lines[0]), middle(logs))
for level in (0.95, 0.99):
    signed = lambda shift: stats.wilcoxon(logs - shift, mode="exact").pvalue
    print(*np.exp(accepted(pairs, signed, 1 - level)))
    drawn = stats.bootstrap((logs,), middle, confidence_level=level, n_resamples=2000,
                            method="percentile", vectorized=False, random_state=1)
    print(*drawn.confidence_interval)
after = lines[1]
differences = [np.log(b) - np.log(a) for a in lines[0] for b in after]
ranked = lambda shift: stats.mannwhitneyu(
    np.log(after) - shift, logs, alternative="two-sided", method="exact").pvalue
print(np.exp(np.median(differences)), *np.exp(accepted(differences, ranked, 0.01)))
"#;

/// Runs the script; `None`, said on standard error, without `SciPy`.
fn scipy(lines: &[&[f64]]) -> Option<Vec<f64>> {
    let has_scipy = |python: &&str| {
        let tried = Command::new(python).args(["-c", "import scipy.stats"]).output();
        tried.is_ok_and(|output| output.status.success())
    };
    let Some(python) = ["python3", "/usr/bin/python3"].into_iter().find(has_scipy) else {
        let must_run = std::env::var_os("FREEHOLD_REQUIRE_TOOLS").is_some();
        assert!(!must_run, "FREEHOLD_REQUIRE_TOOLS is set, but no Python has SciPy");
        eprintln!("skipped: no Python has SciPy (Debian: python3-scipy)");
        return None;
    };
    let mut child = Command::new(python)
        .args(["-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it was there a moment ago");
    let mut input = child.stdin.take().expect("piped");
    for numbers in lines {
        let words: Vec<String> = numbers.iter().map(f64::to_string).collect();
        writeln!(input, "{}", words.join(" ")).expect("it reads");
    }
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("numbers");
    Some(text.split_whitespace().map(|word| word.parse().expect("a number")).collect())
}

#[track_caller]
fn close(own: f64, other: f64, tolerance: f64) {
    assert!((own - other).abs() <= tolerance, "{own}, where SciPy says {other}");
}

/// Ratios of ten rounds, some of them disturbed.
const RATIOS: [f64; 10] = [1.021, 1.043, 0.987, 1.012, 1.033, 1.055, 1.19, 1.027, 1.018, 0.951];

/// The same, a month later.
const LATER: [f64; 9] = [1.08, 1.12, 1.095, 1.031, 1.24, 1.077, 1.101, 1.062, 1.09];

#[test]
fn medians_intervals_and_bootstraps_are_those_of_scipy() {
    let Some(numbers) = scipy(&[&RATIOS, &LATER]) else { return };
    let logs = RATIOS.map(f64::ln);
    let mut numbers = numbers.into_iter();
    let mut next = || numbers.next().expect("a number for each");
    close(median(&RATIOS).expect("ratios"), next(), 1e-12);
    close(pseudo_median(&logs).expect("ratios"), next(), 1e-12);
    for level in [LEVEL, CLAIM_LEVEL] {
        let exact = (next(), next());
        let drawn = (next(), next());
        let own = pseudo_median_bootstrap(&logs, level).expect("ratios");
        // Both draw at random: the ends agree as far as 2,000 resamples let them.
        let tolerance = 0.2 * (drawn.1 - drawn.0);
        close(own.0, drawn.0, tolerance);
        close(own.1, drawn.1, tolerance);
        let interval = paired_ratio(&RATIOS, level).expect("ratios");
        close(interval.low, exact.0.min(own.0.exp()), 1e-9);
        close(interval.high, exact.1.max(own.1.exp()), 1e-9);
    }
    let unpaired = unpaired_ratio(&RATIOS, &LATER, CLAIM_LEVEL).expect("ratios");
    close(unpaired.estimate, next(), 1e-9);
    close(unpaired.low, next(), 1e-9);
    close(unpaired.high, next(), 1e-9);
}
