//! Traces: files into which a recorder has written the allocation calls of a command. They are
//! made, sealed when the command has ended, and read: record by record in an order in which the
//! calls can have happened, with the object that each is about.

mod ahead;
mod create;
mod error;
mod merge;
mod objects;
mod open;
mod seal;
mod sizes;
#[cfg(test)]
mod testing;
mod totals;

pub use create::{Draft, LEAST_LIMIT};
pub use error::{Damage, TraceError};
pub use freehold_trace::file::VARIABLE;
pub(crate) use objects::ByNumber;
pub use objects::{Event, Object, Step, Walk};
pub use open::{Process, Tolerance, Trace};
pub use sizes::{Linear, sizes};
pub use totals::{busiest, recording, totals};
