//! `cargo xtask peers`: builds the allocators that Freehold is compared with into libraries that
//! can be preloaded, each in its project's own way and with its own release flags.
//!
//! The sources come from crates.io packages, pinned with their hashes by `peers/Cargo.lock`. The
//! libraries go to `target/peers`, where `freehold allocators` finds them.

mod exports;
mod packages;
mod recipes;
mod steps;

use crate::metadata;
use packages::Packages;
use recipes::{PEERS, Peer, Site};
use std::fs;
use std::path::{Path, PathBuf};

/// Builds the peers of these names, or all of them; what is built already is left as it is.
/// Findings: peers that could not be built, and why.
pub(crate) fn build(wanted: &[&str]) -> Vec<String> {
    let unknown: Vec<_> =
        wanted.iter().filter(|name| PEERS.iter().all(|p| p.name != **name)).collect();
    if !unknown.is_empty() {
        let names: Vec<_> = PEERS.iter().map(|peer| peer.name).collect();
        return unknown.iter().map(|n| format!("{n}: not one of {}", names.join(", "))).collect();
    }
    let workspace = metadata::read(false);
    let packages = match Packages::read(&metadata::root(&workspace).join("peers/Cargo.toml")) {
        Ok(packages) => packages,
        Err(reason) => return vec![reason],
    };
    let place = metadata::target(&workspace).join("peers");
    let chosen = PEERS.iter().filter(|p| wanted.is_empty() || wanted.contains(&p.name));
    chosen
        .filter_map(|peer| match provide(peer, &packages, &place) {
            Ok(line) => {
                println!("{line}");
                None
            }
            Err(reason) => Some(format!("{}: {reason}", peer.name)),
        })
        .collect()
}

/// Makes sure that the library of a peer is there, and says which it is in a line.
fn provide(peer: &Peer, packages: &Packages, place: &Path) -> Result<String, String> {
    let package = packages.get(peer.package)?;
    let version = (peer.version)(package)?;
    let library = place.join(format!("{}.so.{version}", peer.stem));
    let state = if library.exists() {
        "is there"
    } else {
        make(peer, &Site { package, scratch: place.join("build").join(peer.name) }, &library)?;
        "built"
    };
    let name = library.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(format!("{:9} {version:8} {state:8} {name}, from {}", peer.name, package.describe()))
}

/// Builds a library, makes sure that it is complete and can be preloaded, and puts it into place.
fn make(peer: &Peer, site: &Site<'_>, library: &Path) -> Result<(), String> {
    steps::require(peer.needs)?;
    let written = |error| format!("{}: {error}", site.scratch.display());
    if site.scratch.exists() {
        fs::remove_dir_all(&site.scratch).map_err(written)?;
    }
    fs::create_dir_all(&site.scratch).map_err(written)?;
    let built: PathBuf = (peer.build)(site)?;
    let missing = exports::missing(&built)?;
    if !missing.is_empty() {
        return Err(format!("the library lacks {}", missing.join(", ")));
    }
    // By a name of its own first: whoever looks at the place never sees half a library.
    let unfinished = site.scratch.join("finished.so");
    fs::copy(&built, &unfinished).map_err(written)?;
    steps::prove_preloadable(&unfinished)?;
    fs::rename(&unfinished, library).map_err(written)
}
