//! Where the numbers of this run of the command are going to come from.

use std::env;

use freehold_lab::{library, machine};
use freehold_model::Provenance;

use crate::exit::Failure;

/// Everything that is known before the first run.
pub(crate) fn begin(seed: u64) -> Result<Provenance, Failure> {
    let own = env::current_exe().and_then(|path| library(&path));
    let own = own.map_err(|error| Failure::error("cannot read this executable", &error))?;
    let arguments = env::args_os().map(|word| word.to_string_lossy().into_owned());
    Ok(Provenance {
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        tool_sha256: own.sha256,
        started: machine::now_utc(),
        finished: String::new(),
        command_line: arguments.collect(),
        seed,
        machine: machine::describe(),
        load_before: machine::load_average(),
        load_after: None,
        environment: machine::tuning_environment(),
    })
}

/// The same after the last run.
pub(crate) fn end(provenance: &mut Provenance) {
    provenance.finished = machine::now_utc();
    provenance.load_after = machine::load_average();
}
