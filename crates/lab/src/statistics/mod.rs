//! Numbers about numbers. Pure functions: they must not know what was measured, or by whom.
//!
//! What is compared here was measured in rounds: within a round every candidate ran once, in
//! random order. So the ratio of two runs of a round is free of whatever changed between rounds,
//! and if the candidates are the same, each of the two is the faster one by the toss of a coin.
//! The interval of [`paired_ratio`] rests on that alone, and so holds for any shape of noise.
//!
//! - `median`: medians, spreads, and how far a median can be trusted
//! - `paired`: ratios within rounds, `unpaired`: ratios of runs made at different times
//! - `rank`: the two distributions that their intervals are read from
//! - `bootstrap`: resampling, seeded
//! - `cases`: a mean over several cases
//! - `finding`: what an interval allows to be said
//! - `stopping`: measuring until it is enough, without finding what is not there
//! - `suspicion`: signs that the noise is not just noise

mod bootstrap;
mod cases;
mod finding;
mod median;
mod normal;
mod paired;
mod rank;
#[cfg(test)]
mod simulations;
mod stopping;
mod suspicion;
mod unpaired;

pub use cases::geometric_mean;
pub use finding::{detectable, judge, rounds_needed};
pub use median::{median, median_interval, spread};
pub use paired::{fewest_pairs, paired_ratio, pseudo_median, pseudo_median_bootstrap};
pub use stopping::{Looks, is_within};
pub use suspicion::{Drift, TwoGroups, drift, two_groups};
pub use unpaired::{fewest_each, unpaired_ratio};

/// The confidence level of intervals where nothing else is said.
pub const LEVEL: f64 = 0.95;

/// The level at which a difference is claimed. A page of results holds many comparisons: at 95 %
/// one in twenty of them would be wrong, which is one on every other page.
pub const CLAIM_LEVEL: f64 = 0.99;
