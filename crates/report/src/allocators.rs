//! The list of allocators in words. It must not know how they were looked for.

use std::fmt::Write as _;

use freehold_model::AllocatorList;

use crate::table::{Align, Cell, Table, Tone};

/// Digits of a hash that are shown.
const HASH_DIGITS: usize = 12;

/// What was found, and how to get what was not.
pub fn allocators(list: &AllocatorList) -> String {
    let columns = ["allocator", "version", "sha256", "library"];
    let mut found = Table::new(columns.map(|name| (name.to_owned(), Align::Left)));
    for allocator in &list.found {
        let known = allocator.family.as_deref();
        let name = match known {
            Some(family) if !is_named_after(&allocator.name, family) => {
                format!("{} ({family})", allocator.name)
            }
            Some(_) => allocator.name.clone(),
            None => format!("{} (unknown)", allocator.name),
        };
        let digits = allocator.library.sha256.get(..HASH_DIGITS).unwrap_or_default();
        found.push(vec![
            Cell::toned(name, Tone::Strong),
            Cell::plain(allocator.version.as_deref().unwrap_or("-")),
            Cell::plain(digits),
            Cell::plain(&allocator.library.path),
        ]);
    }
    let mut text = found.text();
    if list.missing.is_empty() {
        return text;
    }
    // Writing to a string cannot fail.
    let _ = writeln!(text, "\n{}", Tone::Strong.paint("Not found on this machine"));
    let width = list.missing.iter().map(|missing| missing.name.len()).max().unwrap_or_default();
    for missing in &list.missing {
        let _ = writeln!(text, "  {:width$}  {}", missing.name, missing.install);
    }
    text
}

/// Whether a name is that of the family, perhaps with a version behind it.
fn is_named_after(name: &str, family: &str) -> bool {
    name.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with('@'))
}

#[cfg(test)]
mod tests {
    use freehold_model::{Allocator, Library, Missing, Origin};

    use super::*;

    #[test]
    fn found_ones_are_a_table_and_missing_ones_say_how_to_get_them() {
        let list = AllocatorList {
            found: vec![Allocator {
                name: "mine".into(),
                family: Some("jemalloc".into()),
                version: Some("5.3.0".into()),
                origin: Origin::Given,
                library: Library {
                    path: "/x/libmine.so".into(),
                    bytes: 1,
                    sha256: "0123456789abcdef".into(),
                },
            }],
            missing: vec![Missing { name: "hoard".into(), install: "build it".into() }],
        };
        assert_eq!(
            allocators(&list),
            "  \x1b[1mallocator\x1b[0m        \x1b[1mversion\x1b[0m  \x1b[1msha256\x1b[0m        \
             \x1b[1mlibrary\x1b[0m\n\
             \x20 \x1b[1mmine (jemalloc)\x1b[0m  5.3.0    0123456789ab  /x/libmine.so\n\n\
             \x1b[1mNot found on this machine\x1b[0m\n  hoard  build it\n"
        );
    }
}
