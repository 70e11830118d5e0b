//! Performance events of the kernel: `event` asks for them, `ring` takes them, `record` reads them,
//! and `session` has them of all threads of a process. All that those ask for is open to every user
//! where `kernel.perf_event_paranoid` is 2 or less, since it concerns user mode alone; `tracepoint`
//! counts what only root may.

mod event;
pub(crate) mod record;
mod ring;
mod session;
pub(crate) mod tracepoint;

pub(crate) use session::{Kind, Passing, Session};
