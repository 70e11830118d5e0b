//! Making recorded calls again: planning what each thread is to do, running that under allocators,
//! and what the runs amount to.

mod cost;
mod plan;
mod run;
mod script;
mod summary;

pub use cost::{Pair, cost};
pub use plan::{Planned, Skipped};
pub use run::{Job, Replayer, rounds};
pub use script::write;
pub use summary::summarise;
