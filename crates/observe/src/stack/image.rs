//! The code that a process has mapped, and unwinding a thread's stack through it. A frame is kept
//! as a file and an address of the file, which means the same in every process and after its end.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{Module, Unwinder};

use super::file::{Bytes, CodeFile};
use crate::clock;
use crate::proc::maps;
use crate::reading::copy;

/// Bytes of a stack that are copied: enough for the frames between a lock and the program.
const STACK_BYTES: usize = 8192;

/// Frames that are followed.
const DEEPEST: usize = 48;

/// How long a map is taken to be complete when an address is in no known file.
const REREAD_NS: u64 = 200_000_000;

/// Which file, by its place in the list of files.
pub(crate) type FileIndex = u32;

/// An address within a file's own addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Place {
    /// The file.
    pub(crate) file: FileIndex,
    /// The address.
    pub(crate) address: u64,
}

/// All files that any process maps code from, each read once.
#[derive(Default)]
pub(crate) struct Files {
    list: Vec<Arc<CodeFile>>,
    known: HashMap<PathBuf, Option<FileIndex>>,
}

impl Files {
    pub(crate) fn get(&self, index: FileIndex) -> &CodeFile {
        &self.list[index as usize]
    }

    /// The file at a path, as the process sees it.
    fn find(&mut self, pid: u32, path: &Path) -> Option<FileIndex> {
        if let Some(known) = self.known.get(path) {
            return *known;
        }
        let inside = Path::new("/proc").join(pid.to_string()).join("root");
        let inside = inside.join(path.strip_prefix("/").unwrap_or(path));
        let mut read = CodeFile::read(&inside).or_else(|| CodeFile::read(path));
        if let Some(file) = &mut read {
            path.clone_into(&mut file.path);
        }
        let index = read.map(|file| {
            self.list.push(Arc::new(file));
            self.list.len() as FileIndex - 1
        });
        self.known.insert(path.to_owned(), index);
        index
    }
}

/// What a process has mapped.
pub(crate) struct Image {
    pid: u32,
    unwinder: UnwinderX86_64<Bytes>,
    /// Where each file is: first address, address after the last, distance, file.
    placed: Vec<(u64, u64, u64, FileIndex)>,
    read_ns: u64,
}

/// What unwinding needs besides: one serves all processes.
pub(crate) struct Scratch {
    cache: CacheX86_64,
    stack: Vec<u8>,
}

impl Default for Scratch {
    fn default() -> Self {
        Self { cache: CacheX86_64::new(), stack: vec![0; STACK_BYTES] }
    }
}

/// Where a thread stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Registers {
    pub(crate) pc: u64,
    pub(crate) sp: u64,
    /// The frame pointer; 0 where it is not known.
    pub(crate) bp: u64,
}

impl Image {
    /// Reads the map of a process.
    pub(crate) fn of(pid: u32, files: &mut Files) -> Self {
        let mut image =
            Self { pid, unwinder: UnwinderX86_64::new(), placed: Vec::new(), read_ns: 0 };
        image.reread(files);
        image
    }

    /// Reads the map again, since the process loaded something, or became another program.
    fn reread(&mut self, files: &mut Files) {
        self.read_ns = clock::now_ns();
        self.unwinder = UnwinderX86_64::new();
        self.placed.clear();
        let text = fs::read_to_string(format!("/proc/{}/maps", self.pid)).unwrap_or_default();
        for mapping in maps::parse(&text).into_iter().filter(|mapping| mapping.is_executable) {
            let Some(index) = files.find(self.pid, &mapping.path) else { continue };
            let file = files.get(index);
            let Some(bias) = file.bias(mapping.addresses.start, mapping.offset) else { continue };
            let span = file.span();
            let name = mapping.path.to_string_lossy().into_owned();
            let module = Module::new(name, mapping.addresses, bias, file.sections());
            self.unwinder.add_module(module);
            let (start, end) = (span.start.wrapping_add(bias), span.end.wrapping_add(bias));
            self.placed.push((start, end, bias, index));
        }
    }

    /// Reads the map again if this address is in no known file, unless that was done just now.
    pub(crate) fn notice(&mut self, address: u64, files: &mut Files) {
        if self.place(address).is_none() && clock::now_ns() - self.read_ns > REREAD_NS {
            self.reread(files);
        }
    }

    /// The file that holds an address, and which of its own it is.
    pub(crate) fn place(&self, address: u64) -> Option<Place> {
        let holds =
            |&&(start, end, ..): &&(u64, u64, u64, FileIndex)| (start..end).contains(&address);
        let &(_, _, bias, file) = self.placed.iter().find(holds)?;
        Some(Place { file, address: address.wrapping_sub(bias) })
    }

    /// Copies a thread's stack and follows it. The innermost frame comes first. Frames outside of
    /// known files are left out.
    pub(crate) fn unwind(&self, at: Registers, scratch: &mut Scratch) -> Vec<Place> {
        let Scratch { cache, stack } = scratch;
        let copied = copy_stack(self.pid, at.sp, stack);
        self.follow(at, &stack[..copied], cache)
    }

    /// Follows a stack that the kernel has copied.
    pub(crate) fn unwind_copy(
        &self,
        at: Registers,
        stack: &[u8],
        scratch: &mut Scratch,
    ) -> Vec<Place> {
        self.follow(at, stack, &mut scratch.cache)
    }

    /// Where functions are that ask the system for memory: those of the C library.
    pub(crate) fn mapping(&self, files: &Files) -> Vec<(&'static str, u64)> {
        let libraries = self.placed.iter().filter(|placed| files.get(placed.3).is_c_library);
        let known = libraries.flat_map(|&(_, _, bias, file)| {
            let own = files.get(file).mapping().iter();
            own.map(move |&(name, address)| (name, address.wrapping_add(bias)))
        });
        known.collect()
    }

    /// Follows a stack of which this much was copied.
    fn follow(&self, at: Registers, stack: &[u8], cache: &mut CacheX86_64) -> Vec<Place> {
        if !cfg!(target_arch = "x86_64") {
            return self.place(at.pc).into_iter().collect();
        }
        let mut read = |address: u64| {
            let from = usize::try_from(address.checked_sub(at.sp).ok_or(())?).map_err(|_| ())?;
            let bytes = stack.get(from..from.checked_add(8).ok_or(())?).ok_or(())?;
            Ok(u64::from_le_bytes(bytes.try_into().map_err(|_| ())?))
        };
        let registers = UnwindRegsX86_64::new(at.pc, at.sp, at.bp);
        let mut frames = self.unwinder.iter_frames(at.pc, registers, cache, &mut read);
        let mut places = Vec::new();
        // An error ends the stack where it cannot be followed further.
        while let Ok(Some(frame)) = frames.next()
            && places.len() < DEEPEST
        {
            places.extend(self.place(frame.address_for_lookup()));
        }
        places
    }
}

/// Copies a stack, as much of it as there is.
fn copy_stack(pid: u32, from: u64, into: &mut [u8]) -> usize {
    const PAGE: u64 = 4096;
    let whole = into.len();
    // Reads fail at the end of the stack: a shorter one, up to the page's end, succeeds.
    let page_end = (PAGE - from % PAGE) as usize;
    let lengths = [whole, whole / 2, page_end.min(whole)].into_iter();
    lengths.map(|len| copy(pid, from, &mut into[..len])).find(|&copied| copied > 0).unwrap_or(0)
}
