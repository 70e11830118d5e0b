//! What cargo knows of the workspace.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `cargo metadata`, with or without the dependencies from outside.
pub(crate) fn read(with_dependencies: bool) -> Value {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--format-version", "1", "--locked"]);
    if !with_dependencies {
        command.arg("--no-deps");
    }
    let output = command.output().expect("cargo can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo prints JSON")
}

/// The packages.
pub(crate) fn packages(metadata: &Value) -> impl Iterator<Item = &Value> {
    metadata["packages"].as_array().into_iter().flatten()
}

/// A field of text; empty if it is missing.
pub(crate) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// The root of the workspace.
pub(crate) fn root(metadata: &Value) -> PathBuf {
    Path::new(text(metadata, "workspace_root")).to_owned()
}
