//! The code that a process has mapped, and unwinding a thread's stack through it. A frame is kept
//! as a file and an address of the file, which means the same in every process and after its end.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{FrameAddress, Module, Unwinder};

use super::file::{Bytes, CodeFile};
use super::prologue::frame_pointer_above;
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
            if file.symbols == file.path {
                path.clone_into(&mut file.symbols);
            }
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
        let text = fs::read(format!("/proc/{}/maps", self.pid)).unwrap_or_default();
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
    pub(crate) fn unwind(&self, at: Registers, files: &Files, scratch: &mut Scratch) -> Vec<Place> {
        let Scratch { cache, stack } = scratch;
        let copied = copy_stack(self.pid, at.sp, stack);
        self.follow(at, &stack[..copied], files, cache)
    }

    /// Follows a stack that the kernel has copied.
    pub(crate) fn unwind_copy(
        &self,
        at: Registers,
        stack: &[u8],
        files: &Files,
        scratch: &mut Scratch,
    ) -> Vec<Place> {
        self.follow(at, stack, files, &mut scratch.cache)
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
    fn follow(
        &self,
        at: Registers,
        stack: &[u8],
        files: &Files,
        cache: &mut CacheX86_64,
    ) -> Vec<Place> {
        if !cfg!(target_arch = "x86_64") {
            return self.place(at.pc).into_iter().collect();
        }
        let copied = Copied { from: at.sp, bytes: stack };
        // An unknown one must not be taken for that of the outermost function, which is 0.
        let mut registers = UnwindRegsX86_64::new(at.pc, at.sp, at.bp.max(1));
        let mut frame = FrameAddress::from_instruction_pointer(at.pc);
        let mut is_guessed = at.bp != 0;
        let mut places: Vec<Place> = self.place(at.pc).into_iter().collect();
        while places.len() < DEEPEST {
            let mut read = |address: u64| copied.word(address).ok_or(());
            match self.unwinder.unwind_frame(frame, &mut registers, cache, &mut read) {
                Ok(Some(caller)) => {
                    let Some(next) = FrameAddress::from_return_address(caller) else { break };
                    frame = next;
                    places.extend(self.place(frame.address_for_lookup()));
                }
                // A function that keeps the frame pointer can be left only by it.
                Err(_) if !is_guessed => {
                    is_guessed = true;
                    let (pc, sp) = (frame.address_for_lookup(), registers.sp());
                    let Some(bp) = self.frame_pointer(pc, sp, copied, files) else { break };
                    registers.set_bp(bp);
                }
                // The stack ends, or cannot be followed further.
                Ok(None) | Err(_) => break,
            }
        }
        places
    }

    /// What the frame pointer most likely is of the function at `pc`, whose part of the stack
    /// begins at `sp`: where its first instructions put it; or the nearest place with another one,
    /// further up, and an address behind a call.
    fn frame_pointer(&self, pc: u64, sp: u64, copied: Copied<'_>, files: &Files) -> Option<u64> {
        let has_caller = |at: u64| {
            copied.word(at + 8).is_some_and(|caller| {
                self.code_before(caller, files)
                    .is_some_and(|(code, at)| ends_with_call(&code[..at]))
            })
        };
        let (code, at) = self.code_before(pc, files)?;
        let exact = frame_pointer_above(code, at).map(|above| sp + above);
        exact.filter(|&at| has_caller(at)).or_else(|| {
            let mut candidates = (sp..sp + FARTHEST_FRAME).step_by(size_of::<u64>());
            candidates.find(|&at| {
                let above = at + 16..at + FARTHEST_STACK;
                copied.word(at).is_some_and(|other| above.contains(&other)) && has_caller(at)
            })
        })
    }

    /// The code that holds an address, and where in it that is.
    fn code_before<'a>(&self, address: u64, files: &'a Files) -> Option<(&'a [u8], usize)> {
        let place = self.place(address)?;
        let (code, begin) = files.get(place.file).code()?;
        let at = usize::try_from(place.address.checked_sub(begin)?).ok()?;
        (at <= code.len()).then_some((code, at))
    }
}

/// How large a part of the stack one function can be expected to have, and a whole stack.
const FARTHEST_FRAME: u64 = 2048;
const FARTHEST_STACK: u64 = 8 << 20;

/// Whether code ends with a call, to a fixed place or by way of a register or memory.
fn ends_with_call(code: &[u8]) -> bool {
    const DIRECT: u8 = 0xe8;
    const INDIRECT: u8 = 0xff;
    let back = |n: usize| code.len().checked_sub(n).map(|at| code[at]);
    let is_indirect = |n: usize| {
        // The middle bits of the second byte say which of several instructions it is.
        back(n) == Some(INDIRECT) && back(n - 1).is_some_and(|byte| byte >> 3 & 7 == 2)
    };
    back(5) == Some(DIRECT) || (2..=7).any(is_indirect)
}

/// The part of a stack that was copied.
#[derive(Debug, Clone, Copy)]
struct Copied<'a> {
    from: u64,
    bytes: &'a [u8],
}

impl Copied<'_> {
    fn word(self, address: u64) -> Option<u64> {
        let from = usize::try_from(address.checked_sub(self.from)?).ok()?;
        let bytes = self.bytes.get(from..from.checked_add(8)?)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_behind_a_call_is_told_from_others() {
        // call rel32; call rax; call [rip+disp32]; call r12
        for code in [
            &[0xe8, 1, 2, 3, 4][..],
            &[0x90, 0xff, 0xd0],
            &[0xff, 0x15, 1, 2, 3, 4],
            &[0x41, 0xff, 0xd4],
        ] {
            assert!(ends_with_call(code), "{code:x?}");
        }
        // nothing; jmp rel32; jmp rax; inc rax
        for code in [&[][..], &[0xe9, 1, 2, 3, 4], &[0xff, 0xe0], &[0x48, 0xff, 0xc0]] {
            assert!(!ends_with_call(code), "{code:x?}");
        }
    }
}
