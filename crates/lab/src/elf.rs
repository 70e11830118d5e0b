//! Reading ELF files: what the loader will do with one, which symbols it defines, and what its
//! notes and texts say. It must not know any allocator.

use std::fmt;

use object::elf::{DT_NEEDED, DT_SONAME, FileHeader32, FileHeader64, PT_INTERP};
use object::read::elf::{ElfFile, FileHeader, ProgramHeader};
use object::{Architecture, Endianness, File, Object, ObjectSection, ObjectSymbol};

/// Why a file could not be read as ELF.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotElf(pub(crate) String);

impl fmt::Display for NotElf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An ELF file in memory.
pub(crate) struct Image<'data> {
    file: File<'data>,
    /// What the loader reads.
    pub(crate) header: Header,
}

/// What the dynamic loader reads of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Header {
    /// The loader that the file asks for; only executables do.
    pub(crate) interpreter: Option<String>,
    /// The name that other files know the library by.
    pub(crate) soname: Option<String>,
    /// Libraries it was linked with.
    pub(crate) needed: Vec<String>,
    /// Notes as owner, type and contents.
    notes: Vec<(String, u32, Vec<u8>)>,
}

/// Whether two files can be loaded into one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Machine {
    architecture: Architecture,
    is_64: bool,
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = if self.is_64 { 64 } else { 32 };
        write!(f, "{bits}-bit {:?}", self.architecture)
    }
}

impl<'data> Image<'data> {
    pub(crate) fn parse(bytes: &'data [u8]) -> Result<Self, NotElf> {
        if !bytes.starts_with(b"\x7fELF") {
            return Err(NotElf("not an ELF file".to_owned()));
        }
        let file = File::parse(bytes).map_err(|error| NotElf(error.to_string()))?;
        let header = match &file {
            File::Elf32(elf) => header::<FileHeader32<Endianness>>(elf),
            File::Elf64(elf) => header::<FileHeader64<Endianness>>(elf),
            _ => return Err(NotElf("not an ELF file".to_owned())),
        };
        Ok(Self { header: header.map_err(|error| NotElf(error.to_string()))?, file })
    }

    pub(crate) fn machine(&self) -> Machine {
        Machine { architecture: self.file.architecture(), is_64: self.file.is_64() }
    }

    /// Symbols that other files can bind to.
    pub(crate) fn exports(&self) -> impl Iterator<Item = &'data str> + '_ {
        defined(self.file.dynamic_symbols())
    }

    /// Symbols of the full table, which stripped files lack.
    pub(crate) fn internals(&self) -> impl Iterator<Item = &'data str> + '_ {
        defined(self.file.symbols())
    }

    /// The contents of the first note of this owner and type.
    pub(crate) fn note(&self, owner: &str, kind: u32) -> Option<&[u8]> {
        let mut notes = self.header.notes.iter();
        notes.find(|note| note.0 == owner && note.1 == kind).map(|note| note.2.as_slice())
    }

    /// The first bytes of a function, by any of its tables of symbols.
    pub(crate) fn code(&self, function: &str) -> Option<&'data [u8]> {
        let mut symbols = self.file.dynamic_symbols().chain(self.file.symbols());
        let symbol =
            symbols.find(|symbol| symbol.is_definition() && symbol.name() == Ok(function))?;
        let section = self.file.section_by_index(symbol.section_index()?).ok()?;
        let offset = usize::try_from(symbol.address().checked_sub(section.address())?).ok()?;
        section.data().ok()?.get(offset..)
    }

    /// The texts among the data: whatever lies between two zero bytes and is UTF-8.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &'data str> + '_ {
        let sections = [".rodata", ".data"].into_iter();
        let sections = sections.filter_map(|name| self.file.section_by_name(name));
        let data = sections.filter_map(|section| section.data().ok());
        data.flat_map(|data| data.split(|&byte| byte == 0))
            .filter_map(|text| std::str::from_utf8(text).ok())
            .filter(|text| !text.is_empty())
    }
}

fn defined<'data>(
    symbols: impl Iterator<Item = impl ObjectSymbol<'data>>,
) -> impl Iterator<Item = &'data str> {
    symbols.filter(ObjectSymbol::is_definition).filter_map(|symbol| symbol.name().ok())
}

fn header<Elf: FileHeader<Endian = Endianness>>(
    file: &ElfFile<'_, Elf>,
) -> object::read::Result<Header> {
    let endian = file.endian();
    let mut header = Header::default();
    for segment in file.elf_program_headers() {
        if let Some(path) = segment.interpreter(endian, file.data())? {
            header.interpreter = Some(String::from_utf8_lossy(path).into_owned());
        } else if segment.p_type(endian) == PT_INTERP {
            header.interpreter = Some(String::new());
        }
        let Some(mut notes) = segment.notes(endian, file.data())? else {
            continue;
        };
        // A malformed note ends the list; what came before it stays good.
        while let Ok(Some(note)) = notes.next() {
            let owner = String::from_utf8_lossy(note.name()).into_owned();
            header.notes.push((owner, note.n_type(endian).0, note.desc().to_vec()));
        }
    }
    let dynamic = file.elf_dynamic_table()?;
    for entry in &dynamic {
        let is_needed = entry.tag == DT_NEEDED;
        if !is_needed && entry.tag != DT_SONAME {
            continue;
        }
        let name = String::from_utf8_lossy(dynamic.string(entry)?).into_owned();
        if is_needed {
            header.needed.push(name);
        } else {
            header.soname = Some(name);
        }
    }
    Ok(header)
}
