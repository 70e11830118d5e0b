//! Pages of a raw trace, made before programs write to them.
//!
//! A page of the file that nobody has touched must be found, zeroed and noted by the kernel, and in
//! a virtual machine perhaps fetched from the host, which takes as long as hundreds of calls. It
//! would be the recorded program that waits for it. So somebody else reads the file from its
//! beginning, always a stretch ahead of what is taken: to read a hole makes its pages, clean ones,
//! which take no room on the disk and which the kernel can take back. Whoever overtakes it makes
//! pages as before. On a tmpfs reading makes none.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use freehold_trace::file::header;
use rustix::fs::{Advice, fadvise};

use crate::machine;

/// How far ahead at most.
const FURTHEST: u64 = 64 << 20;
/// The share of the available memory that this may be.
const SHARE: u64 = 16;
/// Read at once. It stays in a processor's cache.
const PIECE: usize = 256 << 10;
/// How long a program may wait for its start.
const LONGEST_START: Duration = Duration::from_millis(500);
/// How often is looked at what is taken: programs that do nothing else take 4 MiB meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Somebody who reads ahead, until this is dropped.
#[derive(Debug)]
pub(super) struct Ahead {
    /// Dropped to end the thread.
    until: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Ahead {
    /// Reads the first stretch of a raw trace of `capacity` bytes, and begins to read on as it is
    /// taken. A file that cannot be read, or a thread that cannot be had, only means that programs
    /// make the pages.
    pub(super) fn begin(file: File, capacity: u64) -> Self {
        let distance = FURTHEST.min(machine::describe().memory_available_bytes / SHARE);
        // Not further than it says: the kernel would read megabytes more. If it does, it does.
        let _ = fadvise(&file, 0, None, Advice::Random);
        let mut reader = Reader { file, capacity, distance, done: 0, piece: vec![0; PIECE] };
        let (until, ended) = mpsc::channel();
        let started = Instant::now();
        let is_readable = reader.read_until(|| started.elapsed() >= LONGEST_START).is_ok();
        let follow = move || reader.follow(&ended);
        let name = "read-ahead".to_owned();
        let thread = is_readable.then(|| thread::Builder::new().name(name).spawn(follow).ok());
        Self { until: Some(until), thread: thread.flatten() }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        drop(self.until.take());
        if let Some(thread) = self.thread.take() {
            // It ends at its next look; a panic in it has been reported and harms no trace.
            let _ = thread.join();
        }
    }
}

struct Reader {
    file: File,
    capacity: u64,
    distance: u64,
    /// Read up to here.
    done: u64,
    piece: Vec<u8>,
}

impl Reader {
    /// Reads on as the file is taken, until the other end of `ended` is gone.
    fn follow(&mut self, ended: &Receiver<()>) {
        let is_over = || ended.try_recv() == Err(mpsc::TryRecvError::Disconnected);
        while self.read_until(is_over).is_ok() && self.done < self.capacity {
            if ended.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Disconnected) {
                return;
            }
        }
    }

    /// Reads up to where it should be, or until there is a reason to stop.
    fn read_until(&mut self, is_over: impl Fn() -> bool) -> io::Result<()> {
        let taken = self.taken()?;
        // What is taken has its pages.
        self.done = self.done.max(taken);
        let end = taken.saturating_add(self.distance).min(self.capacity);
        while self.done < end && !is_over() {
            let wanted = (end - self.done).min(PIECE as u64) as usize;
            match self.file.read_at(&mut self.piece[..wanted], self.done)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => self.done += read as u64,
            }
        }
        Ok(())
    }

    /// How much of the file programs have taken.
    fn taken(&self) -> io::Result<u64> {
        let mut word = [0; 8];
        self.file.read_exact_at(&mut word, header::TAKEN as u64)?;
        Ok(u64::from_le_bytes(word))
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use freehold_trace::file::Header;
    use tempfile::NamedTempFile;

    use super::*;

    const MIB: u64 = 1 << 20;
    const CAPACITY: u64 = FURTHEST + 32 * MIB;

    fn raw_trace(taken: u64) -> NamedTempFile {
        let trace = NamedTempFile::new().expect("a file");
        put_taken(trace.as_file(), taken);
        trace.as_file().set_len(CAPACITY).expect("longer");
        trace
    }

    fn put_taken(file: &File, taken: u64) {
        let header = Header { taken, ..Header::new(CAPACITY, 0, 0) };
        file.write_all_at(&header.to_bytes(), 0).expect("written");
    }

    fn begin(trace: &NamedTempFile) -> Ahead {
        Ahead::begin(trace.reopen().expect("opened"), CAPACITY)
    }

    /// Bytes of the file that are at hand; `None` if that cannot be told here.
    fn at_hand(trace: &NamedTempFile) -> Option<u64> {
        const TMPFS: i64 = 0x0102_1994;
        let system = rustix::fs::fstatfs(trace).expect("a file system");
        let mut command = Command::new("fincore");
        let output = command.args(["-b", "-n", "-o", "RES"]).arg(trace.path()).output();
        match output {
            Ok(output) if system.f_type != TMPFS && output.status.success() => {
                let text = String::from_utf8(output.stdout).expect("text");
                Some(text.trim().parse().expect("a number"))
            }
            _ => {
                eprintln!("skipped: there is no fincore, or temporary files are on a tmpfs");
                None
            }
        }
    }

    /// Waits until as much is at hand; how much then is. On a busy machine the first stretch may be
    /// cut short, and the rest of it comes while the program runs.
    fn wait_for(trace: &NamedTempFile, bytes: u64) -> Option<u64> {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let found = at_hand(trace)?;
            if found >= bytes {
                return Some(found);
            }
            assert!(Instant::now() < deadline, "{found} of {bytes} bytes are at hand");
        }
    }

    fn distance() -> u64 {
        FURTHEST.min(machine::describe().memory_available_bytes / SHARE)
    }

    #[test]
    fn the_first_stretch_comes_to_hand_without_anybody_writing_and_the_rest_does_not() {
        let trace = raw_trace(4096);
        let ahead = begin(&trace);
        let Some(bytes) = wait_for(&trace, distance()) else { return };
        assert!(bytes < FURTHEST + MIB, "{bytes}");
        drop(ahead);
        assert_eq!(at_hand(&trace), Some(bytes), "somebody reads on");
    }

    #[test]
    fn pages_are_made_as_the_file_is_taken_but_not_those_that_are_taken() {
        let trace = raw_trace(4096);
        let ahead = begin(&trace);
        let Some(first) = wait_for(&trace, distance()) else { return };
        put_taken(trace.as_file(), CAPACITY - 16 * MIB);
        let bytes = wait_for(&trace, first + 16 * MIB).expect("as before");
        assert!(bytes < first + 17 * MIB, "{bytes}");
        drop(ahead);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_left_alone() {
        let ahead = Ahead::begin(tempfile::tempfile().expect("a file"), CAPACITY);
        assert!(ahead.thread.is_none());
    }
}
