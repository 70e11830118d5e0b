//! The project's own harnesses, all that `freehold bench all` has, as more rows of the same tables.

use std::path::Path;
use std::process::{Command, Stdio};

use super::read_json;
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
    let status = command.status().map_err(|error| format!("{}: {error}", freehold.display()))?;
    // One means that something failed under some allocator, which the result says.
    if !matches!(status.code(), Some(0 | 1)) {
        return Err(format!("freehold bench: {status}"));
    }
    table::read_grid(&read_json(&result)?).ok_or_else(|| "its result is not as expected".to_owned())
}
