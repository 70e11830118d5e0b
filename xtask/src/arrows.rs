//! Which crate of the workspace may use which: the arrows of `docs/design.md`, and no others.

use crate::metadata::{packages, text};
use serde_json::Value;

/// Each crate, and the crates of the workspace that it may use.
const ARROWS: &[(&str, &[&str])] = &[
    ("freehold-sys", &[]),
    ("freehold-stats", &[]),
    ("freehold-sync", &["freehold-sys"]),
    ("freehold-heap", &["freehold-sys", "freehold-sync", "freehold-stats"]),
    ("freehold-rt", &["freehold-sys", "freehold-sync", "freehold-stats", "freehold-heap"]),
    ("freehold-shadow", &["freehold-sys", "freehold-heap"]),
    ("freehold", &["freehold-rt"]),
    ("freehold-cxx", &["freehold-sys"]),
    ("freehold-capi", &["freehold-sys", "freehold-cxx", "freehold-rt"]),
    ("freehold-trace", &[]),
    ("freehold-recorder", &["freehold-sys", "freehold-sync", "freehold-cxx", "freehold-trace"]),
    ("freehold-asker", &["freehold-sys", "freehold-sync", "freehold-trace"]),
    ("freehold-classic", &["freehold-sys", "freehold-sync"]),
    ("freehold-model-serial", &["freehold-classic"]),
    ("freehold-model-mtmalloc", &["freehold-classic"]),
    ("freehold-model-mtmalloc-exclusive", &["freehold-classic"]),
    ("freehold-model-private", &["freehold-classic"]),
    ("freehold-model-ownership", &["freehold-classic"]),
    ("freehold-model", &[]),
    ("freehold-workloads", &["freehold-trace"]),
    ("freehold-embed", &[]),
    ("freehold-lab", &["freehold-model", "freehold-trace"]),
    ("freehold-observe", &["freehold-model", "freehold-stats", "freehold-sync", "freehold-trace"]),
    ("freehold-report", &["freehold-model"]),
    (
        "freehold-cli",
        &[
            "freehold-model",
            "freehold-lab",
            "freehold-observe",
            "freehold-report",
            "freehold-workloads",
            "freehold-embed",
        ],
    ),
    ("freehold-plugin", &["freehold"]),
    ("freehold-tests", &["freehold", "freehold-embed", "freehold-workloads"]),
    ("xtask", &[]),
];

/// Findings: crates without a place, and arrows that are not allowed. What a crate needs for its
/// tests alone is free.
pub(crate) fn check(metadata: &Value) -> Vec<String> {
    let mut findings = Vec::new();
    for package in packages(metadata) {
        let name = text(package, "name");
        let Some((_, allowed)) = ARROWS.iter().find(|(known, _)| *known == name) else {
            findings.push(format!("{name}: has no place among the arrows (xtask/src/arrows.rs)"));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let used = text(dependency, "name");
            let ours = ARROWS.iter().any(|(known, _)| *known == used);
            let for_tests = text(dependency, "kind") == "dev";
            if ours && !for_tests && !allowed.contains(&used) {
                findings.push(format!("{name}: must not use {used}"));
            }
        }
    }
    findings
}
