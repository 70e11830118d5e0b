//! Starting a command under an allocator, and showing that the allocator was really live in it.
//! It must not know who is told, nor handle the signals of the command line.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, io, thread};

use freehold_model::{Allocator, Provider, Verdict};
use rustix::fs::getxattr;
use rustix::process::{getegid, geteuid};

use crate::inspect::Inspection;
use crate::process;

/// The variable that the dynamic loader reads.
pub const PRELOAD: &str = "LD_PRELOAD";

/// How often a script may name a script as its interpreter.
const INTERPRETERS: usize = 4;

/// What the shortest programs live, about.
const SHORTEST_LIFE: Duration = Duration::from_millis(3);

/// Between two looks at a process that lives longer.
const SHORTEST_PAUSE: Duration = Duration::from_micros(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The permission bits that make a program run as its owner, and as its group.
const SET_USER_ID: u32 = 0o4000;
const SET_GROUP_ID: u32 = 0o2000;

/// The value of `LD_PRELOAD` that puts `allocator` before whatever is preloaded already; `None`
/// when nothing needs to be preloaded. Fails for a path that the loader would take apart.
pub fn preload_value(allocator: &Allocator) -> io::Result<Option<OsString>> {
    if !allocator.needs_preload() {
        return Ok(env::var_os(PRELOAD));
    }
    let path = &allocator.library.path;
    if path.contains([' ', ':']) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{path}: the loader ends a path at a space or a colon; move the file"),
        ));
    }
    let already = env::var_os(PRELOAD).unwrap_or_default();
    Ok(Some(before(path, &already)))
}

/// The same with the allocator's own library named even if it is the C library, which then comes
/// before an allocator that a program was linked with.
pub(crate) fn forced_preload(allocator: &Allocator) -> io::Result<OsString> {
    let preload = preload_value(allocator)?.unwrap_or_default();
    Ok(before(&allocator.library.path, &preload))
}

/// The file that will serve `malloc` of a program with these preloads; `None` where its loader
/// cannot tell.
pub fn foreseen(program: &Path, preload: &OsStr) -> Option<PathBuf> {
    let program = interpreter_of(program);
    let exports_malloc =
        |path: &PathBuf| Inspection::of(path).is_ok_and(|found| found.exports_malloc);
    if exports_malloc(&program) {
        return Some(program);
    }
    let listing = loader_listing(&program, preload).ok()?;
    let first = objects(&listing).map(PathBuf::from).find(exports_malloc)?;
    fs::canonicalize(first).ok()
}

/// A preload list with `path` first and the rest of another list behind it.
pub fn before(path: &str, list: &OsStr) -> OsString {
    let entries = list.as_bytes().split(|byte| [b' ', b':'].contains(byte));
    let mut value = OsString::from(path);
    for entry in entries.filter(|entry| !entry.is_empty() && *entry != path.as_bytes()) {
        value.push(":");
        value.push(OsStr::from_bytes(entry));
    }
    value
}

/// Finds the file that a command name means, as the shell does.
pub fn resolve(program: &OsStr) -> Option<PathBuf> {
    if Path::new(program).components().count() > 1 || program.as_encoded_bytes().contains(&b'/') {
        return Some(PathBuf::from(program));
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|directory| directory.join(program)).find(|file| {
        fs::metadata(file).is_ok_and(|data| data.is_file() && data.mode() & 0o111 != 0)
    })
}

/// The reason for which an allocator cannot be live in this program, if there is one that can be
/// seen beforehand.
pub fn obstacle(program: &Path, allocator: &Allocator) -> Option<String> {
    if !allocator.needs_preload() {
        return None;
    }
    let library = Path::new(&allocator.library.path);
    closed(program, library).or_else(|| {
        let program = interpreter_of(program);
        let found = Inspection::of(&program).ok()?;
        let own = found.family.map_or("an allocator of its own", |known| known.name);
        let name = program.display();
        found.exports_malloc.then(|| format!("{name} brings {own}, which comes before any preload"))
    })
}

/// The reason for which this library cannot be preloaded into a program, if there is one that can
/// be seen beforehand.
pub fn closed(program: &Path, library: &Path) -> Option<String> {
    let program = interpreter_of(program);
    let name = program.display();
    let found = Inspection::of(&program).ok()?;
    let library = Inspection::of(library).ok()?;
    let Some(loader) = &found.header.interpreter else {
        return Some(format!("{name} is statically linked, so nothing can be preloaded into it"));
    };
    if found.machine != library.machine {
        let (theirs, ours) = (found.machine, library.machine);
        return Some(format!("{name} is {theirs}, but the library is {ours}"));
    }
    let needs_glibc = library.header.needed.iter().any(|needed| needed == "libc.so.6");
    if needs_glibc && loader.contains("ld-musl") {
        return Some(format!("{name} runs on musl, but the library needs glibc"));
    }
    changes_identity(&fs::metadata(&program).ok()?)
        .then(|| format!("{name} runs as another user or group, so the loader ignores {PRELOAD}"))
}

/// Whether a program runs as somebody else than who starts it, or may do more than they.
pub fn is_elevated(program: &Path) -> bool {
    let program = interpreter_of(program);
    // Its size is told where there is no room for it.
    let capabilities = getxattr(&program, "security.capability", &mut [0_u8; 0][..]);
    capabilities.is_ok() || fs::metadata(&program).is_ok_and(|file| changes_identity(&file))
}

/// Whether a program runs as somebody else than who starts it.
fn changes_identity(file: &fs::Metadata) -> bool {
    (file.mode() & SET_USER_ID != 0 && file.uid() != geteuid().as_raw())
        || (file.mode() & SET_GROUP_ID != 0 && file.gid() != getegid().as_raw())
}

/// A command that was just started, of which it is to be shown that an allocator is live in it.
#[derive(Debug, Clone)]
pub struct Suspect {
    pid: u32,
    program: PathBuf,
    allocator: Allocator,
    is_foreseen: bool,
}

impl Suspect {
    /// The process `pid`, started from the file `program`, which must have no [`obstacle`].
    pub fn new(pid: u32, program: &Path, allocator: &Allocator) -> Self {
        let (program, allocator) = (interpreter_of(program), allocator.clone());
        let is_foreseen = allocator.needs_preload();
        Self { pid, program, allocator, is_foreseen }
    }

    /// The same, when it is known that the loader of this program binds `malloc` to the allocator:
    /// then it is enough to see that the process runs the program with the library.
    pub fn foreseen(pid: u32, program: &Path, allocator: &Allocator) -> Self {
        Self { is_foreseen: true, ..Self::new(pid, program, allocator) }
    }

    /// Looks without a pause for the time that the shortest programs live.
    pub fn glance(&self) -> Option<Verdict> {
        let start = Instant::now();
        while start.elapsed() < SHORTEST_LIFE {
            match self.look() {
                Some(verdict) if verdict.is_live() => return Some(verdict),
                _ => process::mapped_files(self.pid).ok()?,
            };
        }
        None
    }

    /// Watches the process until it can be said whether the allocator is live in it, or until
    /// `over` is set; whoever sets it may unpark the watching thread.
    pub fn watch(&self, over: &AtomicBool) -> Verdict {
        let start = Instant::now();
        // The kernel shows a map that changes while it is read: a library that is missing from it
        // is missed for good only if it is missing again.
        let mut was_missed = false;
        loop {
            match self.look() {
                Some(verdict) if verdict.is_live() || was_missed => return verdict,
                seen => was_missed = seen.is_some(),
            }
            // After the last look: the process may have been seen a moment before it ended.
            if over.load(Ordering::Acquire) || process::mapped_files(self.pid).is_err() {
                return self.ask_loader();
            }
            // One that is not ready after a while is not worth being watched so closely.
            thread::park_timeout((start.elapsed() / 8).clamp(SHORTEST_PAUSE, LONGEST_PAUSE));
        }
    }

    /// One look at the process; `None` while the loader is still at work.
    fn look(&self) -> Option<Verdict> {
        let Self { pid, program, allocator, is_foreseen } = self;
        let library = Path::new(&allocator.library.path);
        let mapped = process::mapped_files(*pid).ok()?;
        let has_c_library = mapped.iter().any(|path| is_c_library_name(path));
        let has_library = mapped.iter().any(|path| path == library);
        if !has_c_library {
            return None;
        }
        if !has_library {
            // Preloads are mapped before anything that the program was linked with.
            let reason = format!("process {pid} runs without {}", library.display());
            return Some(Verdict::NotLive { reason });
        }
        // Preloaded, and nothing in the executable comes before it: no need to read any file.
        if *is_foreseen && process::executable(*pid).ok()? == *program {
            return Some(Verdict::Live { pid: *pid });
        }
        let report = process::report(*pid).ok()?;
        let is_it = |provider: &Provider| Path::new(&provider.path) == library;
        if report.live.iter().any(is_it) {
            return Some(Verdict::Live { pid: *pid });
        }
        let actual = report.live.first();
        let actual = actual.map_or("nothing known", |provider| provider.path.as_str());
        let reason = format!("malloc of process {pid} comes from {actual}");
        Some(Verdict::NotLive { reason })
    }

    /// Asks the dynamic loader what it would load for this program. It lists the objects in the
    /// order in which it searches them, and runs nothing.
    fn ask_loader(&self) -> Verdict {
        let Self { pid, program, allocator, .. } = self;
        let pid = *pid;
        if !allocator.needs_preload() {
            return Verdict::LoaderConfirms { pid };
        }
        let confirmed = preload_value(allocator)
            .and_then(|preload| loader_listing(program, &preload.unwrap_or_default()))
            .map(|listing| is_first_allocator(&listing, &allocator.library.path));
        let why = match confirmed {
            Ok(true) => return Verdict::LoaderConfirms { pid },
            Ok(false) => "its loader does not load the library".to_owned(),
            Err(error) => format!("its loader cannot be asked: {error}"),
        };
        Verdict::NotLive {
            reason: format!("process {pid} ended before it could be looked at, and {why}"),
        }
    }
}

/// What the loader of `program` would load, with these preloads.
fn loader_listing(program: &Path, preload: &OsStr) -> io::Result<String> {
    let found = Inspection::of(program).map_err(io::Error::other)?;
    let loader = found.header.interpreter.ok_or(io::ErrorKind::NotFound)?;
    let listing = Command::new(loader)
        .arg("--list")
        .arg(program)
        .env(PRELOAD, preload)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()?;
    Ok(String::from_utf8_lossy(&listing.stdout).into_owned())
}

fn is_c_library_name(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("libc.so") || name.starts_with("libc-") || name.starts_with("ld-musl")
}

/// The files in a loader's list, in the order in which it searches them.
fn objects(listing: &str) -> impl Iterator<Item = &str> {
    listing.lines().filter_map(|line| {
        let line = line.split(" (0x").next()?;
        Some(line.rsplit("=>").next()?.trim())
    })
}

/// Whether a loader's list names `library` before the C library.
fn is_first_allocator(listing: &str, library: &str) -> bool {
    for object in objects(listing) {
        if object == library {
            return true;
        }
        if is_c_library_name(Path::new(object)) {
            return false;
        }
    }
    false
}

/// The program that the kernel runs for this file: itself, or the interpreter of a script.
fn interpreter_of(program: &Path) -> PathBuf {
    let mut program = program.to_owned();
    for _ in 0..INTERPRETERS {
        let Some(interpreter) = script_interpreter(&program) else {
            break;
        };
        program = interpreter;
    }
    fs::canonicalize(&program).unwrap_or(program)
}

fn script_interpreter(path: &Path) -> Option<PathBuf> {
    use std::io::Read as _;

    let mut start = [0; 256];
    let read = fs::File::open(path).ok()?.read(&mut start).ok()?;
    let line = start[..read].strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    line.split_ascii_whitespace().next().map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loaders_list_confirms_a_library_only_before_the_c_library() {
        let listing = "\tlinux-vdso.so.1 (0x00007ffc)\n\t/opt/libx.so (0x00007f)\n\
                       \tlibc.so.6 => /lib/libc.so.6 (0x00007f)\n\t/opt/liby.so (0x7f)\n";
        assert!(is_first_allocator(listing, "/opt/libx.so"));
        assert!(!is_first_allocator(listing, "/opt/liby.so"));
        assert!(!is_first_allocator("", "/opt/libx.so"));
    }

    #[test]
    fn what_was_preloaded_stays_behind_and_nothing_is_preloaded_twice() {
        assert_eq!(before("/x.so", OsStr::new("")), "/x.so");
        assert_eq!(before("/x.so", OsStr::new("/y.so /z.so")), "/x.so:/y.so:/z.so");
        assert_eq!(before("/x.so", OsStr::new("/y.so:/x.so:")), "/x.so:/y.so");
    }

    #[test]
    fn a_command_is_found_in_the_path_and_a_path_is_taken_as_it_is() {
        let shell = resolve(OsStr::new("sh")).expect("every system has a shell");
        assert!(shell.is_absolute());
        assert_eq!(resolve(OsStr::new("./x")), Some(PathBuf::from("./x")));
        assert_eq!(resolve(OsStr::new("no-such-command-anywhere")), None);
    }

    #[test]
    fn the_interpreter_of_a_script_is_what_runs() {
        let directory = tempfile::tempdir().expect("a directory");
        let script = directory.path().join("script");
        fs::write(&script, "#! /bin/sh -e\nexit 0\n").expect("written");
        assert_eq!(interpreter_of(&script), fs::canonicalize("/bin/sh").expect("exists"));
        assert_eq!(script_interpreter(Path::new("/proc/self/exe")), None);
    }
}
