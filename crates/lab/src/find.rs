//! Finding the allocators of this machine. It must not know what they are wanted for.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::{env, fmt, fs, io};

use freehold_model::{Allocator, Origin};

use crate::elf::Machine;
use crate::hash;
use crate::inspect::{InspectError, Inspection};
use crate::known::{FREEHOLD, KNOWN, Known, SYSTEM, matches};
use crate::maps;
use crate::version;

/// The variable that names directories with allocators to compare with.
pub(crate) const PEERS: &str = "FREEHOLD_PEERS";

/// Directories, some with a `*`, in which libraries are installed; the loader's configuration and
/// the environment add to them. `{arch}` stands for this machine's architecture.
const DIRECTORIES: [&str; 13] = [
    "/usr/local/lib",
    "/usr/local/lib64",
    "/usr/local/lib/{arch}-linux-gnu",
    "/usr/lib/{arch}-linux-gnu",
    "/lib/{arch}-linux-gnu",
    "/usr/lib64",
    "/lib64",
    "/usr/lib",
    "/lib",
    "/opt/*/lib",
    "/usr/lib/llvm-*/lib/clang/*/lib/*",
    "/usr/lib/clang/*/lib/*",
    "/usr/lib64/clang/*/lib/*",
];

/// Why a file is not an allocator that can be run.
#[derive(Debug)]
pub enum Unfit {
    /// It could not be read, or is not ELF.
    Unreadable(InspectError),
    /// It was built for another machine.
    OtherMachine {
        /// The machine it was built for.
        found: String,
        /// This machine.
        wanted: String,
    },
    /// It does not export `malloc`.
    NoMalloc,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => error.fmt(f),
            Self::OtherMachine { found, wanted } => {
                write!(f, "built for {found}, but this machine is {wanted}")
            }
            Self::NoMalloc => f.write_str("it exports no malloc, so it is not an allocator"),
        }
    }
}

impl std::error::Error for Unfit {}

/// A directory to look in.
#[derive(Debug)]
struct Place {
    path: PathBuf,
    /// Whether the user named it, so that what is in it comes before anything newer elsewhere.
    is_named: bool,
}

/// Looks for allocators.
#[derive(Debug)]
pub struct Finder {
    machine: Machine,
    places: Vec<Place>,
}

impl Finder {
    /// Prepares to look where the loader and compilers keep libraries and where `cargo xtask peers`
    /// puts them, and first in `extra`.
    pub fn new(extra: &[PathBuf]) -> Result<Self, InspectError> {
        let own = Inspection::of(Path::new("/proc/self/exe"))?;
        let named = extra.iter().cloned().chain(search_path(PEERS));
        let others = built_peers().into_iter().chain(search_path("LD_LIBRARY_PATH"));
        let others = others.chain(configured()).chain(standard());
        let place = |is_named| move |path| Place { path, is_named };
        let mut places: Vec<_> = named.map(place(true)).chain(others.map(place(false))).collect();
        places.retain(|place| place.path.is_dir());
        let mut seen = Vec::new();
        places.retain(|place| {
            let real = fs::canonicalize(&place.path).unwrap_or_else(|_| place.path.clone());
            let is_new = !seen.contains(&real);
            seen.push(real);
            is_new
        });
        Ok(Self { machine: own.machine, places })
    }

    /// The C library of this program, whose allocator runs when nothing is preloaded.
    pub fn system(&self) -> io::Result<Allocator> {
        let mapped = maps::executable_files(&fs::read("/proc/self/maps")?);
        let libc = mapped.iter().filter_map(|path| Inspection::of(path).ok());
        let libc = libc.into_iter().find(Inspection::is_c_library);
        let libc = libc.ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, "this program runs without a C library")
        })?;
        Ok(Allocator {
            name: SYSTEM.to_owned(),
            family: Some(SYSTEM.to_owned()),
            version: libc.version,
            origin: Origin::CLibrary,
            library: hash::library(&libc.path)?,
        })
    }

    /// The libraries of a known allocator, one of each version. The first is the one to prefer:
    /// those in directories that the user named come before others, and then the newest.
    pub fn installed(&self, known: &Known) -> Vec<Allocator> {
        let mut found: Vec<(bool, Allocator)> = Vec::new();
        for (place, path) in self.candidates(known) {
            let Ok(allocator) = self.library(&path, Origin::Found) else { continue };
            let is_new = found.iter().all(|(_, own)| own.version != allocator.version);
            if is_new && allocator.family.as_deref() == Some(known.name) {
                found.push((place.is_named, allocator));
            }
        }
        found.sort_by_cached_key(|(is_named, allocator)| {
            Reverse((*is_named, version::key(allocator.version.as_deref())))
        });
        found.into_iter().map(|(_, allocator)| allocator).collect()
    }

    fn candidates<'a>(
        &'a self,
        known: &'a Known,
    ) -> impl Iterator<Item = (&'a Place, PathBuf)> + 'a {
        self.places.iter().flat_map(move |place| {
            let files = known.files.iter().flat_map(|pattern| files_like(&place.path, pattern));
            files.map(move |path| (place, path))
        })
    }

    /// Every library of every known allocator; not the C library, and not what this program
    /// carries.
    pub fn all_installed(&self) -> Vec<Allocator> {
        Self::others().flat_map(|known| self.installed(known)).collect()
    }

    /// Of all these, one library of each major version, by which an allocator that was designed
    /// anew differs from its past.
    pub fn representative(&self) -> Vec<Allocator> {
        let major = |own: &Allocator| version::key(own.version.as_deref()).first().copied();
        let mut chosen = Vec::new();
        for known in Self::others() {
            let mut of_one = self.installed(known);
            let mut seen = Vec::new();
            of_one.retain(|own| {
                let is_new = !seen.contains(&major(own));
                seen.push(major(own));
                is_new
            });
            chosen.append(&mut of_one);
        }
        chosen
    }

    fn others() -> impl Iterator<Item = &'static Known> {
        let is_other = |known: &&Known| ![FREEHOLD, SYSTEM].contains(&known.name);
        KNOWN.iter().filter(is_other).filter(|known| known.modelled().is_none())
    }

    /// The allocator in the file at `path`.
    pub fn library(&self, path: &Path, origin: Origin) -> Result<Allocator, Unfit> {
        let unreadable = |error| Unfit::Unreadable(InspectError::Read(error));
        let real = fs::canonicalize(path).map_err(unreadable)?;
        let found = Inspection::of(&real).map_err(Unfit::Unreadable)?;
        if found.machine != self.machine {
            return Err(Unfit::OtherMachine {
                found: found.machine.to_string(),
                wanted: self.machine.to_string(),
            });
        }
        if !found.exports_malloc {
            return Err(Unfit::NoMalloc);
        }
        let family = found.family.map(|known| known.name.to_owned());
        Ok(Allocator {
            name: match (&family, origin) {
                (Some(family), Origin::Found | Origin::Embedded) => family.clone(),
                _ => short_name(path),
            },
            family,
            version: found.version,
            origin,
            library: hash::library(&real).map_err(unreadable)?,
        })
    }
}

/// The name of a library without `lib` in front and `.so` behind: what heads its column.
fn short_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.split(".so").next().unwrap_or_default();
    name.strip_prefix("lib").filter(|rest| !rest.is_empty()).unwrap_or(name).to_owned()
}

fn search_path(variable: &str) -> Vec<PathBuf> {
    let value = env::var_os(variable).unwrap_or_default();
    env::split_paths(&value).filter(|path| path.is_absolute()).collect()
}

/// Where `cargo xtask peers` puts what it builds, seen from this executable, and where users keep
/// such libraries.
fn built_peers() -> Vec<PathBuf> {
    let own = env::current_exe().unwrap_or_default();
    let beside = own.ancestors().skip(1).take(2).map(|directory| directory.join("peers"));
    let data = env::var_os("XDG_DATA_HOME").filter(|path| Path::new(path).is_absolute());
    let home = || Some(PathBuf::from(env::var_os("HOME")?).join(".local/share"));
    let data = data.map(PathBuf::from).or_else(home);
    beside.chain(data.map(|data| data.join("freehold/peers"))).collect()
}

fn standard() -> Vec<PathBuf> {
    let spelled = DIRECTORIES.iter().map(|dir| dir.replace("{arch}", env::consts::ARCH));
    spelled.flat_map(|pattern| directories_like(&pattern)).collect()
}

/// The directories named in the loader's configuration files.
fn configured() -> Vec<PathBuf> {
    let mut files = vec![PathBuf::from("/etc/ld.so.conf")];
    files.extend(files_like(Path::new("/etc/ld.so.conf.d"), "*.conf"));
    let texts = files.iter().filter_map(|file| fs::read_to_string(file).ok());
    texts.flat_map(|text| listed_directories(&text)).collect()
}

/// The directories in the text of one such file. Its `include` lines are covered by reading the
/// whole of the directory that they conventionally name.
fn listed_directories(text: &str) -> Vec<PathBuf> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.filter(|line| line.starts_with('/')).map(PathBuf::from).collect()
}

/// The directories that match a pattern with a `*` in some of its components.
fn directories_like(pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from("/")];
    for component in pattern.split('/').filter(|component| !component.is_empty()) {
        found = found
            .iter()
            .flat_map(|directory| {
                if component.contains('*') {
                    files_like(directory, component)
                } else {
                    vec![directory.join(component)]
                }
            })
            .filter(|path| path.is_dir())
            .collect();
    }
    found
}

/// The entries of a directory whose names match a pattern, the greatest name first: of two
/// versions of a library, that is most often the newer.
fn files_like(directory: &Path, pattern: &str) -> Vec<PathBuf> {
    if !pattern.contains('*') {
        let path = directory.join(pattern);
        return if path.exists() { vec![path] } else { Vec::new() };
    }
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries
        .map(|entry| entry.file_name())
        .filter(|name| matches(pattern, &name.to_string_lossy()))
        .collect();
    names.sort_unstable_by(|a, b| b.cmp(a));
    names.into_iter().map(|name| directory.join(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_headed_by_the_name_without_its_trimmings() {
        assert_eq!(short_name(Path::new("./target/libmine.so")), "mine");
        assert_eq!(short_name(Path::new("/x/libjemalloc.so.2")), "jemalloc");
        assert_eq!(short_name(Path::new("odd.so.1.2")), "odd");
        assert_eq!(short_name(Path::new("lib.so")), "lib");
    }

    #[test]
    fn loader_configuration_lists_directories_among_comments_and_includes() {
        let text = "# local\ninclude /etc/ld.so.conf.d/*.conf\n/opt/a/lib # ours\n\n/opt/b/lib\n";
        assert_eq!(listed_directories(text), [Path::new("/opt/a/lib"), Path::new("/opt/b/lib")]);
    }

    #[test]
    fn a_pattern_with_stars_finds_directories() {
        assert_eq!(directories_like("/pro*/self"), [Path::new("/proc/self")]);
        assert!(directories_like("/no-such-place-*/x").is_empty());
    }

    #[test]
    fn the_system_allocator_is_the_c_library_of_this_program() {
        let finder = Finder::new(&[]).expect("own executable is ELF");
        let system = finder.system().expect("tests run with a C library");
        assert_eq!(system.name, SYSTEM);
        assert!(!system.needs_preload());
        assert_eq!(system.library.sha256.len(), 64);
    }

    #[test]
    fn a_library_without_malloc_is_refused_with_the_reason() {
        let finder = Finder::new(&[]).expect("own executable is ELF");
        let error = finder.library(Path::new("/proc/self/exe"), Origin::Given);
        assert!(matches!(error, Err(Unfit::NoMalloc)), "{error:?}");
        let text = finder.library(Path::new("/etc/passwd"), Origin::Given);
        assert!(matches!(text, Err(Unfit::Unreadable(_))), "{text:?}");
    }
}
