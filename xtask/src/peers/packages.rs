//! The packages that carry the sources, as cargo has fetched and checked them.

use crate::metadata::{self, packages, text};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A package.
pub(super) struct Package {
    name: String,
    /// Its version; behind a `+` often that of what it carries.
    pub(super) version: String,
    /// Where its files are.
    pub(super) directory: PathBuf,
}

impl Package {
    /// Its name and version, in words.
    pub(super) fn describe(&self) -> String {
        format!("{} {}", self.name, self.version)
    }

    fn of(value: &Value) -> Option<Self> {
        let directory = Path::new(text(value, "manifest_path")).parent()?.to_owned();
        let field = |name| text(value, name).to_owned();
        Some(Self { name: field("name"), version: field("version"), directory })
    }
}

/// All packages.
pub(super) struct Packages(Vec<Package>);

impl Packages {
    /// Has cargo fetch what the lock file beside this manifest names.
    pub(super) fn read(manifest: &Path) -> Result<Self, String> {
        let metadata = metadata::of(manifest)?;
        Ok(Self(packages(&metadata).filter_map(Package::of).collect()))
    }

    /// The package of this name.
    pub(super) fn get(&self, name: &str) -> Result<&Package, String> {
        let found = self.0.iter().find(|package| package.name == name);
        found.ok_or_else(|| format!("peers/Cargo.toml does not name the package {name}"))
    }
}
