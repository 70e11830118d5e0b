//! What may stand where in the sources.

use crate::metadata::{packages, root, text};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// Lines in a file without its tests, and characters in a line.
const LONGEST_FILE: usize = 600;
const LONGEST_LINE: usize = 100;

/// Something that may stand in some places only.
struct Rule {
    /// What is looked for.
    text: &'static str,
    /// Paths that it concerns: those that start with one of these.
    within: &'static [&'static str],
    /// Paths where it may stand nevertheless.
    except: &'static [&'static str],
    /// Why not elsewhere.
    because: &'static str,
}

const ALLOCATOR: &[&str] = &[
    "crates/sync/src",
    "crates/heap/src",
    "crates/rt/src",
    "crates/capi/src",
    "crates/freehold/src",
];

const RULES: &[Rule] = &[
    Rule {
        text: "core::sync::atomic",
        within: ALLOCATOR,
        except: &["crates/sync/src/atomic.rs"],
        because: "atomics come from freehold_sync::atomic, so that the model can replace them",
    },
    Rule {
        text: "syscall::call",
        within: &["crates/"],
        except: &["crates/sys/src"],
        because: "system calls are made in crates/sys alone",
    },
    Rule {
        text: "asm!(",
        within: &["crates/"],
        except: &["crates/sys/src", "crates/rt/src"],
        because: "assembly stands where the system, its loader and thread-local storage are met",
    },
    Rule {
        text: "unsafe {",
        within: &["crates/heap/src/policy"],
        except: &[],
        because: "policy is pure functions of numbers",
    },
    Rule {
        text: "thread_local!",
        within: ALLOCATOR,
        except: &[],
        because: "the allocator's thread-local storage is crates/rt/src/tls.rs",
    },
    Rule {
        text: "static mut",
        within: &["crates/", "tests/", "xtask/"],
        except: &["xtask/src/sources.rs"],
        because: "shared state is atomic or protected",
    },
    Rule {
        text: "todo!(",
        within: &["crates/", "tests/", "xtask/"],
        except: &["xtask/src/sources.rs"],
        because: "nothing unfinished is committed",
    },
    Rule {
        text: "unimplemented!(",
        within: &["crates/", "tests/", "xtask/"],
        except: &["xtask/src/sources.rs"],
        because: "nothing unfinished is committed",
    },
    Rule {
        text: "FIXME",
        within: &["crates/", "tests/", "xtask/"],
        except: &["xtask/src/sources.rs"],
        because: "nothing unfinished is committed",
    },
    Rule {
        text: "#[ignore",
        within: &["crates/", "tests/", "xtask/"],
        except: &["xtask/src/sources.rs"],
        because: "a test that does not run proves nothing",
    },
];

/// The crates that must forbid unsafe code.
const SAFE: &[&str] =
    &["freehold-model", "freehold-report", "freehold-lab", "freehold-cli", "xtask"];

/// Findings in all sources of the workspace.
pub(crate) fn check(metadata: &Value) -> Vec<String> {
    let root = root(metadata);
    let mut findings = Vec::new();
    for path in rust_files(&root) {
        let name = path.strip_prefix(&root).unwrap_or(&path).display().to_string();
        let source = fs::read_to_string(&path).expect("sources can be read");
        check_file(&name, &source, &mut findings);
    }
    for package in packages(metadata).filter(|p| SAFE.contains(&text(p, "name"))) {
        check_forbids_unsafe(package, &mut findings);
    }
    let design = fs::read_to_string(root.join("docs/design.md")).unwrap_or_default();
    for package in packages(metadata) {
        let directory = Path::new(text(package, "manifest_path")).parent();
        let room = directory.and_then(|d| d.strip_prefix(&root).ok()).unwrap_or(Path::new(""));
        if !design.contains(&format!("`{}/`", room.display())) {
            findings.push(format!("docs/design.md: does not mention `{}/`", room.display()));
        }
    }
    findings
}

fn rust_files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left: Vec<PathBuf> = ["crates", "tests", "xtask"].map(|d| root.join(d)).into();
    while let Some(path) = left.pop() {
        if path.is_dir() && !path.ends_with("target") {
            left.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|e| e.path()));
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn check_file(name: &str, source: &str, findings: &mut Vec<String>) {
    let purpose = source.lines().find(|line| !line.starts_with("#!"));
    if !purpose.is_some_and(|line| line.starts_with("//!")) {
        findings.push(format!("{name}: does not begin by saying what it is for (//!)"));
    }
    let own = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or(source);
    let lines = own.lines().count();
    if lines > LONGEST_FILE {
        findings.push(format!("{name}: {lines} lines, more than {LONGEST_FILE}: two concepts?"));
    }
    for (n, line) in source.lines().enumerate() {
        let n = n + 1;
        if line.chars().count() > LONGEST_LINE {
            findings.push(format!("{name}:{n}: longer than {LONGEST_LINE} characters"));
        }
        for rule in RULES.iter().filter(|rule| line.contains(rule.text)) {
            let concerned = rule.within.iter().any(|start| name.starts_with(start));
            let excepted = rule.except.iter().any(|start| name.starts_with(start));
            if concerned && !excepted {
                findings.push(format!("{name}:{n}: {:?}: {}", rule.text, rule.because));
            }
        }
    }
}

fn check_forbids_unsafe(package: &Value, findings: &mut Vec<String>) {
    for target in package["targets"].as_array().into_iter().flatten() {
        let path = text(target, "src_path");
        let main = path.ends_with("src/lib.rs") || path.ends_with("src/main.rs");
        let source = fs::read_to_string(path).unwrap_or_default();
        if main && !source.contains("#![forbid(unsafe_code)]") {
            findings.push(format!("{path}: does not forbid unsafe code"));
        }
    }
}
