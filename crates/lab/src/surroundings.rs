//! Reasons to doubt any measurement, that lie in the machine it was made on.

use freehold_model::Provenance;

/// More load than this, before anything was started, is somebody else's.
const BUSY: f64 = 0.5;

/// Something about the machine.
#[derive(Debug, Clone, PartialEq)]
pub enum Surroundings {
    /// Other programs were running.
    Busy {
        /// The load average before the first run.
        load: f64,
    },
    /// The processors may run at varying speeds.
    Governor {
        /// The frequency governor.
        name: String,
    },
    /// The processor time of this group of processes is limited.
    Quota {
        /// The limit, as the kernel writes it.
        limit: String,
    },
    /// Variables of the environment tune allocators.
    Tuned {
        /// Their names.
        names: Vec<String>,
    },
}

/// What about the machine gives reason to doubt.
pub fn surroundings(provenance: &Provenance) -> Vec<Surroundings> {
    let machine = &provenance.machine;
    let mut found = Vec::new();
    if let Some(load) = provenance.load_before.filter(|&load| load > BUSY) {
        found.push(Surroundings::Busy { load });
    }
    if let Some(name) = machine.cpu_governor.clone().filter(|name| name != "performance") {
        found.push(Surroundings::Governor { name });
    }
    if let Some(limit) = machine.cgroup_cpu_max.clone().filter(|max| !max.starts_with("max")) {
        found.push(Surroundings::Quota { limit });
    }
    if !provenance.environment.is_empty() {
        let names = provenance.environment.keys().cloned().collect();
        found.push(Surroundings::Tuned { names });
    }
    found
}
