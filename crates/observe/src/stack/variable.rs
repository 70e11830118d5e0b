//! Where a program's data is declared: source file and line, from the debug information of its
//! file. It must not know what the data is.

use std::collections::HashMap;
use std::path::Path;

use gimli::{
    AttributeValue, DebuggingInformationEntry, EndianSlice, LittleEndian, Operation, UnitRef,
};
use object::{Object, ObjectSection};

/// Debug information beyond this size takes too long to be read for the sake of a line number.
const MOST_BYTES: u64 = 1 << 30;

type Reader<'data> = EndianSlice<'data, LittleEndian>;

/// A place in a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Declared {
    /// The source file.
    pub(crate) file: String,
    /// The line in it.
    pub(crate) line: u32,
}

/// The variables of a file that have a fixed place, by their addresses in the file.
pub(crate) fn variables(file: &object::File<'_>) -> HashMap<u64, Declared> {
    let mut found = HashMap::new();
    let size = file.section_by_name(".debug_info").map_or(0, |section| section.size());
    if size > 0 && size <= MOST_BYTES {
        // Damaged debug information ends the search; what was found before is right.
        let _ = collect(file, &mut found);
    }
    found
}

fn collect(file: &object::File<'_>, found: &mut HashMap<u64, Declared>) -> gimli::Result<()> {
    let sections = gimli::DwarfSections::load(|id| {
        let section = file.section_by_name(id.name());
        let data = section.and_then(|section| section.uncompressed_data().ok());
        Ok::<_, gimli::Error>(data.unwrap_or_default())
    })?;
    let dwarf = sections.borrow(|data| EndianSlice::new(data, LittleEndian));
    let mut units = dwarf.units();
    while let Some(header) = units.next()? {
        let unit = dwarf.unit(header)?;
        of_unit(unit.unit_ref(&dwarf), found)?;
    }
    Ok(())
}

fn of_unit(unit: UnitRef<'_, Reader<'_>>, found: &mut HashMap<u64, Declared>) -> gimli::Result<()> {
    let mut entries = unit.entries();
    while let Some(entry) = entries.next_dfs()? {
        if entry.tag() == gimli::DW_TAG_variable
            && let Some(address) = address(unit, entry)
            && let Some(declared) = declared(unit, entry)
        {
            found.insert(address, declared);
        }
    }
    Ok(())
}

/// The address of a variable that has one for the whole of the program's life.
fn address(
    unit: UnitRef<'_, Reader<'_>>,
    entry: &DebuggingInformationEntry<Reader<'_>>,
) -> Option<u64> {
    let AttributeValue::Exprloc(location) = entry.attr_value(gimli::DW_AT_location)? else {
        return None;
    };
    let mut operations = location.operations(unit.encoding());
    let address = match operations.next().ok()?? {
        Operation::Address { address } => address,
        Operation::AddressIndex { index } => unit.address(index).ok()?,
        _ => return None,
    };
    // An address that is only the beginning of a computation is that of a thread's own copy.
    operations.next().ok()?.is_none().then_some(address)
}

/// Where an entry is declared: what it says itself, or the entry that it completes.
fn declared(
    unit: UnitRef<'_, Reader<'_>>,
    entry: &DebuggingInformationEntry<Reader<'_>>,
) -> Option<Declared> {
    let own = |entry: &DebuggingInformationEntry<Reader<'_>>| {
        let line = entry.attr_value(gimli::DW_AT_decl_line)?.udata_value()?;
        let file = match entry.attr_value(gimli::DW_AT_decl_file)? {
            AttributeValue::FileIndex(index) => index,
            other => other.udata_value()?,
        };
        Some(Declared { file: source(unit, file)?, line: line as u32 })
    };
    own(entry).or_else(|| {
        let completed = entry.attr_value(gimli::DW_AT_specification)?;
        let AttributeValue::UnitRef(offset) = completed else { return None };
        own(&unit.entry(offset).ok()?)
    })
}

/// The path of a source file by its number in its unit.
fn source(unit: UnitRef<'_, Reader<'_>>, index: u64) -> Option<String> {
    let header = unit.line_program.as_ref()?.header();
    let file = header.file(index)?;
    let name = unit.attr_string(file.path_name()).ok()?.to_string_lossy().into_owned();
    let directory = file.directory(header).and_then(|directory| unit.attr_string(directory).ok());
    let directory = directory.map(|own| own.to_string_lossy().into_owned()).unwrap_or_default();
    Some(Path::new(&directory).join(name).to_string_lossy().into_owned())
}
