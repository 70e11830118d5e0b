//! How each peer is built. The flags are those of its project's release build.

use super::packages::Package;
use super::steps::{Log, copy_tree, jobs};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An allocator to compare with.
pub(super) struct Peer {
    /// What it is called here.
    pub(super) name: &'static str,
    /// The package that carries its sources.
    pub(super) package: &'static str,
    /// The name of its library without `.so` and what follows.
    pub(super) stem: &'static str,
    /// Programs that its build runs.
    pub(super) needs: &'static [&'static str],
    /// The version of the sources in the package.
    pub(super) version: fn(&Package) -> Result<String, String>,
    /// Builds the library and says where it is.
    pub(super) build: fn(&Site<'_>) -> Result<PathBuf, String>,
}

/// Where a peer is built.
pub(super) struct Site<'a> {
    /// The package with the sources, which must not be changed.
    pub(super) package: &'a Package,
    /// An empty directory.
    pub(super) scratch: PathBuf,
}

pub(super) const PEERS: [Peer; 5] = [
    Peer {
        name: "jemalloc",
        package: "tikv-jemalloc-sys",
        stem: "libjemalloc",
        needs: &["cc", "c++", "make", "sh"],
        version: jemalloc_version,
        build: jemalloc,
    },
    Peer {
        name: "mimalloc2",
        package: "libmimalloc-sys2",
        stem: "libmimalloc",
        needs: &["cc", "c++", "cmake"],
        version: |package| mimalloc_version(&package.directory.join(MIMALLOC_2)),
        build: |site| mimalloc(site, MIMALLOC_2),
    },
    Peer {
        name: "mimalloc3",
        package: "libmimalloc-sys2",
        stem: "libmimalloc",
        needs: &["cc", "c++", "cmake"],
        version: |package| mimalloc_version(&package.directory.join(MIMALLOC_3)),
        build: |site| mimalloc(site, MIMALLOC_3),
    },
    Peer {
        name: "snmalloc",
        package: "snmalloc-sys",
        stem: "libsnmallocshim",
        needs: &["cc", "c++", "cmake"],
        version: |package| Ok(package.version.clone()),
        build: snmalloc,
    },
    Peer {
        name: "rpmalloc",
        package: "rpmalloc-sys",
        stem: "librpmallocwrap",
        needs: &["cc"],
        version: rpmalloc_version,
        build: rpmalloc,
    },
];

const MIMALLOC_2: &str = "c_src/mimalloc";
const MIMALLOC_3: &str = "c_src/mimalloc3";

/// The package's version ends in what `git describe` said: `0.7.1+5.3.1-0-g…`.
fn jemalloc_version(package: &Package) -> Result<String, String> {
    let described = jemalloc_description(package)?;
    Ok(described.split('-').next().unwrap_or_default().to_owned())
}

fn jemalloc_description(package: &Package) -> Result<&str, String> {
    let described = package.version.split_once('+').map(|(_, described)| described);
    described.ok_or_else(|| format!("{} does not say which jemalloc it has", package.describe()))
}

fn jemalloc(site: &Site<'_>) -> Result<PathBuf, String> {
    let Site { package, scratch } = site;
    let log = Log::new(scratch);
    let tree = scratch.join("jemalloc");
    copy_tree(&package.directory.join("jemalloc"), &tree)?;
    // The package carries the generated script beside the sources.
    copy_tree(&package.directory.join("configure"), &tree)?;
    let version = format!("--with-version={}", jemalloc_description(package)?);
    log.run(Command::new("sh").args(["./configure", &version]).current_dir(&tree))?;
    let make = ["-j", &jobs(), "build_lib_shared"];
    log.run(Command::new("make").args(make).current_dir(&tree))?;
    Ok(tree.join("lib/libjemalloc.so.2"))
}

/// The version in mimalloc's header: `#define MI_MALLOC_VERSION 30600` is 3.6.0.
fn mimalloc_version(tree: &Path) -> Result<String, String> {
    let header = tree.join("include/mimalloc.h");
    let text = fs::read_to_string(&header).map_err(|e| format!("{}: {e}", header.display()))?;
    let number = defined_number(&text, "MI_MALLOC_VERSION");
    let number = number.ok_or_else(|| format!("{}: no version", header.display()))?;
    Ok(format!("{}.{}.{}", number / 10_000, number / 100 % 100, number % 100))
}

fn defined_number(header: &str, name: &str) -> Option<u32> {
    header.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let is_it = words.next() == Some("#define") && words.next() == Some(name);
        words.next().filter(|_| is_it)?.parse().ok()
    })
}

fn mimalloc(site: &Site<'_>, tree: &str) -> Result<PathBuf, String> {
    let options = ["MI_BUILD_TESTS=OFF", "MI_BUILD_STATIC=OFF", "MI_BUILD_OBJECT=OFF"];
    cmake(site, tree, &options, "mimalloc")?;
    Ok(site.scratch.join("libmimalloc.so"))
}

fn snmalloc(site: &Site<'_>) -> Result<PathBuf, String> {
    cmake(site, "upstream", &["SNMALLOC_BUILD_TESTING=OFF"], "snmallocshim")?;
    Ok(site.scratch.join("libsnmallocshim.so"))
}

fn cmake(site: &Site<'_>, tree: &str, options: &[&str], target: &str) -> Result<(), String> {
    let log = Log::new(&site.scratch);
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(site.package.directory.join(tree)).arg("-B").arg(&site.scratch);
    configure.args(["-G", "Unix Makefiles", "-D", "CMAKE_BUILD_TYPE=Release"]);
    configure.args(options.iter().flat_map(|option| ["-D", option]));
    log.run(&mut configure)?;
    let mut build = Command::new("cmake");
    build.arg("--build").arg(&site.scratch);
    log.run(build.args(["--target", target, "--parallel", &jobs()]))
}

/// The change log begins with the version.
fn rpmalloc_version(package: &Package) -> Result<String, String> {
    let path = package.directory.join("rpmalloc/CHANGELOG");
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

/// Its own build runs through scripts of its own; these are what they come to for the library
/// called `rpmallocwrap` in the configuration `release`. Linking is a step of its own there too:
/// with `-ffast-math`, the linker would add code that changes the arithmetic of every program.
fn rpmalloc(site: &Site<'_>) -> Result<PathBuf, String> {
    const FLAGS: &str = "-std=c11 -D_GNU_SOURCE=1 -DRPMALLOC_COMPILE=1 -DBUILD_RELEASE=1 \
        -DENABLE_PRELOAD=1 -DENABLE_OVERRIDE=1 -O3 -g -funroll-loops -funit-at-a-time \
        -fstrict-aliasing -ffast-math -fPIC";
    let log = Log::new(&site.scratch);
    let (object, library) =
        (site.scratch.join("rpmalloc.o"), site.scratch.join("librpmallocwrap.so"));
    let source = site.package.directory.join("rpmalloc/rpmalloc");
    let mut compile = c_compiler();
    compile.args(FLAGS.split_ascii_whitespace()).arg("-I").arg(&source);
    log.run(compile.arg("-c").arg(source.join("rpmalloc.c")).arg("-o").arg(&object))?;
    let mut link = c_compiler();
    log.run(link.args(["-shared", "-pthread", "-o"]).arg(&library).arg(&object).arg("-ldl"))?;
    Ok(library)
}

fn c_compiler() -> Command {
    Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_read_where_it_is_defined_and_nowhere_else() {
        let header = "#define MI_MALLOC_VERSION_X 1\n// MI_MALLOC_VERSION 2\n\
                      #define MI_MALLOC_VERSION 30600   // comment\n";
        assert_eq!(defined_number(header, "MI_MALLOC_VERSION"), Some(30_600));
        assert_eq!(defined_number(header, "MI_VERSION"), None);
    }

    #[test]
    fn no_name_is_used_twice() {
        let mut names = PEERS.map(|peer| peer.name);
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }
}
