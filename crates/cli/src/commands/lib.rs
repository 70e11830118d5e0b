//! `freehold lib`: where the library is.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use clap::Args;

use crate::catalogue;
use crate::exit::{Exit, Failure};
use crate::ui;

const EXAMPLES: &str = "\
Examples:
  LD_PRELOAD=$(freehold lib) ./server                   run one program under Freehold
  freehold lib --output /usr/local/lib/libfreehold.so   install the library, as in an image

The library is carried within this program. It is laid out in the user's cache directory, under a
name that tells its version and contents, and checked byte by byte when it is already there.";

/// Print the path of the Freehold library, for the dynamic loader to preload
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Lib {
    /// Write the library to this file instead, and print its path
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Lib {
    pub(crate) fn execute(self) -> Result<Exit, Failure> {
        let path = match self.output {
            None => catalogue::lay_out(&freehold_embed::FREEHOLD)?,
            Some(path) => {
                install(&path).map_err(|error| {
                    Failure::error(format!("cannot write {}", path.display()), &error)
                })?;
                path
            }
        };
        ui::print_raw(&format!("{}\n", path.display()))?;
        Ok(Exit::Success)
    }
}

/// Writes the library beside its place and moves it there: programs that have the old one mapped
/// keep it.
fn install(path: &PathBuf) -> std::io::Result<()> {
    // What is moved over a device or a pipe takes its place, for everybody: over /dev/null as well.
    if fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir()) {
        return Err(std::io::Error::other("there is something else that is not a file"));
    }
    let draft = path.with_extension(format!("{}.draft", std::process::id()));
    let written = fs::write(&draft, freehold_embed::FREEHOLD.bytes)
        .and_then(|()| fs::set_permissions(&draft, fs::Permissions::from_mode(0o755)))
        .and_then(|()| fs::rename(&draft, path));
    if written.is_err() {
        // The first error is the one that matters; the draft may not even exist.
        let _ = fs::remove_file(&draft);
    }
    written
}
