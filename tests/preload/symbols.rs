//! What libfreehold.so shows to the dynamic loader: the functions it takes the place of, what it
//! needs itself, and how it wants to be loaded.

use std::collections::BTreeSet;
use std::fs;

use object::elf::{
    DF_1_INITFIRST, DF_1_NODELETE, DF_1_NOW, DT_FLAGS_1, DT_NEEDED, DT_SONAME, DynamicFlags1, PF_W,
    PF_X, PT_LOAD, PT_TLS,
};
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Endianness, Object, ObjectSymbol};

use crate::support::child::Child;
use crate::support::{compile, library, tools};

type Elf = ElfFile64<'static, Endianness>;

/// The symbols, one a line, that the library is to export.
const LIST: &str = include_str!("../../crates/capi/symbols.txt");

/// What the manual pages of the C library list under `malloc(3)` and `posix_memalign(3)` and those
/// that they refer to, and C23. One that were missing would be answered by the C library, whose
/// memory would then come to our free.
const C_FAMILY: &[&str] = &[
    "aligned_alloc",
    "calloc",
    "cfree",
    "free",
    "free_aligned_sized",
    "free_sized",
    "mallinfo",
    "mallinfo2",
    "malloc",
    "malloc_info",
    "malloc_stats",
    "malloc_trim",
    "malloc_usable_size",
    "mallopt",
    "memalign",
    "posix_memalign",
    "pvalloc",
    "realloc",
    "reallocarray",
    "valloc",
];

/// The most that the C library sets aside for libraries which are opened late.
const ROOM_FOR_STORAGE: u64 = 1024;

fn elf() -> Elf {
    ElfFile64::parse(freehold_embed::FREEHOLD.bytes).expect("an ELF file")
}

fn exported() -> BTreeSet<String> {
    let elf = elf();
    let defined = elf.dynamic_symbols().filter(ObjectSymbol::is_definition);
    defined.map(|symbol| symbol.name().expect("in UTF-8").to_owned()).collect()
}

/// Every form of `new` and `delete` of the C++ standard, in the names of the Itanium ABI.
fn operators() -> impl Iterator<Item = String> {
    let forms = |base: &'static str, rests: &'static [&'static str]| {
        rests.iter().map(move |rest| format!("{base}{rest}"))
    };
    let new = |base| {
        forms(base, &["", "RKSt9nothrow_t", "St11align_val_t", "St11align_val_tRKSt9nothrow_t"])
    };
    let delete = |base| {
        const RESTS: &[&str] = &[
            "",
            "RKSt9nothrow_t",
            "m",
            "St11align_val_t",
            "mSt11align_val_t",
            "St11align_val_tRKSt9nothrow_t",
        ];
        forms(base, RESTS)
    };
    new("_Znwm").chain(new("_Znam")).chain(delete("_ZdlPv")).chain(delete("_ZdaPv"))
}

/// What every program runs or reads before its first object is there, by parts of the names.
const FIRST: &[&str] = &[
    "5class4INFO",
    "5class11SMALL_CLASS",
    "freehold_rt7process4make",
    "__wrap_pthread_key_create",
    "create_with",
    "commit_around",
    "4heap4Heap7make_at",
    "find_heap",
    "claim_blocks",
    "find_medium_slab",
    "claim_pooled_medium",
    "6malloc12malloc_empty",
    "lease_magazine",
    "5stock",
    "10take_small",
];

#[test]
fn what_every_program_runs_first_stands_together() {
    /// As much as the kernel maps around a page of a file that is touched.
    const AROUND: u64 = 64 << 10;
    if !stands_together() {
        return;
    }
    let elf = elf();
    let symbols: Vec<_> = elf.symbols().filter(ObjectSymbol::is_definition).collect();
    for part in FIRST {
        let named = symbols.iter().filter(|it| it.name().is_ok_and(|it| it.contains(part)));
        let nearest = named.min_by_key(|it| it.address());
        let nearest = nearest.unwrap_or_else(|| panic!("there is no {part}"));
        let (from, to) = (nearest.address(), nearest.address() + nearest.size());
        // The tables are longer than what is read of them.
        let to = if part.contains("class") { from } else { to };
        assert!(to <= AROUND, "{part} is at {from:#x} to {to:#x}");
    }
}

/// Whether the library's file is in the order that it should be in: says so if it is not.
fn stands_together() -> bool {
    let is_so = elf().section_by_name(".rodata.near").is_some();
    if !is_so {
        tools::skip("the linker that the library was linked with does not follow together.ld");
    }
    is_so
}

/// Whatever the names of the functions are: those that are not where they should be bring another
/// sixteen pages each.
#[test]
fn a_program_that_prints_a_line_has_sixteen_pages_of_the_code_mapped() {
    const KIB: u64 = 64;
    if !stands_together() {
        return;
    }
    let once = || Child::new(compile::c("footprint.c")).arg("mapped").freehold().run();
    let mapped = (0..5).map(|_| once().succeeded().number("mapped")).min().expect("five");
    tools::say(&format!("{mapped} KiB are mapped"));
    assert!(mapped <= KIB, "{mapped} KiB are mapped");
}

#[test]
fn each_segment_has_something_in_the_file_as_valgrind_wants_it_to_read_the_symbols() {
    let elf = elf();
    let endian = elf.endian();
    let loaded = elf.elf_program_headers().iter().filter(|it| it.p_type(endian) == PT_LOAD);
    let bytes: Vec<_> = loaded.map(|segment| segment.p_filesz(endian)).collect();
    assert!(bytes.len() >= 2 && bytes.iter().all(|&bytes| bytes > 0), "{bytes:?}");
}

#[test]
fn exactly_the_listed_symbols_are_exported() {
    let listed: BTreeSet<_> =
        LIST.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect();
    let exported = exported();
    let missing: Vec<_> = listed.difference(&exported).collect();
    let unlisted: Vec<_> = exported.difference(&listed).collect();
    assert!(missing.is_empty(), "listed and not exported: {missing:?}");
    assert!(unlisted.is_empty(), "exported and not listed: {unlisted:?}");
}

#[test]
fn the_whole_malloc_family_and_every_operator_are_exported() {
    let exported = exported();
    let family = C_FAMILY.iter().map(|&name| name.to_owned()).chain(operators());
    let missing: Vec<_> = family.filter(|name| !exported.contains(name)).collect();
    assert!(missing.is_empty(), "the C or C++ library would answer {missing:?}");
}

#[test]
fn the_header_declares_what_is_exported_under_our_own_name_and_nothing_else() {
    let path = library::include_directory().join("freehold.h");
    let header = fs::read_to_string(path).expect("the header can be read");
    let code = header.split("*/").filter_map(|part| part.split("/*").next());
    let words: BTreeSet<_> = code
        .flat_map(|part| part.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'))
        .filter(|word| word.starts_with("freehold_"))
        .map(str::to_owned)
        .collect();
    // Where the figures are is for those who look at the process from outside.
    let is_function = |name: &String| !name.starts_with("freehold_figures_");
    let ours = exported().into_iter().filter(|name| name.starts_with("freehold_"));
    assert_eq!(words, ours.filter(is_function).collect());
}

#[test]
fn nothing_is_needed_but_a_few_functions_of_the_c_library_that_allocate_nothing() {
    const NEEDED: &[&str] =
        &["__errno_location", "bcmp", "dl_iterate_phdr", "fputs", "memcpy", "memmove", "memset"];
    let elf = elf();
    let needed: BTreeSet<_> = elf
        .dynamic_symbols()
        .filter(|symbol| symbol.is_undefined() && !symbol.is_weak())
        .map(|symbol| symbol.name().expect("in UTF-8"))
        .filter(|name| !name.is_empty())
        .collect();
    let unexpected: Vec<_> = needed.iter().filter(|name| !NEEDED.contains(name)).collect();
    assert!(unexpected.is_empty(), "{unexpected:?}");
}

#[test]
fn the_library_needs_only_the_c_library_and_is_initialised_first_and_never_unloaded() {
    let elf = elf();
    let table = elf.elf_dynamic_table().expect("a dynamic table");
    let (mut needed, mut names, mut flags) = (Vec::new(), Vec::new(), DynamicFlags1(0));
    for entry in &table {
        let text = || String::from_utf8_lossy(table.string(entry).expect("text")).into_owned();
        match entry.tag {
            DT_NEEDED => needed.push(text()),
            DT_SONAME => names.push(text()),
            DT_FLAGS_1 => flags = DynamicFlags1(entry.val),
            _ => {}
        }
    }
    assert_eq!(needed, ["libc.so.6"]);
    assert_eq!(names, ["libfreehold.so.0"]);
    for flag in [DF_1_INITFIRST, DF_1_NODELETE, DF_1_NOW] {
        assert!(flags.contains(flag), "{flag:#x} is missing from {flags:#x}");
    }
}

#[test]
fn the_thread_local_storage_fits_what_is_set_aside_and_no_memory_is_writable_and_executable() {
    let elf = elf();
    let endian = elf.endian();
    let segments = elf.elf_program_headers();
    let storage = segments.iter().filter(|segment| segment.p_type(endian) == PT_TLS);
    let storage: Vec<_> = storage.map(|segment| segment.p_memsz(endian)).collect();
    assert!(matches!(storage[..], [bytes] if bytes <= ROOM_FOR_STORAGE), "{storage:?}");
    for segment in segments.iter().filter(|it| it.p_type(endian) == PT_LOAD) {
        let rights = segment.p_flags(endian);
        assert!(!rights.contains(PF_W | PF_X), "{rights:#x}");
    }
}

#[test]
#[cfg(target_env = "gnu")]
fn how_many_threads_there_are_is_read_where_the_c_library_says_it_whatever_its_version() {
    const VARIABLE: &str = "__libc_single_threaded";
    let elf = elf();
    let endian = elf.endian();
    let versions = elf.elf_section_table().versions(endian, elf.data()).expect("readable");
    let versions = versions.expect("the C library's functions have versions");
    let mut symbols = elf.dynamic_symbols().filter(|symbol| symbol.name() == Ok(VARIABLE));
    let symbol = symbols.next().expect("it was to be referred to");
    assert!(symbol.is_undefined() && symbol.is_weak(), "older C libraries have none");
    let version = versions.version(versions.version_index(endian, symbol.index()).into());
    assert!(version.expect("readable").is_none(), "nor that version");
}

/// The oldest C library that the library is promised to run with: 2.28, of Debian 10 and of Red Hat
/// Enterprise Linux 8.
const OLDEST: u32 = 28;

/// The number in `GLIBC_2.34`.
fn minor(version: &str) -> u32 {
    let number = version.strip_prefix("GLIBC_2.").and_then(|rest| rest.split('.').next());
    number.and_then(|it| it.parse().ok()).unwrap_or_else(|| panic!("{version} is not known"))
}

#[test]
fn nothing_is_needed_of_a_newer_c_library_than_2_28() {
    let elf = elf();
    let endian = elf.endian();
    let versions = elf.elf_section_table().versions(endian, elf.data()).expect("readable");
    let versions = versions.expect("the C library's functions have versions");
    let (mut newer, mut known) = (BTreeSet::new(), 0);
    for symbol in elf.dynamic_symbols().filter(ObjectSymbol::is_undefined) {
        let index = versions.version_index(endian, symbol.index());
        let Some(version) = versions.version(index.into()).expect("readable") else { continue };
        let version = str::from_utf8(version.name()).expect("in UTF-8");
        known += 1;
        if minor(version) > OLDEST {
            newer.insert((symbol.name().expect("in UTF-8"), version));
        }
    }
    assert!(known > 5, "there were to be versions, of {known} symbols");
    assert_eq!(newer, BTreeSet::new());
}
