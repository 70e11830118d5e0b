//! From what a harness measured to the record that is printed of it.

use freehold_model as model;
use freehold_model::{HarnessRun, ParamValue, Params, Proof};
use freehold_workloads::harness::{Better, Harness};
use freehold_workloads::outcome::{self, Outcome};
use freehold_workloads::settings::{Settings, Value};
use freehold_workloads::timeline::Reading;
use freehold_workloads::{FalseSharing, identity, resident, usage};

use crate::exit::{Exit, Failure};

/// The record of a run.
pub(super) fn run(
    harness: &Harness,
    settings: &Settings,
    outcome: &Outcome,
) -> Result<HarnessRun, Failure> {
    Ok(HarnessRun {
        harness: harness.name.to_owned(),
        params: params(settings),
        proof: proof()?,
        metric: model::Metric {
            name: harness.metric.name.to_owned(),
            unit: harness.metric.unit.to_owned(),
            better: match harness.metric.better {
                Better::Higher => model::Better::Higher,
                Better::Lower => model::Better::Lower,
            },
            value: outcome.value,
        },
        elapsed_seconds: outcome.elapsed.as_secs_f64(),
        details: outcome.details.iter().map(detail).collect(),
        series: outcome.series.as_ref().map(series),
        timeline: outcome.timeline.iter().map(reading).collect(),
        calls: model::Calls {
            allocations: outcome.calls.allocations,
            reallocations: outcome.calls.reallocations,
            frees: outcome.calls.frees,
        },
        memory: memory(&outcome.memory, outcome.live),
        usage: used(outcome.usage),
        verified_blocks: outcome.verified_blocks,
        false_sharing: outcome.false_sharing.map(false_sharing),
    })
}

/// The values of all parameters.
pub(in super::super) fn params(settings: &Settings) -> Params {
    let value = |value: &Value| match value {
        Value::Flag(flag) => ParamValue::Flag(*flag),
        Value::Count(count) => ParamValue::Count(*count),
        Value::Number(number) => ParamValue::Number(*number),
        Value::Text(text) => ParamValue::Text(text.clone()),
    };
    settings.iter().map(|(name, own)| (name.to_owned(), value(own))).collect()
}

/// Which objects serve the calls of this process.
pub(super) fn proof() -> Result<Proof, Failure> {
    let providers = identity::providers()
        .ok_or_else(|| Failure::new(Exit::Error, "the loader does not know its own malloc"))?;
    let mapped = providers.mapped.iter().map(|path| path.to_string_lossy().into_owned());
    Ok(Proof {
        malloc_object: providers.malloc.to_string_lossy().into_owned(),
        free_object: providers.free.to_string_lossy().into_owned(),
        mapped_objects: mapped.collect(),
    })
}

fn detail(detail: &outcome::Detail) -> model::Detail {
    let outcome::Detail { name, unit, value } = *detail;
    model::Detail { name: name.to_owned(), unit: unit.to_owned(), value }
}

fn series(series: &outcome::Series) -> model::Readings {
    let column = |column: &outcome::Column| model::Column {
        name: column.name.to_owned(),
        unit: column.unit.to_owned(),
    };
    model::Readings {
        columns: series.columns.iter().map(column).collect(),
        rows: series.rows.clone(),
    }
}

pub(super) fn reading(reading: &Reading) -> model::Reading {
    model::Reading {
        at_seconds: reading.at.as_secs_f64(),
        calls: reading.calls,
        live_bytes: reading.live_bytes,
        rss_bytes: reading.rss_bytes,
    }
}

/// Memory around a measurement.
pub(super) fn memory(memory: &outcome::Memory, live: outcome::Live) -> model::Memory {
    model::Memory {
        before: resident(memory.before),
        peak_rss_bytes: memory.peaks.rss_bytes,
        peak_virtual_bytes: memory.peaks.virtual_bytes,
        peak_live_bytes: live.peak_bytes,
        end: Some(model::End {
            live_bytes: live.end_bytes,
            virtual_bytes: memory.end_virtual_bytes,
            resident: resident(memory.end),
        }),
        harness_bytes: memory.harness_bytes,
        freed: resident(memory.freed),
        settled: memory.settled.map(resident),
    }
}

pub(super) fn resident(resident: resident::Resident) -> model::Resident {
    model::Resident {
        rss_bytes: resident.rss_bytes,
        anonymous_bytes: resident.anonymous_bytes,
        lazy_free_bytes: resident.lazy_free_bytes,
        huge_bytes: resident.huge_bytes,
        swap_bytes: resident.swap_bytes,
    }
}

/// Processor time and faults.
pub(super) fn used(usage: usage::Usage) -> model::Usage {
    model::Usage {
        user_seconds: usage.user_seconds,
        system_seconds: usage.system_seconds,
        minor_faults: usage.minor_faults,
        voluntary_switches: usage.voluntary_switches,
        involuntary_switches: usage.involuntary_switches,
    }
}

/// Blocks on shared lines.
pub(super) fn false_sharing(counted: FalseSharing) -> model::FalseSharing {
    model::FalseSharing {
        blocks: counted.blocks,
        shared_blocks: counted.shared_blocks,
        peak_shared_lines: counted.peak_shared_lines,
    }
}
