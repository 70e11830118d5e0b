//! Seeds of random numbers: from `FREEHOLD_SEED`, which repeats a run, or else from the clock.

use std::env;
use std::time::{SystemTime, UNIX_EPOCH};

use super::tools;

/// A seed, which is said.
pub(crate) fn any() -> u64 {
    let given = env::var("FREEHOLD_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.as_secs() ^ u64::from(now.subsec_nanos())
    });
    tools::say(&format!("FREEHOLD_SEED={seed}"));
    seed
}
