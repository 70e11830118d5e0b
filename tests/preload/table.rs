//! The table of hazards in `docs/compatibility.md`: complete, and of tests that there are.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::support::compile;

const HAZARDS: u32 = 36;

/// The cells of each hazard's row, by its number.
fn rows() -> BTreeMap<u32, Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/compatibility.md");
    let text = fs::read_to_string(path).expect("the table can be read");
    let rows = text.lines().filter_map(|line| {
        let cells: Vec<_> = line.strip_prefix("| H")?.split(" | ").map(str::to_owned).collect();
        Some((cells[0].parse().ok()?, cells))
    });
    rows.collect()
}

#[test]
fn every_hazard_has_a_row_that_names_tests_or_says_that_it_was_not_run() {
    let rows = rows();
    assert_eq!(rows.keys().copied().collect::<Vec<_>>(), (1..=HAZARDS).collect::<Vec<_>>());
    for (number, cells) in rows {
        let [_, _, _, tests, result] = &cells[..] else { panic!("H{number} has {cells:?}") };
        let files: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!files.is_empty() || result.contains("not run"), "H{number} names no test");
        for file in files {
            let path = compile::sources().join(file).with_extension("rs");
            assert!(path.exists(), "H{number}: there is no test {}", path.display());
        }
    }
}
