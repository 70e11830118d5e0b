//! A file that processes map code from: where its parts belong in memory, how to unwind through
//! it, and which data has names. It must not know which process maps it.

use std::collections::{HashMap, HashSet};
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use framehop::ExplicitModuleSectionInfo;
use object::elf::PF_X;
use object::{
    Object, ObjectSection, ObjectSegment, ObjectSymbol, Section, SegmentFlags, SymbolKind,
};

use super::variable::{Declared, variables};

/// The bytes of a section.
pub(crate) type Bytes = Arc<[u8]>;

/// Where debug files are kept.
const DEBUG_FILES: [&str; 2] = ["/usr/lib/debug", "/lib/debug"];

/// Directories like that which are asked first, as a list like that of `PATH`.
const DEBUG_DIRECTORIES: &str = "FREEHOLD_DEBUG_DIRS";

/// A part of the file that is loaded, with code in it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Load {
    /// Where it is in the file.
    file: Range<u64>,
    /// Where it belongs, in the file's own addresses.
    addresses: Range<u64>,
}

/// Data that has a name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Datum {
    addresses: Range<u64>,
    name: String,
}

/// A file with code.
pub(crate) struct CodeFile {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// Where its symbols are: itself, or its separate debug file.
    pub(crate) symbols: PathBuf,
    /// Whether it is an allocator's: it exports `malloc` and is not the C library.
    pub(crate) is_allocator: bool,
    /// Whether it is the C library or the loader.
    pub(crate) is_c_library: bool,
    code: Vec<Load>,
    /// The addresses that all parts take.
    span: Range<u64>,
    /// How to unwind through it.
    sections: ExplicitModuleSectionInfo<Bytes>,
    data: Vec<Datum>,
    /// Where data is declared, by its address; read when it is asked for first.
    declared: OnceLock<HashMap<u64, Declared>>,
    /// Where exported functions are that ask the system for memory.
    mapping: Vec<(&'static str, u64)>,
}

/// Functions that ask the system for memory, and give it back.
const MAPPING: [&str; 4] = ["mmap", "munmap", "madvise", "mprotect"];

impl CodeFile {
    /// Reads a file; nothing for one that is gone or is no ELF file.
    pub(crate) fn read(path: &Path) -> Option<Self> {
        let bytes = fs::read(path).ok()?;
        let file = object::File::parse(&*bytes).ok()?;
        let loads: Vec<_> = file.segments().filter_map(|segment| load(&segment)).collect();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_c_library = name.starts_with("libc.so") || name.starts_with("ld-linux");
        let exports: HashSet<_> = file
            .dynamic_symbols()
            .filter(ObjectSymbol::is_definition)
            .filter_map(|symbol| symbol.name().ok())
            .collect();
        Some(Self {
            path: path.to_owned(),
            symbols: separate(&file).unwrap_or_else(|| path.to_owned()),
            is_allocator: exports.contains("malloc") && !is_c_library,
            is_c_library,
            span: span(loads.iter().map(|(load, _)| load)),
            code: loads.into_iter().filter_map(|(load, is_code)| is_code.then_some(load)).collect(),
            sections: sections(&file),
            data: data(&file),
            declared: OnceLock::new(),
            mapping: mapping(&file),
        })
    }

    /// The distance from the file's own addresses to a mapping of its code.
    pub(crate) fn bias(&self, start: u64, offset: u64) -> Option<u64> {
        bias(&self.code, start, offset)
    }

    /// The addresses that the whole file takes, of its own.
    pub(crate) fn span(&self) -> Range<u64> {
        self.span.clone()
    }

    /// What the unwinder needs of it.
    pub(crate) fn sections(&self) -> ExplicitModuleSectionInfo<Bytes> {
        let own = &self.sections;
        ExplicitModuleSectionInfo {
            base_svma: own.base_svma,
            text_svma: own.text_svma.clone(),
            text: own.text.clone(),
            got_svma: own.got_svma.clone(),
            eh_frame_svma: own.eh_frame_svma.clone(),
            eh_frame: own.eh_frame.clone(),
            eh_frame_hdr_svma: own.eh_frame_hdr_svma.clone(),
            eh_frame_hdr: own.eh_frame_hdr.clone(),
            ..ExplicitModuleSectionInfo::default()
        }
    }

    /// Where functions are that ask the system for memory.
    pub(crate) fn mapping(&self) -> &[(&'static str, u64)] {
        &self.mapping
    }

    /// The code, and where it begins in the file's own addresses.
    pub(crate) fn code(&self) -> Option<(&[u8], u64)> {
        Some((self.sections.text.as_deref()?, self.sections.text_svma.as_ref()?.start))
    }

    /// The name of the data at an address of the file, and how far into it that is.
    pub(crate) fn datum(&self, address: u64) -> Option<(&str, u64)> {
        let found = self.data.iter().find(|datum| datum.addresses.contains(&address))?;
        Some((&found.name, address - found.addresses.start))
    }

    /// Where the data at an address of the file is declared.
    pub(crate) fn declared(&self, address: u64) -> Option<&Declared> {
        let found = self.data.iter().find(|datum| datum.addresses.contains(&address))?;
        let declared = self.declared.get_or_init(|| declared(&self.path).unwrap_or_default());
        declared.get(&found.addresses.start)
    }
}

/// A part, and whether there is code in it.
fn load<'data>(segment: &impl ObjectSegment<'data>) -> Option<(Load, bool)> {
    let SegmentFlags::Elf { p_flags, .. } = segment.flags() else { return None };
    let (offset, size) = segment.file_range();
    let address = segment.address();
    let addresses = address..address + segment.size();
    Some((Load { file: offset..offset + size, addresses }, p_flags.0 & PF_X.0 != 0))
}

/// The distance from a file's own addresses to a mapping of one of these parts of it.
fn bias(code: &[Load], start: u64, offset: u64) -> Option<u64> {
    // A mapping begins at a page, and so may begin before the part that it is for; another part
    // may end in that page, and be meant to lie elsewhere.
    let load = code.iter().find(|load| load.file.end > offset)?;
    let own = load.addresses.start.wrapping_sub(load.file.start).wrapping_add(offset);
    Some(start.wrapping_sub(own))
}

fn span<'a>(loads: impl Iterator<Item = &'a Load> + Clone) -> Range<u64> {
    let start = loads.clone().map(|load| load.addresses.start).min().unwrap_or(0);
    start..loads.map(|load| load.addresses.end).max().unwrap_or(0)
}

fn sections(file: &object::File<'_>) -> ExplicitModuleSectionInfo<Bytes> {
    let range = |section: &Section<'_, '_>| section.address()..section.address() + section.size();
    let bytes = |section: &Section<'_, '_>| section.data().ok().map(Bytes::from);
    let named = |name: &str| file.section_by_name(name);
    let (text, got) = (named(".text"), named(".got"));
    let (eh_frame, eh_frame_hdr) = (named(".eh_frame"), named(".eh_frame_hdr"));
    ExplicitModuleSectionInfo {
        base_svma: 0,
        text_svma: text.as_ref().map(range),
        text: text.as_ref().and_then(bytes),
        got_svma: got.as_ref().map(range),
        eh_frame_svma: eh_frame.as_ref().map(range),
        eh_frame: eh_frame.as_ref().and_then(bytes),
        eh_frame_hdr_svma: eh_frame_hdr.as_ref().map(range),
        eh_frame_hdr: eh_frame_hdr.as_ref().and_then(bytes),
        ..ExplicitModuleSectionInfo::default()
    }
}

fn mapping(file: &object::File<'_>) -> Vec<(&'static str, u64)> {
    let exported = file.dynamic_symbols().filter(ObjectSymbol::is_definition);
    let known = |symbol: object::Symbol<'_, '_>| {
        let name = MAPPING.into_iter().find(|name| symbol.name() == Ok(name))?;
        Some((name, symbol.address()))
    };
    exported.filter_map(known).collect()
}

/// The names of data: from the file, or from its debug file if it was stripped.
fn data(file: &object::File<'_>) -> Vec<Datum> {
    let own = data_symbols(file.symbols());
    if !own.is_empty() {
        return own;
    }
    let separate = debug_file(file).and_then(|path| fs::read(path).ok()).and_then(|bytes| {
        let file = object::File::parse(&*bytes).ok()?;
        Some(data_symbols(file.symbols()))
    });
    separate.unwrap_or_else(|| data_symbols(file.dynamic_symbols()))
}

/// Where the data of the file at a path is declared: told by the file, or by its debug file.
fn declared(path: &Path) -> Option<HashMap<u64, Declared>> {
    let bytes = fs::read(path).ok()?;
    let file = object::File::parse(&*bytes).ok()?;
    let own = variables(&file);
    if !own.is_empty() {
        return Some(own);
    }
    let separate = fs::read(debug_file(&file)?).ok()?;
    Some(variables(&object::File::parse(&*separate).ok()?))
}

fn data_symbols<'data>(symbols: impl Iterator<Item = impl ObjectSymbol<'data>>) -> Vec<Datum> {
    let data = symbols.filter(|symbol| symbol.kind() == SymbolKind::Data && symbol.size() > 0);
    data.filter_map(|symbol| {
        let addresses = symbol.address()..symbol.address() + symbol.size();
        Some(Datum { addresses, name: symbol.name().ok()?.to_owned() })
    })
    .collect()
}

/// The debug file of a file that has no debug information of its own.
fn separate(file: &object::File<'_>) -> Option<PathBuf> {
    let is_stripped = file.section_by_name(".debug_info").is_none();
    if is_stripped { debug_file(file) } else { None }
}

/// The separate debug file that has a file's build-id.
fn debug_file(file: &object::File<'_>) -> Option<PathBuf> {
    let id = file.build_id().ok()??;
    let (first, rest) = id.split_first()?;
    let mut name = format!(".build-id/{first:02x}/");
    for byte in rest {
        // Writing to a string cannot fail.
        let _ = write!(name, "{byte:02x}");
    }
    name.push_str(".debug");
    let places = debug_directories().into_iter().map(|directory| directory.join(&name));
    places.into_iter().find(|path| path.is_file())
}

/// The directories in which debug files are looked for.
pub(crate) fn debug_directories() -> Vec<PathBuf> {
    let own = env::var_os(DEBUG_DIRECTORIES).unwrap_or_default();
    let own: Vec<PathBuf> = env::split_paths(&own).filter(|path| path.is_absolute()).collect();
    own.into_iter().chain(DEBUG_FILES.map(PathBuf::from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_of_code_that_begins_in_the_page_of_another_part_is_taken_for_code() {
        // As linkers put it that waste no space in the file: read-only data up to 0x5c80, code
        // from there, one page further on in memory.
        let code = Load { file: 0x5c80..0x9000, addresses: 0x6c80..0xa000 };
        assert_eq!(bias(&[code], 0x7f00_0000_6000, 0x5000), Some(0x7f00_0000_0000));
    }
}
