//! Interrupts while a benchmark runs: the first ends it after the current run, the second at
//! once. It must not know what is being run.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use freehold_lab::bench::Stop;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Begins to listen; `on_first` is told about the first interrupt.
pub(crate) fn listen(on_first: impl Fn() + Send + 'static) -> io::Result<Arc<Stop>> {
    let stop = Arc::new(Stop::default());
    let told = Arc::clone(&stop);
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    thread::Builder::new().name("interrupts".to_owned()).spawn(move || {
        for _ in signals.forever() {
            if told.soon.swap(true, Ordering::Relaxed) {
                told.now.store(true, Ordering::Relaxed);
            } else {
                on_first();
            }
        }
    })?;
    Ok(stop)
}
