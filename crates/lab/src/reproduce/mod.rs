//! The field's published tables and figures: what was measured for each, how that is scaled to a
//! machine, what the original says, and which claims were made of it.
//!
//! An experiment is data and pure functions: it plans runs, and judges what they gave. `perform`
//! makes the runs. Nothing here knows how a result is shown.
//!
//! - [`plan`]: what is run, and how an experiment is described
//! - `evidence`: what the runs gave, and panels of it
//! - `claims`, `standing`: from numbers to verdicts
//! - `oracle`, `lockless`, `hoard`, `gove`, `tcl`: the publications

mod claims;
mod evidence;
mod gove;
mod hoard;
#[cfg(test)]
mod invented;
mod lockless;
mod oracle;
mod perform;
pub mod plan;
mod standing;
mod tcl;

pub use evidence::Evidence;
pub use perform::{Observer, Watcher, perform, steps};
pub use plan::{Experiment, Plan, Scale};

/// Every experiment, in the order in which they are listed.
pub fn all() -> impl Iterator<Item = &'static Experiment> {
    let others = [lockless::EXPERIMENTS.as_slice(), &hoard::EXPERIMENTS, &gove::EXPERIMENTS];
    oracle::EXPERIMENTS.iter().chain(others.into_iter().flatten()).chain(&tcl::EXPERIMENTS).copied()
}

/// The experiment of this name.
pub fn find(name: &str) -> Option<&'static Experiment> {
    all().find(|experiment| experiment.name == name)
}
