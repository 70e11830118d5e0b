//! A name of its own for every allocator of a document, since a name heads a column.

use freehold_model::Allocator;

/// The name of `allocator` among `others`: its own, or where that is taken with the version behind
/// it, or else a number.
pub fn distinct_name(allocator: &Allocator, others: &[Allocator]) -> String {
    let own = &allocator.name;
    let versioned = allocator.version.iter().map(|version| format!("{own}@{version}"));
    let numbered = (2..).map(|number| format!("{own}-{number}"));
    let mut names = [own.clone()].into_iter().chain(versioned).chain(numbered);
    let is_free = |name: &String| others.iter().all(|other| other.name != *name);
    names.find(is_free).unwrap_or_default()
}
