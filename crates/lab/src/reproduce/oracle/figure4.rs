//! Figure 4: loops per second by pairs.

use freehold_model::{Better, Chart, Claim, Panel};

use super::table1::T3;
use super::{
    HEADS, MODELS, NO_UMEM, SOURCE, SPEED, T2_STRANDS, T3_PAIRS, T3_STRANDS, case,
    chunk_locks_scale_less, exclusive_leads, freehold_leads, params, scaled, that_fit,
};
use crate::reproduce::claims::published;
use crate::reproduce::evidence::{Evidence, panel};
use crate::reproduce::plan::{Experiment, Plan, Scale};

pub(super) static EXPERIMENT: Experiment = Experiment {
    name: "oracle-figure4",
    title: "Figure 4: loops per second by pairs, sizes to 4,096 bytes",
    source: SOURCE,
    method: "T3, 32, 64 and 128 pairs, otherwise as Table 1",
    models: MODELS,
    plan,
    panels,
    claims,
};

/// Pairs of Figure 4: those of the original, or what keeps a small machine as busy.
pub(super) fn few_and_many_pairs(scale: &Scale) -> Vec<u64> {
    let cpus = u64::from(scale.cpus);
    if cpus >= T2_STRANDS {
        return scale.threads(T3_PAIRS, 2);
    }
    let pairs = [1, cpus / 2, cpus, 2 * cpus, 4 * cpus];
    let mut pairs: Vec<u64> = pairs.into_iter().filter(|pairs| *pairs > 0).collect();
    pairs.dedup();
    if scale.is_quick { vec![pairs[0], pairs[pairs.len() - 1]] } else { pairs }
}

fn plan(scale: &Scale) -> Plan {
    let pairs = few_and_many_pairs(scale);
    let mut told = scaled(scale, T3_STRANDS, "1,200 s");
    if pairs != T3_PAIRS {
        let shown: Vec<_> = pairs.iter().map(u64::to_string).collect();
        told.push(format!(
            "{} pairs instead of 32, 64 and 128: from one pair to four for each processor",
            shown.join(", ")
        ));
    }
    let of = |pairs: &u64| case(&[*pairs, 4096], params(*pairs, 4096, scale.seconds), T3_STRANDS);
    that_fit(Plan { cases: pairs.iter().map(of).collect(), scaled: told }, scale)
}

fn panels(evidence: &Evidence<'_>) -> Vec<Panel> {
    let chart = |title, places: &[Vec<u64>]| {
        panel(title, "loops/s", Better::Higher, Chart::Bars, HEADS, places)
    };
    let places = evidence.places();
    let here = Panel {
        columns: evidence.columns(&places, SPEED),
        ..chart("Loops per second by pairs, here", &places)
    };
    let there: Vec<Vec<u64>> = T3.places_with(&[]).into_iter().filter(|p| p[1] == 4096).collect();
    let there = Panel {
        columns: T3.columns(&there),
        ..chart("Loops per second by pairs, the original", &there)
    };
    vec![there, here]
}

fn claims(evidence: &Evidence<'_>) -> Vec<Claim> {
    vec![
        exclusive_leads(evidence),
        chunk_locks_scale_less(evidence),
        published("umem and Hoard do not gain from more pairs").cannot(NO_UMEM),
        freehold_leads(evidence),
    ]
}
