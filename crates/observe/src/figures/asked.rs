//! What the allocators say when they are asked within the process, by the library that `freehold`
//! preloads into commands (`crates/asker`).

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use freehold_model::{AllocatorFigures, HeapContents};
use freehold_sync::question::Question;
use freehold_trace::asked::{self, Answer, Value, field};
use rustix::fs::{FlockOperation, flock};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::thread::futex;
use rustix::time::Timespec;

use super::C_LIBRARY;

/// How long an answer is waited for: an allocator with many free blocks takes its time, and a
/// process that is stopped never answers.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long to wait before looking again whether somebody else has asked to the end.
const PAUSE: Duration = Duration::from_millis(5);

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Silence {
    /// Nobody in the process waits for questions.
    NobodyThere,
    /// Somebody does, but has not answered in time.
    NoAnswer,
}

/// Asks a process, and waits for the answer.
pub(crate) fn ask(pid: u32) -> Result<Answer, Silence> {
    let file = answers_of(pid).ok_or(Silence::NobodyThere)?;
    let deadline = Instant::now() + PATIENCE;
    while flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        if Instant::now() > deadline {
            return Err(Silence::NoAnswer);
        }
        thread::sleep(PAUSE);
    }
    let answers = Mapped::map(&file).ok_or(Silence::NobodyThere)?;
    let record = answers.record_of(pid).ok_or(Silence::NobodyThere)?;
    let question = answers.question(record);
    let number = question.ask();
    // Nobody sleeps where the last question is still being answered.
    let _ = futex::wake(question.asked().0, futex::Flags::empty(), 1);
    while !question.is_answered(number) {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Silence::NoAnswer);
        }
        let seen = question.answered().load(Ordering::Relaxed);
        if seen != number {
            let left = Timespec::try_from(left).unwrap_or_default();
            // It returns when something was answered, or for no reason: then it is looked again.
            let _ = futex::wait(question.answered(), futex::Flags::empty(), seen, Some(&left));
        }
    }
    // Relaxed: that it is answered was seen by an Acquire.
    Ok(Answer::read(|at| answers.word::<AtomicU64>(record + at).load(Ordering::Relaxed)))
}

/// The file of answers that a process was told of, if it is one.
fn answers_of(pid: u32) -> Option<File> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut variables = environment.split(|&byte| byte == 0);
    let path = variables
        .find_map(|it| it.strip_prefix(asked::VARIABLE.as_bytes())?.strip_prefix(b"="))
        .map(|path| Path::new(OsStr::from_bytes(path)))?;
    // As the process sees it.
    let path = PathBuf::from(format!("/proc/{pid}/root")).join(path.strip_prefix("/").ok()?);
    let mut file = OpenOptions::new().read(true).write(true).open(path).ok()?;
    let mut magic = [0; asked::MAGIC.len()];
    file.read_exact(&mut magic).ok()?;
    let has_its_size = file.metadata().ok()?.len() == asked::BYTES as u64;
    (magic == asked::MAGIC && has_its_size).then_some(file)
}

/// A file of answers, mapped.
struct Mapped(NonNull<u8>);

impl Mapped {
    fn map(file: &File) -> Option<Self> {
        let flags = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address that the kernel chooses changes nothing that is.
        let memory =
            unsafe { mmap(ptr::null_mut(), asked::BYTES, flags, MapFlags::SHARED, file, 0) };
        NonNull::new(memory.ok()?.cast()).map(Self)
    }

    /// An atomic number of the file, or something that is made of them.
    fn word<T>(&self, at: usize) -> &T {
        let is_inside = at.is_multiple_of(align_of::<T>()) && at + size_of::<T>() <= asked::BYTES;
        assert!(is_inside, "the layout leads out of the file");
        // SAFETY: aligned and within the mapping, which lives as long as `self`; whoever writes
        // there does so by atomics, and any bytes are a number.
        unsafe { self.0.byte_add(at).cast::<T>().as_ref() }
    }

    fn question(&self, record: usize) -> &Question {
        self.word(record + field::QUESTION)
    }

    /// Where the record of a process is: the last one, for a number is used again, and a process
    /// that has executed another program has a record for that.
    fn record_of(&self, pid: u32) -> Option<usize> {
        let taken = self.word::<AtomicU32>(asked::PROCESSES).load(Ordering::Relaxed) as usize;
        let records = (0..taken.min(asked::MOST)).map(|n| asked::FIRST + n * asked::RECORD);
        // Acquire pairs with the Release of who takes a record: there is somebody to be asked.
        let is_its =
            |at: &usize| self.word::<AtomicU32>(at + field::PID).load(Ordering::Acquire) == pid;
        records.rev().find(is_its)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: this very mapping was made by `map`, and nothing borrows from it any more.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), asked::BYTES) };
    }
}

/// The figures of all allocators that have answered; `heap` is what was read of the C library's.
pub(super) fn figures(answer: &Answer, heap: Option<&HeapContents>) -> Vec<AllocatorFigures> {
    [c_library(answer, heap), jemalloc(answer), tcmalloc(answer)].into_iter().flatten().collect()
}

/// What threads keep, and how much is free at the ends of heaps, it does not say itself.
fn c_library(answer: &Answer, heap: Option<&HeapContents>) -> Option<AllocatorFigures> {
    let used = answer.get(Value::LibraryUsed)?;
    let mapped = answer.get(Value::LibraryMapped)?;
    let fast = answer.get(Value::LibraryFast)?;
    let free = answer.get(Value::LibraryFree)?;
    let arena = answer.get(Value::LibraryArena)?;
    if arena + mapped == 0 {
        return None;
    }
    let free = free.saturating_sub(fast);
    let at_threads = heap.map(|heap| heap.kept_bytes.saturating_sub(fast).min(used));
    Some(AllocatorFigures {
        allocator: C_LIBRARY.to_owned(),
        live_bytes: Some(used + mapped - at_threads.unwrap_or(0)),
        kept_bytes: at_threads.map(|bytes| bytes + fast),
        free_bytes: Some(free),
        scattered_bytes: heap.map(|heap| free.saturating_sub(heap.top_bytes)),
        held_bytes: Some(arena + mapped),
        peak_bytes: heap.and_then(|heap| heap.peak_bytes),
        source: "mallinfo2, asked within; what threads keep, read".to_owned(),
        ..AllocatorFigures::default()
    })
}

/// What it calls allocated has in it what threads keep, and some of its own.
fn jemalloc(answer: &Answer) -> Option<AllocatorFigures> {
    let allocated = answer.get(Value::JemallocAllocated)?;
    let active = answer.get(Value::JemallocActive)?;
    let metadata = answer.get(Value::JemallocMetadata)?;
    let resident = answer.get(Value::JemallocResident)?;
    let internal = answer.get(Value::JemallocInternal).unwrap_or(0);
    let cached = answer.get(Value::JemallocCached);
    let given = allocated.saturating_sub(internal);
    Some(AllocatorFigures {
        allocator: "jemalloc".to_owned(),
        live_bytes: Some(given.saturating_sub(cached.unwrap_or(0))),
        kept_bytes: cached.map(|cached| cached.min(given)),
        free_bytes: Some(resident.saturating_sub(given + metadata)),
        scattered_bytes: Some(active.saturating_sub(allocated)),
        metadata_bytes: Some(metadata),
        held_bytes: Some(resident),
        source: "mallctl, asked within".to_owned(),
        ..AllocatorFigures::default()
    })
}

fn tcmalloc(answer: &Answer) -> Option<AllocatorFigures> {
    let live = answer.get(Value::TcmallocAllocated)?;
    let pages = answer.get(Value::TcmallocPages)?;
    let cached = answer.get(Value::TcmallocCached)?;
    let central = answer.get(Value::TcmallocCentral);
    let transfer = answer.get(Value::TcmallocTransfer);
    let physical = answer.get(Value::TcmallocPhysical);
    let scattered = central.unwrap_or(0) + transfer.unwrap_or(0);
    let told = live + cached + pages + scattered;
    Some(AllocatorFigures {
        allocator: "tcmalloc".to_owned(),
        live_bytes: Some(live),
        kept_bytes: Some(cached),
        free_bytes: Some(pages + scattered),
        scattered_bytes: central.map(|_| scattered),
        metadata_bytes: physical.map(|physical| physical.saturating_sub(told)),
        held_bytes: physical,
        source: "MallocExtension, asked within".to_owned(),
        ..AllocatorFigures::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_threads_keep_is_not_in_use_whether_or_not_an_allocator_counts_it_so() {
        let mut answer = Answer::default();
        answer.set(Value::JemallocAllocated, 100);
        answer.set(Value::JemallocActive, 130);
        answer.set(Value::JemallocMetadata, 7);
        answer.set(Value::JemallocResident, 150);
        answer.set(Value::JemallocCached, 10);
        answer.set(Value::JemallocInternal, 2);
        let told = figures(&answer, None);
        assert_eq!(told.len(), 1);
        let of = &told[0];
        assert_eq!((of.live_bytes, of.kept_bytes), (Some(88), Some(10)));
        assert_eq!((of.free_bytes, of.scattered_bytes), (Some(45), Some(30)));
        assert_eq!((of.metadata_bytes, of.held_bytes), (Some(7), Some(150)));

        let mut answer = Answer::default();
        answer.set(Value::LibraryUsed, 100);
        answer.set(Value::LibraryMapped, 50);
        answer.set(Value::LibraryFast, 4);
        answer.set(Value::LibraryFree, 44);
        answer.set(Value::LibraryArena, 144);
        let heap = HeapContents { kept_bytes: 24, top_bytes: 15, ..HeapContents::default() };
        let of = &figures(&answer, Some(&heap))[0];
        assert_eq!((of.live_bytes, of.kept_bytes), (Some(130), Some(24)));
        assert_eq!((of.free_bytes, of.scattered_bytes), (Some(40), Some(25)));
        assert_eq!(of.held_bytes, Some(194), "{of:?}");
        let of = &figures(&answer, None)[0];
        assert_eq!((of.live_bytes, of.kept_bytes), (Some(150), None));
    }

    #[test]
    fn an_allocator_that_has_nothing_says_nothing() {
        let mut answer = Answer::default();
        assert!(figures(&answer, None).is_empty());
        for value in &Value::ALL[..5] {
            answer.set(*value, 0);
        }
        assert!(figures(&answer, None).is_empty());
    }
}
