//! A file that processes map code from: where its parts belong in memory, how to unwind through
//! it, and which data has names. It must not know which process maps it.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use framehop::ExplicitModuleSectionInfo;
use object::{
    Object, ObjectSection, ObjectSegment, ObjectSymbol, Section, SegmentFlags, SymbolKind,
};

/// The bytes of a section.
pub(crate) type Bytes = Arc<[u8]>;

/// Where debug files are kept, by build-id.
const DEBUG_FILES: &str = "/usr/lib/debug/.build-id";

/// A part of the file that is loaded.
#[derive(Debug, Clone)]
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
    /// Whether it is an allocator's: it exports `malloc` and is not the C library.
    pub(crate) is_allocator: bool,
    /// Whether it is the C library or the loader.
    pub(crate) is_c_library: bool,
    loads: Vec<Load>,
    /// How to unwind through it.
    sections: ExplicitModuleSectionInfo<Bytes>,
    data: Vec<Datum>,
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
        let loads = file.segments().filter_map(|segment| load(&segment)).collect();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_c_library = name.starts_with("libc.so") || name.starts_with("ld-linux");
        let exports: HashSet<_> = file
            .dynamic_symbols()
            .filter(ObjectSymbol::is_definition)
            .filter_map(|symbol| symbol.name().ok())
            .collect();
        Some(Self {
            path: path.to_owned(),
            is_allocator: exports.contains("malloc") && !is_c_library,
            is_c_library,
            loads,
            sections: sections(&file),
            data: data(&file),
            mapping: mapping(&file),
        })
    }

    /// The distance from the file's own addresses to a mapping of it.
    pub(crate) fn bias(&self, start: u64, offset: u64) -> Option<u64> {
        // A mapping begins at a page, and so may begin before the part that it is for.
        let load = self.loads.iter().find(|load| load.file.end > offset)?;
        let own = load.addresses.start.wrapping_sub(load.file.start).wrapping_add(offset);
        Some(start.wrapping_sub(own))
    }

    /// The addresses that the whole file takes, of its own.
    pub(crate) fn span(&self) -> Range<u64> {
        let start = self.loads.iter().map(|load| load.addresses.start).min().unwrap_or(0);
        let end = self.loads.iter().map(|load| load.addresses.end).max().unwrap_or(0);
        start..end
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
}

fn load<'data>(segment: &impl ObjectSegment<'data>) -> Option<Load> {
    let SegmentFlags::Elf { .. } = segment.flags() else { return None };
    let (offset, size) = segment.file_range();
    let address = segment.address();
    let addresses = address..address + segment.size();
    Some(Load { file: offset..offset + size, addresses })
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
    let separate = debug_file(file).and_then(|bytes| {
        let file = object::File::parse(&*bytes).ok()?;
        Some(data_symbols(file.symbols()))
    });
    separate.unwrap_or_else(|| data_symbols(file.dynamic_symbols()))
}

fn data_symbols<'data>(symbols: impl Iterator<Item = impl ObjectSymbol<'data>>) -> Vec<Datum> {
    let data = symbols.filter(|symbol| symbol.kind() == SymbolKind::Data && symbol.size() > 0);
    data.filter_map(|symbol| {
        let addresses = symbol.address()..symbol.address() + symbol.size();
        Some(Datum { addresses, name: symbol.name().ok()?.to_owned() })
    })
    .collect()
}

fn debug_file(file: &object::File<'_>) -> Option<Vec<u8>> {
    let id = file.build_id().ok()??;
    let (first, rest) = id.split_first()?;
    let mut path = format!("{DEBUG_FILES}/{first:02x}/");
    for byte in rest {
        // Writing to a string cannot fail.
        let _ = write!(path, "{byte:02x}");
    }
    fs::read(path + ".debug").ok()
}
