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
    // The median of the first samples beside that of the second half, in each run.
    let parts = |numbers: &Numbers| {
        let all = series(numbers);
        Some((median(all.get(..START)?)?, median(&all[all.len() / 2..])?))
    };
    let at_once = |claim: Judged, name: &str| {
        let runs = evidence.find(name).into_iter().flat_map(|it| evidence.measured(&place, it));
        let (starts, laters): (Vec<f64>, Vec<f64>) = runs.filter_map(parts).unzip();
        match (median(&starts), median(&laters)) {
            (Some(start), Some(later)) => claim.found(
                all_say(starts.iter().zip(&laters).map(|(start, later)| *start >= 0.8 * later)),
                format!("{} at first, {} later", number(start), number(later)),
            ),
            _ => claim.cannot("it was not run"),
        }
    };
    vec![
        published("umem needs minutes to reach its rate").cannot(NO_UMEM),
        at_once(published("mtmalloc reaches its rate at once"), MTMALLOC),
        at_once(published("the new mtmalloc reaches its rate at once"), EXCLUSIVE),
        at_once(asked("Freehold reaches its rate at once"), FREEHOLD),
    ]
}

#[cfg(test)]
mod tests {
    use freehold_model::{ClaimVerdict, Outcome, ReproducedOutcome, ReproducedRun, Sample};

    use super::*;
    use crate::fixtures::library;
    use crate::reproduce::invented::machine;
    use crate::summary::tests::measured;

    /// A run with so many loops a second at first, and later.
    fn run(round: u32, first: f64, later: f64) -> ReproducedRun {
        let Outcome::Measured(mut run) = measured(1.0) else { panic!("it is one") };
        let rates = (0..10).map(|at| if at < START { first } else { later });
        let ends = (1..).map(f64::from);
        let sample = |(end_seconds, loops)| Sample { end_seconds, loops, rss_bytes: 0 };
        run.samples = ends.zip(rates).map(sample).collect();
        let outcome = ReproducedOutcome::Measured(Numbers::Pairs(run));
        ReproducedRun { case: 0, allocator: 0, round, outcome, threads: None }
    }

    #[test]
    fn rounds_that_contradict_each_other_leave_a_claim_undecided() {
        let scale = machine(2);
        let plan = EXPERIMENT.plan(&scale);
        let allocators = [library(FREEHOLD)];
        let verdict = |runs: &[ReproducedRun]| {
            let evidence = Evidence { plan: &plan, scale: &scale, allocators: &allocators, runs };
            let claims = claims(&evidence);
            claims.iter().find(|own| own.text.starts_with("Freehold")).expect("asked").verdict
        };
        let (at_once, slowly) = (run(0, 100.0, 100.0), run(1, 10.0, 100.0));
        assert_eq!(verdict(std::slice::from_ref(&at_once)), ClaimVerdict::Holds);
        assert_eq!(verdict(std::slice::from_ref(&slowly)), ClaimVerdict::DoesNotHold);
        assert_eq!(verdict(&[at_once, slowly]), ClaimVerdict::Undecided);
    }
}
