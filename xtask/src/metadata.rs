//! What cargo knows of the workspace.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `cargo metadata`, with or without the dependencies from outside.
pub(crate) fn read(with_dependencies: bool) -> Value {
    let mut command = command();
    if !with_dependencies {
        command.arg("--no-deps");
    }
    answer(&mut command).unwrap_or_else(|reason| panic!("{reason}"))
}

/// `cargo metadata` of another workspace, whose dependencies are fetched if need be.
pub(crate) fn of(manifest: &Path) -> Result<Value, String> {
    answer(command().arg("--manifest-path").arg(manifest))
}

fn command() -> Command {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--format-version", "1", "--locked"]);
    command
}

fn answer(command: &mut Command) -> Result<Value, String> {
    let output = command.output().map_err(|error| format!("cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))
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

/// Where cargo puts what it builds.
pub(crate) fn target(metadata: &Value) -> PathBuf {
    Path::new(text(metadata, "target_directory")).to_owned()
}
