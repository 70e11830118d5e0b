//! Performance events of the kernel: `event` asks for them, `ring` takes them, `record` reads them,
//! and `session` has them of all threads of a process. All that is asked for is open to every user
//! where `kernel.perf_event_paranoid` is 2 or less, since it concerns user mode alone.

mod event;
pub(crate) mod record;
mod ring;
mod session;

pub(crate) use session::{Kind, Passing, Session};
