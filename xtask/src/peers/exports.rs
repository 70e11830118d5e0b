//! Which functions a library takes over. One that took over some of the family only would get
//! memory of the C library to free.

use object::{File, Object, ObjectSymbol};
use std::fs;
use std::path::Path;

/// The functions that give memory out or take it back, and those that are asked about it. What
/// the C library makes of them (`strdup`, `reallocarray`) and the operators of C++ come to these.
const FAMILY: [&str; 10] = [
    "malloc",
    "calloc",
    "realloc",
    "free",
    "aligned_alloc",
    "posix_memalign",
    "memalign",
    "valloc",
    "pvalloc",
    "malloc_usable_size",
];

/// Those of the family that a library does not export.
pub(super) fn missing(library: &Path) -> Result<Vec<&'static str>, String> {
    let bytes = fs::read(library).map_err(|error| format!("{}: {error}", library.display()))?;
    let file = File::parse(&*bytes).map_err(|error| format!("{}: {error}", library.display()))?;
    let defined: Vec<_> = file
        .dynamic_symbols()
        .filter(ObjectSymbol::is_definition)
        .filter_map(|symbol| symbol.name().ok())
        .collect();
    Ok(FAMILY.into_iter().filter(|name| !defined.contains(name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_exports_nothing_lacks_them_all() {
        let own = std::env::current_exe().expect("a path");
        assert_eq!(missing(&own).as_deref(), Ok(&FAMILY[..]));
        assert!(missing(Path::new("/etc/passwd")).is_err());
    }
}
