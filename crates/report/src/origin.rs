//! Where numbers come from: the machine, the moment, and the libraries. It must not know which
//! numbers they are.

use std::fmt::Write as _;

use freehold_model::{Allocator, Provenance};

use crate::numbers::mib;
use crate::page::Section;

/// Digits of a hash that are shown: enough to tell libraries apart at a glance.
const HASH_DIGITS: usize = 12;

/// The section at the end of a page.
pub(crate) fn section(provenance: &Provenance, allocators: &[Allocator]) -> Section {
    let mut paragraph = machine(provenance);
    for allocator in allocators {
        let digits = allocator.library.sha256.get(..HASH_DIGITS).unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = write!(
            paragraph,
            "\n{} {}, sha256 {digits}, {}",
            allocator.name,
            allocator.version.as_deref().unwrap_or("of unknown version"),
            allocator.library.path
        );
    }
    Section { heading: "Where these numbers come from".to_owned(), paragraph, table: None }
}

fn machine(provenance: &Provenance) -> String {
    let machine = &provenance.machine;
    let cpu = machine.cpu.as_deref().unwrap_or("unknown processor");
    let huge = machine.huge_pages.enabled.as_deref().unwrap_or("unknown");
    format!(
        "{}, freehold {}, seed {}\n{} {}, {cpu}, {} of {} processors, {} MiB, \
         transparent huge pages: {huge}",
        provenance.started,
        provenance.tool_version,
        provenance.seed,
        machine.kernel,
        machine.architecture,
        machine.cpus_usable,
        machine.cpus_online,
        mib(machine.memory_total_bytes as f64),
    )
}
