//! The same against itself: two copies of one library. A difference may be claimed in one of
//! twenty comparisons at most.

use super::bench::{Bench, list, measure};

/// The measures of which differences are claimed.
const CLAIMED: [&str; 2] = ["wall", "rss.peak"];

pub(super) fn findings(bench: &Bench, count: u32) -> Result<Vec<String>, String> {
    let [first, second] = ["libfirst.so", "libsecond.so"].map(|name| bench.copy_of_freehold(name));
    let both = list(&first?, &second?);
    let mut claims = [0; CLAIMED.len()];
    let mut widths = Vec::new();
    for seed in 1..=count {
        let seed = seed.to_string();
        let found = bench.compare(&["-a", &both, "--seed", &seed, "--", &bench.work])?;
        for (claims, name) in claims.iter_mut().zip(CLAIMED) {
            let finding = measure(&found, 1, name)["finding"].as_str().unwrap_or_default();
            *claims += u32::from(["faster", "slower", "less", "more"].contains(&finding));
        }
        widths.extend(measure(&found, 1, "wall")["detectable"].as_f64());
    }
    widths.sort_unstable_by(f64::total_cmp);
    let typical = widths.get(widths.len() / 2).copied().unwrap_or(f64::NAN) * 100.0;
    println!(
        "same: of {count} comparisons of an allocator with itself (10 rounds), {} claim a \
         difference of time and {} of peak memory; typically {typical:.1} % could have been seen",
        claims[0], claims[1],
    );
    let most = count / 20;
    let too_many = claims.iter().zip(CLAIMED).filter(|(claims, _)| **claims > most);
    Ok(too_many
        .map(|(claims, name)| format!("same: {claims} of {count} claim a difference of {name}"))
        .collect())
}
