//! What a program says before it fails. It must not know what becomes of it.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Bytes that are kept.
const KEPT: usize = 4096;

/// Lines that are worth repeating.
const LINES: usize = 3;

/// How long to wait for the end of what a program wrote when the program has ended. Somebody
/// whom it has left behind may hold the pipe open for ever.
const END_WITHIN: Duration = Duration::from_secs(1);

/// The end of what a program writes, read in a thread of its own: a program that fills a pipe
/// which nobody reads would wait for ever.
#[derive(Debug)]
pub(crate) struct Tail {
    kept: Arc<Mutex<VecDeque<u8>>>,
    end: Receiver<()>,
}

impl Tail {
    /// Begins to read.
    pub(crate) fn of(mut pipe: impl Read + Send + 'static) -> io::Result<Self> {
        let kept = Arc::new(Mutex::new(VecDeque::new()));
        let (at_end, end) = channel();
        let writing = Arc::clone(&kept);
        thread::Builder::new().name("last words".to_owned()).spawn(move || {
            let mut buffer = [0; KEPT];
            // What was read before an error is still worth showing.
            while let Ok(read @ 1..) = pipe.read(&mut buffer) {
                let mut kept = writing.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend(&buffer[..read]);
                let excess = kept.len().saturating_sub(KEPT);
                kept.drain(..excess);
            }
            // Nobody may want to know any more.
            let _ = at_end.send(());
        })?;
        Ok(Self { kept, end })
    }

    /// The last lines, as a clause that follows what went wrong.
    pub(crate) fn last_lines(self) -> String {
        // Whether the end was reached or not: what was read by now is what there is.
        let _ = self.end.recv_timeout(END_WITHIN);
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        last_lines(&String::from_utf8_lossy(&kept.iter().copied().collect::<Vec<_>>()))
    }
}

/// The last lines of a text, as a clause that follows what went wrong.
pub(crate) fn last_lines(text: &str) -> String {
    let lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(LINES)..];
    if last.is_empty() { String::new() } else { format!(": {}", last.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_lines_of_a_long_complaint_are_repeated() {
        assert_eq!(last_lines("a\nb\n\nc\nd\n"), ": b; c; d");
        assert_eq!(last_lines("\n"), "");
    }

    #[test]
    fn a_long_output_is_read_to_its_end_and_its_end_is_kept() {
        let long = "x\n".repeat(100_000) + "the end\n";
        let tail = Tail::of(io::Cursor::new(long)).expect("a thread");
        assert_eq!(tail.last_lines(), ": x; x; the end");
    }
}
