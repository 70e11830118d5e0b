//! Allocators and results that tests are made of.

use freehold_model::{
    Allocator, Better, Calls, HarnessRun, Library, Memory, Metric, Origin, Params, Proof, Resident,
    Usage,
};

/// An allocator of which nothing but the name matters.
pub(crate) fn library(name: &str) -> Allocator {
    Allocator {
        name: name.to_owned(),
        family: None,
        version: None,
        origin: Origin::CLibrary,
        library: Library { path: String::new(), bytes: 0, sha256: String::new() },
    }
}

/// A run of a harness with this result, and memory that falls from 4000 bytes to 1000.
pub(crate) fn harness_run(better: Better, unit: &str, value: f64) -> HarnessRun {
    let resident = |rss_bytes| Resident { rss_bytes, ..Resident::default() };
    HarnessRun {
        harness: String::new(),
        params: Params::new(),
        proof: Proof {
            malloc_object: String::new(),
            free_object: String::new(),
            mapped_objects: Vec::new(),
        },
        metric: Metric { name: "m".to_owned(), unit: unit.to_owned(), better, value },
        elapsed_seconds: 1.0,
        details: Vec::new(),
        series: None,
        timeline: Vec::new(),
        calls: Calls::default(),
        memory: Memory {
            before: resident(1),
            peak_rss_bytes: 4000,
            peak_virtual_bytes: 0,
            peak_live_bytes: 3000,
            end: None,
            harness_bytes: 0,
            freed: resident(2000),
            settled: Some(resident(1000)),
        },
        usage: Usage { minor_faults: 7, ..Usage::default() },
        verified_blocks: None,
        false_sharing: None,
    }
}
