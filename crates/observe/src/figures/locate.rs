//! Finding symbols in the memory of a process.

use std::fs;
use std::path::Path;

use object::{Object, ObjectSegment, ObjectSymbol};

use crate::proc::maps::{self, Mapping};

/// Where the first symbol stands whose name fits, in any file that the process maps: among those
/// that the file exports, or else among all that it has.
pub(crate) fn symbol(pid: u32, fits: &dyn Fn(&str) -> bool) -> Option<u64> {
    let text = fs::read(format!("/proc/{pid}/maps")).ok()?;
    let mappings = maps::parse(&text);
    // Each file once, at its first mapping.
    let firsts = mappings.iter().filter(|mapping| mapping.offset == 0);
    firsts.into_iter().find_map(|mapping| within(pid, mapping, fits))
}

fn within(pid: u32, mapping: &Mapping, fits: &dyn Fn(&str) -> bool) -> Option<u64> {
    let inside = Path::new("/proc").join(pid.to_string()).join("root");
    let inside = inside.join(mapping.path.strip_prefix("/").ok()?);
    let bytes = fs::read(&inside).or_else(|_| fs::read(&mapping.path)).ok()?;
    let file = object::File::parse(&*bytes).ok()?;
    let first = file.segments().map(|segment| segment.address()).min()?;
    let all = file.dynamic_symbols().chain(file.symbols());
    let found =
        all.filter(ObjectSymbol::is_definition).find(|symbol| symbol.name().is_ok_and(fits));
    // The first mapping begins at a page.
    let page_of_first = first & !0xfff;
    Some(found?.address().wrapping_sub(page_of_first).wrapping_add(mapping.addresses.start))
}
