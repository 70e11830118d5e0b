//! Where a number comes from: the machine, the kernel's settings and the command line.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The kernel's settings for transparent huge pages; `None` where it says nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HugePages {
    /// `always`, `madvise` or `never`.
    pub enabled: Option<String>,
    /// How hard a fault tries for one.
    pub defrag: Option<String>,
}

/// The machine, as far as it matters to an allocator. It names no host and no user.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Operating system and release of the kernel.
    pub kernel: String,
    /// The instruction set.
    pub architecture: String,
    /// The processor, in its own words.
    pub cpu: Option<String>,
    /// Processors that are online.
    pub cpus_online: u32,
    /// Processors that this process may use.
    pub cpus_usable: u32,
    /// The frequency governor of the first processor.
    pub cpu_governor: Option<String>,
    /// The processor bandwidth limit of the control group, as the kernel writes it.
    pub cgroup_cpu_max: Option<String>,
    /// Installed memory.
    pub memory_total_bytes: u64,
    /// Memory that was available when the run began, cut by the control group's limit.
    pub memory_available_bytes: u64,
    /// The size of a page.
    pub page_bytes: u64,
    /// Transparent huge pages.
    pub huge_pages: HugePages,
    /// `vm.overcommit_memory`.
    pub overcommit: Option<String>,
}

/// Everything needed to judge, and to repeat, a measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// The version of the toolbox.
    pub tool_version: String,
    /// SHA-256 of the toolbox's executable, which is also the measuring child.
    pub tool_sha256: String,
    /// When it began, in UTC.
    pub started: String,
    /// When it ended, in UTC.
    pub finished: String,
    /// The command line, complete.
    pub command_line: Vec<String>,
    /// The seed of the order of runs and of the sizes.
    pub seed: u64,
    /// The machine.
    pub machine: Machine,
    /// One-minute load average before the first run.
    pub load_before: Option<f64>,
    /// One-minute load average after the last run.
    pub load_after: Option<f64>,
    /// Variables of the environment that tune an allocator, the loader or the C library.
    pub environment: BTreeMap<String, String>,
}
