//! The allocators this toolbox knows by name, and by what each is recognised. It must not know
//! where files are: it names them, `find` looks for them.

use std::iter;

/// How the version of an allocator is read from its file, without running any of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VersionSource {
    /// A function of this name does nothing but return the version as a number.
    ConstantFunction(&'static str),
    /// A text of the file starts with this, and the version follows.
    TextAfter(&'static str),
    /// A text of the file is a version followed by a commit, as `git describe` prints it.
    Described,
    /// A directory of its path is named after the version.
    Directory,
    /// Only the name of the file says anything.
    FileName,
}

/// A known allocator.
#[derive(Debug, PartialEq, Eq)]
pub struct Known {
    /// The name that selects it.
    pub name: &'static str,
    /// Other names people use for it.
    pub(crate) aliases: &'static [&'static str],
    /// Names of its library, in order of preference. A `*` stands for any characters.
    pub(crate) files: &'static [&'static str],
    /// Symbols that only it defines. A `*` at the end stands for any characters.
    pub(crate) symbols: &'static [&'static str],
    /// How its version is read.
    pub(crate) version: VersionSource,
}

/// The name of our own allocator.
pub const FREEHOLD: &str = "freehold";

/// The name of the C library's allocator.
pub const SYSTEM: &str = "system";

/// What the names of models of classic allocators begin with.
const MODEL: &str = "model:";

/// A model of a classic allocator, which this program carries.
const fn model(name: &'static str, symbols: &'static [&'static str]) -> Known {
    let version = VersionSource::TextAfter("freehold model ");
    Known { name, aliases: &[], files: &[], symbols, version }
}

/// Every known allocator, in the order in which they are shown. Freehold is recognised by its
/// note, and the C library by being it; both are here for their names.
pub static KNOWN: [Known; 16] = [
    Known {
        name: FREEHOLD,
        aliases: &["self"],
        files: &["libfreehold.so"],
        symbols: &["freehold_version"],
        version: VersionSource::FileName,
    },
    Known {
        name: SYSTEM,
        aliases: &["libc", "glibc", "musl", "default", "ptmalloc"],
        files: &["libc.so.*", "libc-*.so", "ld-musl-*"],
        symbols: &["gnu_get_libc_version", "__libc_malloc", "__libc_malloc_impl"],
        version: VersionSource::TextAfter("stable release version "),
    },
    Known {
        name: "jemalloc",
        aliases: &["je"],
        files: &["libjemalloc.so*"],
        symbols: &["mallctl", "je_mallctl", "_rjem_mallctl", "jemalloc_constructor"],
        version: VersionSource::Described,
    },
    Known {
        name: "mimalloc",
        aliases: &["mi"],
        files: &["libmimalloc.so*"],
        symbols: &["mi_version"],
        version: VersionSource::ConstantFunction("mi_version"),
    },
    Known {
        name: "tcmalloc",
        aliases: &["tc", "gperftools"],
        files: &["libtcmalloc_minimal.so.4", "libtcmalloc_minimal.so*", "libtcmalloc.so*"],
        symbols: &["tc_version", "MallocExtension_Internal_*"],
        version: VersionSource::TextAfter("gperftools "),
    },
    Known {
        name: "scudo",
        aliases: &[],
        files: &["libclang_rt.scudo_standalone*.so", "libscudo.so*"],
        symbols: &["__scudo_print_stats", "__scudo_get_stack_depot_addr"],
        version: VersionSource::Directory,
    },
    Known {
        name: "tbbmalloc",
        aliases: &["tbb", "onetbb"],
        files: &["libtbbmalloc_proxy.so.2", "libtbbmalloc_proxy.so*"],
        symbols: &["__TBB_malloc_proxy", "scalable_malloc"],
        version: VersionSource::TextAfter("TBBmalloc: VERSION\t\t"),
    },
    Known {
        name: "hoard",
        aliases: &[],
        files: &["libhoard.so*"],
        symbols: &["_ZN5Hoard*", "_Z16getMainHoardHeapv"],
        version: VersionSource::FileName,
    },
    Known {
        name: "snmalloc",
        aliases: &["sn"],
        files: &["libsnmallocshim.so*", "libsnmallocshim-*.so"],
        symbols: &["sn_malloc", "sn_rust_alloc", "_ZN8snmalloc*"],
        version: VersionSource::FileName,
    },
    Known {
        name: "rpmalloc",
        aliases: &["rp"],
        files: &["librpmallocwrap.so*", "librpmalloc.so*"],
        symbols: &["rpmalloc", "rpmalloc_initialize"],
        version: VersionSource::FileName,
    },
    Known {
        name: "llalloc",
        aliases: &["lockless"],
        files: &["libllalloc.so*"],
        symbols: &[],
        version: VersionSource::FileName,
    },
    model("model:serial", &["freehold_model_serial"]),
    model("model:mtmalloc", &["freehold_model_mtmalloc"]),
    model("model:mtmalloc-exclusive", &["freehold_model_mtmalloc_exclusive"]),
    model("model:private", &["freehold_model_private"]),
    model("model:ownership", &["freehold_model_ownership"]),
];

impl Known {
    /// The allocator of this name or alias.
    pub fn named(name: &str) -> Option<&'static Self> {
        KNOWN.iter().find(|known| known.all_names().any(|own| own.eq_ignore_ascii_case(name)))
    }

    /// What it is a model of, if it is one.
    pub fn modelled(&self) -> Option<&'static str> {
        self.name.strip_prefix(MODEL)
    }

    /// Its name and its aliases.
    pub fn all_names(&self) -> impl Iterator<Item = &'static str> {
        iter::once(self.name).chain(self.aliases.iter().copied())
    }

    /// Whether a file of this name is its library.
    pub(crate) fn owns_file(&self, file_name: &str) -> bool {
        self.files.iter().any(|pattern| matches(pattern, file_name))
    }

    /// Whether this symbol marks it.
    pub(crate) fn owns_symbol(&self, symbol: &str) -> bool {
        self.symbols.iter().any(|pattern| matches(pattern, symbol))
    }
}

/// Whether `text` matches `pattern`, in which each `*` stands for any characters.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, after)) => text.strip_prefix(before).is_some_and(|rest| {
            rest.char_indices()
                .map(|(at, _)| at)
                .chain([rest.len()])
                .any(|at| matches(after, &rest[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_characters_and_for_none() {
        assert!(matches("libhoard.so*", "libhoard.so"));
        assert!(matches("libhoard.so*", "libhoard.so.3"));
        assert!(matches("libclang_rt.scudo*.so", "libclang_rt.scudo_standalone-x86_64.so"));
        assert!(!matches("libhoard.so", "libhoard.so.3"));
        assert!(!matches("libclang_rt.scudo*.so", "libclang_rt.scudo.a"));
    }

    #[test]
    fn names_and_aliases_select_an_allocator_whatever_their_case() {
        assert_eq!(Known::named("JeMalloc").map(|known| known.name), Some("jemalloc"));
        assert_eq!(Known::named("glibc").map(|known| known.name), Some(SYSTEM));
        assert_eq!(Known::named("nomalloc"), None);
    }

    #[test]
    fn no_name_is_used_twice() {
        let mut names: Vec<_> = KNOWN.iter().flat_map(Known::all_names).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
