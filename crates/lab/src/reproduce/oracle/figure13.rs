//! Figure 13: loops per second over time.

use freehold_model::{
    Better, Chart, Claim, Length, Numbers, PairsParams, Panel, PanelColumn, Whose,
};

use super::figure4::few_and_many_pairs;
use super::{EXCLUSIVE, MODELS, MTMALLOC, NO_UMEM, SOURCE, T3_STRANDS, case, params, that_fit};
use crate::known::FREEHOLD;
use crate::reproduce::claims::{Judged, all_say, asked, number, published};
use crate::reproduce::evidence::{Evidence, panel};
use crate::reproduce::plan::{Experiment, Plan, Scale};
use crate::statistics::median;

pub(super) static EXPERIMENT: Experiment = Experiment {
    name: "oracle-figure13",
    title: "Figure 13: loops per second over time, from the start",
    source: SOURCE,
    method: "T3, 100 samples of 3 s, the first five minutes of a run of twenty",
    models: MODELS,
    plan,
    panels,
    claims,
};

const SAMPLES: u32 = 100;
const QUICK_SAMPLES: u32 = 10;

/// Samples that are looked at as the start.
const START: usize = 3;

fn plan(scale: &Scale) -> Plan {
    let pairs = few_and_many_pairs(scale);
    let pairs = pairs[pairs.len() - 1];
    let count = if scale.is_quick { QUICK_SAMPLES } else { SAMPLES };
    let each = if scale.is_quick { 0.02 } else { 0.05_f64.max(scale.seconds / 10.0) };
    let length = Length::Samples { count, seconds: each, warmup_seconds: 0.0 };
    let told = vec![
        format!("{count} samples of {each} s where the original shows 100 of 3 s"),
        format!("{pairs} pairs, sizes to 4,096 bytes; the original's were 128 pairs"),
        "nothing is left out as warm-up".to_owned(),
    ];
    let params = PairsParams { length, ..params(pairs, 4096, each) };
    that_fit(Plan { cases: vec![case(&[pairs, 4096], params, T3_STRANDS)], scaled: told }, scale)
}

/// Loops a second in each sample of a run.
fn series(numbers: &Numbers) -> Vec<f64> {
    let Numbers::Pairs(run) = numbers else { return Vec::new() };
    let mut before = 0.0;
    let rate = |end: f64, loops: f64, before: &mut f64| {
        let seconds = end - std::mem::replace(before, end);
        loops / seconds.max(f64::MIN_POSITIVE)
    };
    run.samples.iter().map(|it| rate(it.end_seconds, it.loops, &mut before)).collect()
}

fn panels(evidence: &Evidence<'_>) -> Vec<Panel> {
    let places = evidence.places();
    let Some(place) = places.first() else { return Vec::new() };
    let column = |allocator: usize| {
        let values = series(evidence.first(place, allocator)?);
        let name = evidence.allocators[allocator].name.clone();
        let values = values.into_iter().map(Some).collect();
        Some(PanelColumn { name, whose: Whose::Here, values })
    };
    let columns: Vec<_> = (0..evidence.allocators.len()).filter_map(column).collect();
    let samples = columns.iter().map(|column| column.values.len()).max().unwrap_or(0);
    let moments: Vec<Vec<u64>> = (1..=samples as u64).map(|sample| vec![sample]).collect();
    let title = "Loops per second in each sample, from the start";
    let chart = panel(title, "loops/s", Better::Higher, Chart::Lines, &["sample"], &moments);
    vec![Panel { columns, ..chart }]
}

fn claims(evidence: &Evidence<'_>) -> Vec<Claim> {
    let places = evidence.places();
    let place = places.first().cloned().unwrap_or_default();
    // The median of the first samples beside that of the second half.
    let at_once = |claim: Judged, name: &str| {
        let series = evidence.find(name).and_then(|it| evidence.first(&place, it)).map(series);
        let middle = |part: &[f64]| median(part);
        let parts = series
            .as_deref()
            .and_then(|all| Some((middle(all.get(..START)?)?, middle(&all[all.len() / 2..])?)));
        match parts {
            Some((start, later)) => claim.found(
                all_say([start >= 0.8 * later].into_iter()),
                format!("{} at first, {} later", number(start), number(later)),
            ),
            None => claim.cannot("it was not run"),
        }
    };
    vec![
        published("umem needs minutes to reach its rate").cannot(NO_UMEM),
        at_once(published("mtmalloc reaches its rate at once"), MTMALLOC),
        at_once(published("the new mtmalloc reaches its rate at once"), EXCLUSIVE),
        at_once(asked("Freehold reaches its rate at once"), FREEHOLD),
    ]
}
