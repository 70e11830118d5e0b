//! Finding out whether an allocator is live in a command while the command runs. It must not know
//! how a verdict is shown.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use freehold_model::Verdict;

use crate::launch::Suspect;

/// Who finds out whether the allocator is live.
#[derive(Debug)]
pub enum Witness {
    /// It is known already.
    Certain(Verdict),
    /// A thread is watching.
    Watching {
        /// Tells the thread that the command has ended.
        over: Arc<AtomicBool>,
        /// The thread.
        thread: JoinHandle<Verdict>,
    },
}

impl Witness {
    /// Finds out at once where that is possible, and begins to watch where it is not. `tell` is
    /// told the verdict as soon as there is one. An `obstacle` is a verdict in itself.
    pub fn start(
        suspect: Suspect,
        obstacle: Option<String>,
        tell: impl FnOnce(&Verdict) + Send + 'static,
    ) -> io::Result<Self> {
        let known = obstacle.map(|reason| Verdict::NotLive { reason });
        if let Some(verdict) = known.or_else(|| suspect.glance()) {
            tell(&verdict);
            return Ok(Self::Certain(verdict));
        }
        let over = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&over);
        let builder = thread::Builder::new().name("witness".to_owned());
        let thread = builder.spawn(move || {
            let verdict = suspect.watch(&ended);
            tell(&verdict);
            verdict
        })?;
        Ok(Self::Watching { over, thread })
    }

    /// The verdict, once the command has ended.
    pub fn conclude(self) -> Verdict {
        match self {
            Self::Certain(verdict) => verdict,
            Self::Watching { over, thread } => {
                // Release pairs with the acquire of the watching thread: it looks no more.
                over.store(true, Ordering::Release);
                thread.thread().unpark();
                let broken = |_| Verdict::NotLive { reason: "nobody could watch it".to_owned() };
                thread.join().unwrap_or_else(broken)
            }
        }
    }
}
