//! Table 2: memory that stays after everything was freed.

use freehold_model::{Better, Chart, Claim, Length, PairsParams, Panel, PanelColumn};

use super::{EXCLUSIVE, MODELS, MTMALLOC, NO_UMEM, SOURCE, T2_STRANDS, case, params, that_fit};
use crate::known::FREEHOLD;
use crate::reproduce::claims::{all_say, asked, compare, published, typical};
use crate::reproduce::evidence::{Evidence, Published, Quantity, Rounds, panel};
use crate::reproduce::plan::{Experiment, Plan, Scale};

pub(super) static EXPERIMENT: Experiment = Experiment {
    name: "oracle-table2",
    title: "Table 2: memory that stays after everything was freed",
    source: SOURCE,
    method: "T2, 32 pairs, sizes to 4,096 bytes, every block written, a fixed number of loops; \
             all blocks are freed, and resident memory is read before the threads exit",
    models: MODELS,
    plan,
    panels,
    claims,
};

/// Pairs, loops a pair, and the size of Table 2.
const PAIRS: u64 = 32;
const LOOPS_A_PAIR: u64 = 10;
const MAX: u64 = 4096;

static PUBLISHED: Published = Published {
    names: &["Hoard", "mtmalloc", "umem", "new exclusive", "new non-exclusive"],
    rows: &[(
        &[PAIRS],
        &[
            Some(1_073_248.0),
            Some(1_483_840.0),
            Some(570_704.0),
            Some(1_451_144.0),
            Some(1_451_144.0),
        ],
    )],
};

fn plan(scale: &Scale) -> Plan {
    let pairs = if scale.is_quick { 4 } else { PAIRS };
    let total = pairs * LOOPS_A_PAIR;
    let of = |pairs: u64| PairsParams {
        memset: true,
        length: Length::Loops { total },
        settle_seconds: if scale.is_quick { 0.0 } else { 1.0 },
        ..params(pairs, MAX, scale.seconds)
    };
    let told = vec![
        format!(
            "{total} loops; how many the original made is not known, and does not matter once \
             every slot was used"
        ),
        "two batches of each pair are in flight; how many there were in the original is not known"
            .to_owned(),
    ];
    let cases = vec![case(&[pairs], of(pairs), T2_STRANDS)];
    that_fit(Plan { cases, scaled: told }, scale)
}

const KIB: f64 = 1024.0;

const AFTER_FREE: Quantity = |numbers| Some(numbers.memory().freed.rss_bytes as f64 / KIB);
const AT_PEAK: Quantity = |numbers| Some(numbers.memory().peak_rss_bytes as f64 / KIB);
const SETTLED: Quantity = |numbers| numbers.memory().settled.map(|it| it.rss_bytes as f64 / KIB);

fn panels(evidence: &Evidence<'_>) -> Vec<Panel> {
    let ours = evidence.places();
    let places = PUBLISHED.places_with(&ours);
    let of = |title, published: Vec<PanelColumn>, quantity| {
        let table = panel(title, "KB", Better::Lower, Chart::Table, &["pairs"], &places);
        Panel { columns: [published, evidence.columns(&places, quantity)].concat(), ..table }
    };
    let mut panels = vec![
        of("Resident after everything was freed", PUBLISHED.columns(&places), AFTER_FREE),
        of("Resident at the peak", Vec::new(), AT_PEAK),
    ];
    if !evidence.scale.is_quick {
        panels.push(of("Resident a second later", Vec::new(), SETTLED));
    }
    panels
}

fn claims(evidence: &Evidence<'_>) -> Vec<Claim> {
    let places = evidence.places();
    let Some(place) = places.first() else { return Vec::new() };
    let kept_share = |name: &str| {
        let allocator = evidence.find(name)?;
        let rounds = |of| evidence.rounds(place, allocator, of);
        let (freed, peak) = (rounds(AFTER_FREE), rounds(AT_PEAK));
        Some(freed.iter().filter_map(|(n, kb)| Some((*n, kb / peak.get(n)?))).collect::<Rounds>())
    };
    let share = |text: &str, there: &str, name: &str, holds: fn(f64) -> bool| {
        let claim = if there.is_empty() { asked(text) } else { published(text).there(there) };
        let Some(kept) = kept_share(name) else { return claim.cannot("it was not run") };
        let say = all_say(kept.values().map(|share| holds(*share)));
        claim.found(say, format!("{} of the peak stays", typical(&kept)))
    };
    let alike = published("both generations of mtmalloc keep about the same");
    let alike = match (evidence.find(MTMALLOC), evidence.find(EXCLUSIVE)) {
        (Some(old), Some(new)) => {
            let [old, new] = [old, new].map(|it| evidence.rounds(place, it, AFTER_FREE));
            let say = compare(&old, &new, |old, new| (old / new - 1.0).abs() < 0.15);
            alike
                .there("1,483,840 and 1,451,144 KB")
                .found(say, format!("{} and {} KB", typical(&old), typical(&new)))
        }
        _ => alike.cannot("their models were not run"),
    };
    vec![
        share("mtmalloc gives nothing back", "1,483,840 KB stay", MTMALLOC, |share| share > 0.95),
        alike,
        published("umem keeps least, less than half of what mtmalloc does").cannot(NO_UMEM),
        share("Freehold gives back more than half of its peak at once", "", FREEHOLD, |share| {
            share < 0.5
        }),
    ]
}
