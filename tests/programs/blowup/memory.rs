//! What the program has in use, and what the process takes.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Between two looks at the resident memory, at least.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Looks at most: what is noted of them is memory, too.
const LOOKS: u32 = 10_000;

/// The counts. Each is an account of its own, so that all accesses are relaxed.
pub(crate) struct Meter {
    live: AtomicUsize,
    peak_live: AtomicUsize,
}

/// The one of this process.
pub(crate) static METER: Meter =
    Meter { live: AtomicUsize::new(0), peak_live: AtomicUsize::new(0) };

/// The number in a line of `/proc/self/status`, in bytes.
fn status(field: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("there is /proc");
    let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("Linux has it");
    let kilobytes = line.split_ascii_whitespace().next().and_then(|it| it.parse::<usize>().ok());
    kilobytes.expect("it is a number") * 1024
}

/// Bytes that are resident.
pub(crate) fn resident() -> usize {
    status("VmRSS:")
}

impl Meter {
    /// So many more bytes are in use.
    pub(crate) fn add(&self, bytes: usize) {
        let live = self.live.fetch_add(bytes, Ordering::Relaxed) + bytes;
        // Read first: the peak is rarely exceeded, and writing to it costs.
        if live > self.peak_live.load(Ordering::Relaxed) {
            self.peak_live.fetch_max(live, Ordering::Relaxed);
        }
    }

    /// So many fewer.
    pub(crate) fn subtract(&self, bytes: usize) {
        self.live.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Bytes in use.
    pub(crate) fn live(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// Looks at the resident memory for so long, and says what it was on average in the first and
    /// in the last third.
    pub(crate) fn watch(duration: Duration) {
        let start = Instant::now();
        let mut samples = Vec::with_capacity(LOOKS as usize + 1);
        let every = LOOK_EVERY.max(duration / LOOKS);
        while start.elapsed() < duration {
            samples.push(resident());
            thread::sleep(every);
        }
        let third = samples.len() / 3;
        let mean = |samples: &[usize]| samples.iter().sum::<usize>() / samples.len().max(1);
        println!("first third: {}", mean(&samples[..third]));
        println!("last third: {}", mean(&samples[samples.len() - third..]));
    }

    /// Says what the peaks were.
    pub(crate) fn report(&self) {
        println!("peak live: {}", self.peak_live.load(Ordering::Relaxed));
        println!("peak resident: {}", status("VmHWM:"));
    }
}
