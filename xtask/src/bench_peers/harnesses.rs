//! The project's own harnesses, all that `freehold bench all` has, as more rows of the same tables.

use std::path::Path;
use std::process::{Command, Stdio};

use super::result_of;
use super::table::{self, Row};

/// Has every harness measured in so many rounds, with as many threads as there are processors.
/// What is resident is read again a second after everything was freed.
pub(crate) fn measured(
    freehold: &Path,
    rounds: u32,
    allocators: Option<&str>,
    scratch: &Path,
) -> Result<Vec<Row>, String> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let result = scratch.join("harnesses.json");
    let mut command = Command::new(freehold);
    command.args(["--quiet", "bench", "all", "--settle", "1"]);
    command.args(["--threads", &threads.to_string(), "--repeat", &rounds.to_string()]);
    command.args(allocators.map(|list| ["--allocators", list]).into_iter().flatten());
    command.arg("--json").arg(&result).stdout(Stdio::null());
    table::read_grid(&result_of(&mut command, &result)?)
        .ok_or_else(|| "its result is not as expected".to_owned())
}
