//! Telling which allocator serves a live process, from what the kernel shows of it and from the
//! files it has mapped. It attaches to nothing, stops nothing, and runs none of those files.

use std::collections::{HashSet, VecDeque};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use freehold_model::{Linkage, ProcessReport, Provider};

use crate::inspect::Inspection;
use crate::maps;

/// Why nothing can be said about a process.
#[derive(Debug)]
pub enum ProcessError {
    /// There is none of this number.
    NotFound,
    /// It belongs to somebody else.
    NotPermitted,
    /// It has no memory of its own: it has ended, or is a thread of the kernel.
    NoMemory,
    /// It became another program while it was looked at.
    Changed,
    /// Something else went wrong.
    Read(io::Error),
}

impl fmt::Display for ProcessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => f.write_str("there is no such process"),
            Self::NotPermitted => f.write_str("not permitted to look at this process"),
            Self::NoMemory => {
                f.write_str("it has ended, or is a kernel thread: it has no memory to look at")
            }
            Self::Changed => f.write_str("it became another program just now; try again"),
            Self::Read(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ProcessError {}

impl From<io::Error> for ProcessError {
    fn from(error: io::Error) -> Self {
        /// What reading the map of a process that is just ending fails with.
        const ESRCH: i32 = 3;
        match error.kind() {
            io::ErrorKind::NotFound => Self::NotFound,
            io::ErrorKind::PermissionDenied => Self::NotPermitted,
            _ if error.raw_os_error() == Some(ESRCH) => Self::NotFound,
            _ => Self::Read(error),
        }
    }
}

/// Tells which allocator serves the process.
pub fn report(pid: u32) -> Result<ProcessReport, ProcessError> {
    let scene = Process::numbered(pid).scene()?;
    let (live, idle) = scene.judge();
    Ok(ProcessReport {
        pid,
        executable: scene.executable.path.to_string_lossy().into_owned(),
        live,
        idle,
        notes: scene.notes(),
    })
}

/// The arguments of the process, the name of its program first.
pub fn command(pid: u32) -> Result<Vec<String>, ProcessError> {
    let bytes = fs::read(Process::numbered(pid).directory.join("cmdline"))?;
    let words = bytes.strip_suffix(b"\0").unwrap_or(&bytes).split(|byte| *byte == 0);
    Ok(words.map(|word| String::from_utf8_lossy(word).into_owned()).collect())
}

/// A variable of the environment that the process was started with.
pub fn variable(pid: u32, name: &str) -> Result<Option<OsString>, ProcessError> {
    let bytes = fs::read(Process::numbered(pid).directory.join("environ"))?;
    let value = |entry: &[u8]| {
        let value = entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        Some(OsString::from_vec(value.to_vec()))
    };
    Ok(bytes.split(|byte| *byte == 0).find_map(value))
}

/// The files mapped with execute permission; cheap enough to be asked again and again.
pub(crate) fn mapped_files(pid: u32) -> Result<Vec<PathBuf>, ProcessError> {
    Process::numbered(pid).mapped_files()
}

/// The file that the process runs.
pub(crate) fn executable(pid: u32) -> Result<PathBuf, ProcessError> {
    Ok(fs::read_link(Process::numbered(pid).directory.join("exe"))?)
}

struct Process {
    directory: PathBuf,
}

/// What is seen of a process: enough to repeat what the dynamic loader decided.
struct Scene {
    executable: Inspection,
    /// Every other mapped file that could be inspected.
    libraries: Vec<Inspection>,
    /// What the loader was asked to load first.
    preloads: Vec<String>,
    /// Mapped files that could not be inspected.
    unreadable: usize,
}

impl Process {
    fn numbered(pid: u32) -> Self {
        let directory = PathBuf::from(format!("/proc/{pid}"));
        Self { directory }
    }

    fn mapped_files(&self) -> Result<Vec<PathBuf>, ProcessError> {
        let files = maps::executable_files(&fs::read(self.directory.join("maps"))?);
        if files.is_empty() { Err(ProcessError::NoMemory) } else { Ok(files) }
    }

    /// Looks at everything. The process goes on meanwhile: should it end, or become another
    /// program, the parts would not fit together, and nothing is said.
    fn scene(&self) -> Result<Scene, ProcessError> {
        let executable = fs::read_link(self.directory.join("exe"))?;
        let mapped = self.mapped_files()?;
        let mut inspected = Inspection::of(&self.directory.join("exe"))
            .map_err(|error| io::Error::other(format!("{}: {error}", executable.display())))?;
        inspected.path.clone_from(&executable);
        let libraries: Vec<_> = mapped.iter().filter(|path| **path != executable).collect();
        let readable: Vec<_> = libraries.iter().filter_map(|path| self.inspect(path)).collect();
        let scene = Scene {
            executable: inspected,
            unreadable: libraries.len() - readable.len(),
            libraries: readable,
            preloads: self.preloads(),
        };
        self.mapped_files()?;
        if fs::read_link(self.directory.join("exe"))? == executable {
            Ok(scene)
        } else {
            Err(ProcessError::Changed)
        }
    }

    /// Inspects a mapped file. The process may see another file system than we do, so the file
    /// is looked up below its root.
    fn inspect(&self, path: &Path) -> Option<Inspection> {
        let below_root = self.directory.join("root").join(path.strip_prefix("/").ok()?);
        let mut inspection = Inspection::of(&below_root).ok()?;
        path.clone_into(&mut inspection.path);
        Some(inspection)
    }

    /// What the loader was told to preload, by the environment and then by the system's file.
    fn preloads(&self) -> Vec<String> {
        let environment = fs::read(self.directory.join("environ")).unwrap_or_default();
        let variable = environment
            .split(|&byte| byte == 0)
            .find_map(|entry| entry.strip_prefix(b"LD_PRELOAD="));
        let file = fs::read(self.directory.join("root/etc/ld.so.preload")).unwrap_or_default();
        let mut names = preload_names(&String::from_utf8_lossy(variable.unwrap_or_default()));
        names.extend(preload_names(&String::from_utf8_lossy(&file)));
        names
    }
}

fn preload_names(list: &str) -> Vec<String> {
    let names = list.split([' ', ':', '\t', '\n']).filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

impl Scene {
    /// The allocators that serve calls, and those that are mapped and serve none.
    fn judge(&self) -> (Vec<Provider>, Vec<Provider>) {
        let mut live = Vec::new();
        if self.executable.holds_an_allocator() {
            live.push(provider(&self.executable, Linkage::Static));
        }
        if !self.executable.exports_malloc && !self.is_static() {
            live.extend(self.malloc_library());
        }
        if live.is_empty() {
            live.push(provider(&self.executable, Linkage::Static));
        }
        let families: HashSet<_> = live.iter().map(|provider| provider.family.clone()).collect();
        let others = self.libraries.iter().filter(|library| library.holds_an_allocator());
        let idle = others
            .map(|library| provider(library, self.linkage(library)))
            .filter(|provider| !families.contains(&provider.family))
            .collect();
        (live, idle)
    }

    /// The library that the loader binds `malloc` to: the first that exports it among the
    /// preloaded ones and then among those linked, breadth first from the executable.
    fn malloc_library(&self) -> Option<Provider> {
        let exporter = |library: &&Inspection| library.exports_malloc;
        let found = self
            .preloaded()
            .into_iter()
            .find(exporter)
            .or_else(|| self.linked().into_iter().find(exporter))?;
        Some(provider(found, self.linkage(found)))
    }

    fn linkage(&self, library: &Inspection) -> Linkage {
        let is_it = |other: &&Inspection| other.path == library.path;
        if library.is_c_library() {
            Linkage::CLibrary
        } else if self.preloaded().iter().any(is_it) {
            Linkage::Preloaded
        } else if self.linked().iter().any(is_it) {
            Linkage::Linked
        } else {
            Linkage::OpenedLater
        }
    }

    /// A program without an interpreter loads nothing. When a C library is mapped all the same,
    /// the "program" is the dynamic loader itself, run by hand.
    fn is_static(&self) -> bool {
        self.executable.header.interpreter.is_none()
            && !self.libraries.iter().any(Inspection::is_c_library)
    }

    fn preloaded(&self) -> Vec<&Inspection> {
        self.preloads.iter().filter_map(|name| self.library_named(name)).collect()
    }

    fn linked(&self) -> Vec<&Inspection> {
        let mut queue: VecDeque<&str> = VecDeque::new();
        let mut seen = HashSet::new();
        let mut found = Vec::new();
        // The loader run by hand is asked about a program we cannot tell: any order will do.
        if self.executable.header.interpreter.is_none() {
            return self.libraries.iter().collect();
        }
        queue.extend(self.executable.header.needed.iter().map(String::as_str));
        while let Some(name) = queue.pop_front() {
            let Some(library) = self.library_named(name) else {
                continue;
            };
            if seen.insert(&library.path) {
                found.push(library);
                queue.extend(library.header.needed.iter().map(String::as_str));
            }
        }
        found
    }

    /// The mapped library that a preload list or a `NEEDED` entry means by `name`.
    fn library_named(&self, name: &str) -> Option<&Inspection> {
        let file_name = Path::new(name).file_name()?;
        let real = fs::canonicalize(name).ok();
        self.libraries.iter().find(|library| {
            real.as_deref() == Some(&library.path)
                || library.path.file_name() == Some(file_name)
                || library.header.soname.as_deref().map(Path::new) == Some(Path::new(file_name))
        })
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let ignored = self.preloads.iter().filter(|name| self.library_named(name).is_none());
        notes.extend(ignored.map(|name| {
            format!("{name} was to be preloaded but is not mapped: the loader ignored it")
        }));
        if self.unreadable > 0 {
            let count = self.unreadable;
            notes.push(format!("{count} of the mapped files could not be read and are left out"));
        }
        if self.is_static() && self.executable.family.is_none() {
            notes.push("the executable is static and names no allocator in its symbols".to_owned());
        }
        notes
    }
}

fn provider(file: &Inspection, linkage: Linkage) -> Provider {
    Provider {
        family: file.family.map(|known| known.name.to_owned()),
        version: file.version.clone(),
        linkage,
        path: file.path.to_string_lossy().into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::known::{Known, SYSTEM};

    /// A file called `name` that needs others, and exports `malloc` when it has a family.
    fn file(name: &str, family: Option<&str>, needed: &[&str]) -> Inspection {
        let mut inspection = Inspection::of(Path::new("/proc/self/exe")).expect("readable");
        inspection.path = PathBuf::from(format!("/lib/{name}"));
        inspection.family = family.map(|name| Known::named(name).expect("a known name"));
        inspection.version = None;
        inspection.exports_malloc = family.is_some();
        inspection.header.needed = needed.iter().map(ToString::to_string).collect();
        inspection.header.soname = None;
        inspection
    }

    fn scene(executable: Inspection, libraries: Vec<Inspection>, preloads: &[&str]) -> Scene {
        let preloads = preloads.iter().map(ToString::to_string).collect();
        Scene { executable, libraries, preloads, unreadable: 0 }
    }

    fn libc() -> Inspection {
        file("libc.so.6", Some(SYSTEM), &[])
    }

    fn shown(providers: &[Provider]) -> Vec<(Option<&str>, Linkage)> {
        providers.iter().map(|own| (own.family.as_deref(), own.linkage)).collect()
    }

    #[test]
    fn a_plain_program_is_served_by_the_c_library() {
        let scene = scene(file("prog", None, &["libc.so.6"]), vec![libc()], &[]);
        let (live, idle) = scene.judge();
        assert_eq!(shown(&live), [(Some(SYSTEM), Linkage::CLibrary)]);
        assert!(idle.is_empty());
    }

    #[test]
    fn a_preload_comes_before_what_is_linked_and_the_shadowed_one_is_idle() {
        let libraries = vec![
            libc(),
            file("libjemalloc.so.2", Some("jemalloc"), &["libc.so.6"]),
            file("libmimalloc.so.2", Some("mimalloc"), &["libc.so.6"]),
        ];
        let executable = file("prog", None, &["libjemalloc.so.2", "libc.so.6"]);
        let scene = scene(executable, libraries, &["/lib/libmimalloc.so.2"]);
        let (live, idle) = scene.judge();
        assert_eq!(shown(&live), [(Some("mimalloc"), Linkage::Preloaded)]);
        assert_eq!(shown(&idle), [(Some("jemalloc"), Linkage::Linked)]);
    }

    #[test]
    fn an_allocator_linked_two_libraries_away_is_found_before_the_c_library() {
        let libraries = vec![
            libc(),
            file("libdb.so", None, &["libtcmalloc_minimal.so.4", "libc.so.6"]),
            file("libtcmalloc_minimal.so.4", Some("tcmalloc"), &["libc.so.6"]),
        ];
        let breadth_first = scene(file("prog", None, &["libdb.so"]), libraries, &[]);
        assert_eq!(shown(&breadth_first.judge().0), [(Some("tcmalloc"), Linkage::Linked)]);
    }

    #[test]
    fn a_library_opened_later_serves_nothing() {
        let libraries = vec![libc(), file("libjemalloc.so.2", Some("jemalloc"), &[])];
        let scene = scene(file("prog", None, &["libc.so.6"]), libraries, &[]);
        let (live, idle) = scene.judge();
        assert_eq!(shown(&live), [(Some(SYSTEM), Linkage::CLibrary)]);
        assert_eq!(shown(&idle), [(Some("jemalloc"), Linkage::OpenedLater)]);
    }

    #[test]
    fn a_global_allocator_within_the_executable_is_live_beside_the_c_librarys() {
        let mut executable = file("prog", Some("freehold"), &["libc.so.6"]);
        executable.exports_malloc = false;
        let (live, _) = scene(executable, vec![libc()], &[]).judge();
        assert_eq!(
            shown(&live),
            [(Some("freehold"), Linkage::Static), (Some(SYSTEM), Linkage::CLibrary)]
        );
    }

    #[test]
    fn an_executable_that_exports_malloc_wins_over_a_preload() {
        let libraries = vec![libc(), file("libmimalloc.so.2", Some("mimalloc"), &[])];
        let executable = file("prog", Some("jemalloc"), &["libc.so.6"]);
        let (live, idle) = scene(executable, libraries, &["libmimalloc.so.2"]).judge();
        assert_eq!(shown(&live), [(Some("jemalloc"), Linkage::Static)]);
        assert_eq!(shown(&idle), [(Some("mimalloc"), Linkage::Preloaded)]);
    }

    #[test]
    fn a_static_program_without_known_symbols_is_not_identified() {
        let mut executable = file("prog", None, &[]);
        executable.header.interpreter = None;
        let scene = scene(executable, Vec::new(), &[]);
        assert_eq!(shown(&scene.judge().0), [(None, Linkage::Static)]);
        assert_eq!(scene.notes().len(), 1);
    }

    #[test]
    fn a_preload_that_the_loader_ignored_is_noted() {
        let scene = scene(file("prog", None, &["libc.so.6"]), vec![libc()], &["/gone/libx.so"]);
        assert!(scene.notes()[0].contains("/gone/libx.so"));
    }

    #[test]
    fn a_process_that_does_not_exist_is_not_found() {
        assert!(matches!(report(u32::MAX), Err(ProcessError::NotFound)));
    }
}
