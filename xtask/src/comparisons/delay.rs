//! An allocator that is slower by five percent: a library that waits in each malloc for as long as
//! makes the program take that much longer. It is to be found in 95 % of the comparisons whose
//! interval says that it could be.

use super::bench::{Bench, list, measure};
use serde_json::Value;

/// The slowdown.
const SLOWDOWN: f64 = 0.05;

/// Turns of the loop with which its speed is measured: enough to be the larger part of the time.
const CALIBRATION: u32 = 500;

pub(super) fn findings(bench: &Bench, count: u32) -> Result<Vec<String>, String> {
    let plain = bench.library("libplain.so", 0)?;
    let delay = calibrated(bench, &plain)?;
    let delayed = bench.library("libdelayed.so", delay)?;
    let both = list(&plain, &delayed);
    let (mut able, mut found, mut ratios) = (0_u32, 0_u32, Vec::new());
    for seed in 1..=count {
        let seed = seed.to_string();
        let until = ["--until", "2%", "--repeat", "60", "--reference", "plain"];
        let ran = [&until[..], &["-a", &both, "--seed", &seed, "--", &bench.work]].concat();
        let compared = bench.compare(&ran)?;
        let wall = measure(&compared, 1, "wall");
        ratios.extend(wall["ratio"]["estimate"].as_f64());
        if wall["detectable"].as_f64().is_some_and(|detectable| detectable <= SLOWDOWN) {
            able += 1;
            found += u32::from(wall["finding"] == "slower");
        }
    }
    ratios.sort_unstable_by(f64::total_cmp);
    let typical = ratios.get(ratios.len() / 2).map_or(f64::NAN, |ratio| (ratio - 1.0) * 100.0);
    println!(
        "delay: of {count} comparisons with an allocator slowed down by 5 % (--until 2%, at most \
         60 rounds; typically {typical:+.1} % measured), {able} could see it, and {found} of them \
         do"
    );
    if f64::from(found) >= 0.95 * f64::from(able) && able > 0 {
        Ok(Vec::new())
    } else {
        Ok(vec![format!("delay: found in {found} of {able} comparisons that could see it")])
    }
}

/// Turns of the loop that make the program slower by as much as is wanted.
fn calibrated(bench: &Bench, plain: &str) -> Result<u32, String> {
    let slow = bench.library("libslow.so", CALIBRATION)?;
    let both = list(plain, &slow);
    let ran = ["--repeat", "20", "--reference", "plain", "-a", &both, "--", &bench.work];
    let compared = bench.compare(&ran)?;
    let ratio = &measure(&compared, 1, "wall")["ratio"]["estimate"];
    let slowdown = ratio.as_f64().ok_or_else(|| cannot(&compared))? - 1.0;
    Ok((f64::from(CALIBRATION) * SLOWDOWN / slowdown).round() as u32)
}

fn cannot(compared: &Value) -> String {
    format!("delay: cannot be calibrated: {}", compared["warnings"])
}
