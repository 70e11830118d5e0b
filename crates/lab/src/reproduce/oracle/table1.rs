//! Table 1: loops per second of pairs of threads.

use freehold_model::{Better, Chart, Claim, Panel};

use super::{
    EXCLUSIVE, HEADS, HOARD, LIBC, MODELS, NO_HOARD, NO_UMEM, SOURCE, SPEED, T2_STRANDS, T3_PAIRS,
    T3_STRANDS, case, chunk_locks_scale_less, exclusive_leads, freehold_leads, grid, params,
    scaled, scaling, that_fit,
};
use crate::reproduce::claims::{all_say, compare, number, published, typical};
use crate::reproduce::evidence::{Evidence, Published, panel};
use crate::reproduce::plan::{Experiment, Plan, Scale};

pub(super) static EXPERIMENT: Experiment = Experiment {
    name: "oracle-table1",
    title: "Table 1: loops per second of pairs of threads, by pairs and maximum size",
    source: SOURCE,
    method: "T2: 1 socket, 8 cores, 64 strands, 64 GB; T3: 2 sockets, 32 cores, 256 strands, \
             512 GB; Solaris 10. 5,000 blocks a loop, sizes rand() % max + 8, 1,200 s a cell. \
             An allocator without a number has no valid result",
    models: MODELS,
    plan,
    panels,
    claims,
};

const NAMES: &[&str] = &["Hoard", "mtmalloc", "umem", "new exclusive", "new non-exclusive", "libc"];

/// Table 1's upper part, on T2. The rows that are known here.
static T2: Published = Published {
    names: NAMES,
    rows: &[
        (
            &[1, 256],
            &[Some(182.0), Some(146.0), Some(216.0), Some(266.0), Some(182.0), Some(137.0)],
        ),
        (
            &[8, 256],
            &[Some(1386.0), Some(1127.0), Some(1682.0), Some(2081.0), Some(1425.0), Some(108.0)],
        ),
        (
            &[32, 256],
            &[Some(2961.0), Some(2800.0), Some(4416.0), Some(5497.0), Some(3826.0), Some(93.0)],
        ),
        (
            &[32, 1024],
            &[Some(2686.0), Some(2869.0), Some(4406.0), Some(5384.0), Some(3772.0), Some(76.0)],
        ),
        (
            &[16, 4096],
            &[Some(1739.0), Some(2024.0), Some(2235.0), Some(3432.0), Some(2471.0), Some(66.0)],
        ),
        (
            &[32, 4096],
            &[Some(2303.0), Some(2916.0), Some(2045.0), Some(5230.0), Some(3689.0), Some(62.0)],
        ),
        (
            &[32, 16384],
            &[Some(867.0), Some(1872.0), Some(1116.0), Some(5031.0), Some(3591.0), Some(49.0)],
        ),
        (&[1, 65536], &[None, Some(138.0), Some(32.0), Some(205.0), Some(151.0), Some(62.0)]),
        (&[32, 65536], &[None, Some(2568.0), Some(38.0), Some(3926.0), Some(2992.0), Some(39.0)]),
    ],
};

/// Table 1's lower part, on T3, where the C library's was not measured.
pub(super) static T3: Published = Published {
    names: &["Hoard", "mtmalloc", "umem", "new exclusive", "new non-exclusive"],
    rows: &[
        (&[32, 256], &[Some(4597.0), Some(5624.0), Some(5406.0), Some(8808.0), Some(6608.0)]),
        (&[64, 256], &[Some(8780.0), Some(9836.0), Some(495.0), Some(16508.0), Some(11963.0)]),
        (&[128, 256], &[Some(8505.0), Some(11844.0), Some(287.0), Some(27693.0), Some(19767.0)]),
        (&[128, 1024], &[Some(41.0), Some(12521.0), Some(608.0), Some(27047.0), Some(19535.0)]),
        (&[32, 4096], &[Some(2034.0), Some(5821.0), Some(1475.0), Some(9011.0), Some(6639.0)]),
        (&[128, 4096], &[None, Some(12522.0), Some(1149.0), Some(26195.0), Some(19220.0)]),
    ],
};

const T2_PAIRS: &[u64] = &[1, 4, 8, 16, 32];
const T2_SIZES: &[u64] = &[256, 1024, 4096, 16384, 65536];
const T3_SIZES: &[u64] = &[256, 1024, 4096];

fn plan(scale: &Scale) -> Plan {
    let grid = |pairs: &[u64], sizes: &[u64]| -> Vec<Vec<u64>> {
        let row = |pairs: &u64| sizes.iter().map(|max| vec![*pairs, *max]).collect::<Vec<_>>();
        pairs.iter().flat_map(row).collect()
    };
    let sizes = |all: &'static [u64]| if scale.is_quick { &all[..1] } else { all };
    let (t2, t3) = (scale.threads(T2_PAIRS, 2), scale.threads(T3_PAIRS, 2));
    let mut places = grid(&t2, sizes(T2_SIZES));
    places.extend(grid(&t3, sizes(T3_SIZES)));
    places.sort();
    places.dedup();
    let strands = if t3.iter().any(|pairs| *pairs > 32) { T3_STRANDS } else { T2_STRANDS };
    let mut told = scaled(scale, strands, "1,200 s");
    told.extend(scale.left_out(T2_PAIRS, &t2, "pairs"));
    told.extend(scale.left_out(T3_PAIRS, &t3, "of T3's pairs"));
    if scale.is_quick {
        told.push("only the smallest size: this is a quick look".to_owned());
    }
    let of_place =
        |place: &Vec<u64>| case(place, params(place[0], place[1], scale.seconds), strands);
    that_fit(Plan { cases: places.iter().map(of_place).collect(), scaled: told }, scale)
}

fn panels(evidence: &Evidence<'_>) -> Vec<Panel> {
    let is_of_t2 = |place: &Vec<u64>| T2_PAIRS.contains(&place[0]);
    let (t2, other): (Vec<_>, Vec<_>) = evidence.places().into_iter().partition(is_of_t2);
    let of = |title, published: &Published, places: &[Vec<u64>], ours: &[Vec<u64>]| {
        let table = panel(title, "loops/s", Better::Higher, Chart::Table, HEADS, places);
        let columns = [published.columns(places), evidence.columns(ours, SPEED)].concat();
        Panel { columns, ..table }
    };
    let places = T2.places_with(&t2);
    let mut panels = vec![of("Loops per second, beside T2's", &T2, &places, &places)];
    let places = T3.places_with(&other);
    panels.push(of("Loops per second, beside T3's", &T3, &places, &places));
    panels
}

fn claims(evidence: &Evidence<'_>) -> Vec<Claim> {
    let hoard = published("Hoard has no valid result at 65,536 bytes, where it maps every block");
    vec![
        libc_falls(evidence),
        exclusive_leads(evidence),
        chunk_locks_scale_less(evidence),
        exclusive_scales(evidence),
        published("umem is second at small sizes, and collapses at 65,536 bytes: 32 to 38 loops/s")
            .cannot(NO_UMEM),
        match evidence.find(HOARD) {
            None => hoard.cannot(NO_HOARD),
            Some(found) => {
                let of = |place: &Vec<u64>| evidence.median(place, found, SPEED);
                let large = evidence.places().into_iter().filter(|place| place[1] == 65536);
                let rates: Vec<f64> = large.filter_map(|place| of(&place)).collect();
                let shown: Vec<String> = rates.iter().map(|rate| number(*rate)).collect();
                hoard.found(all_say(rates.iter().map(|_| false)), shown.join(", "))
            }
        },
        freehold_leads(evidence),
    ]
}

fn libc_falls(evidence: &Evidence<'_>) -> Claim {
    let claim = published("libc, with one lock, is slower with every pair that is added")
        .there("256 B, 1 to 8 to 32 pairs: 137, 108, 93");
    let Some(libc) = evidence.find(LIBC) else { return claim.cannot("its model was not run") };
    let (pairs, sizes) = grid(evidence);
    let (Some(&first), Some(&last)) = (pairs.first(), pairs.last()) else {
        return claim.cannot("nothing was run");
    };
    let of_size = |max: &u64| {
        let at = |pairs: u64| evidence.rounds(&[pairs, *max], libc, SPEED);
        let (few, many) = (at(first), at(last));
        let text =
            format!("{max} B, {first} to {last} pairs: {} to {}", typical(&few), typical(&many));
        (compare(&few, &many, |few, many| many < few), text)
    };
    claim.found_in_all(&sizes.iter().map(of_size).collect::<Vec<_>>())
}

fn exclusive_scales(evidence: &Evidence<'_>) -> Claim {
    let claim = published(
        "exclusive buckets scale with the threads: 32 pairs do twenty times as \
                           much as one",
    )
    .there("20.7-fold at 256 B");
    let Some(it) = evidence.find(EXCLUSIVE) else { return claim.cannot("its model was not run") };
    if u64::from(evidence.scale.cpus) < T2_STRANDS {
        return claim.cannot(&format!(
            "32 pairs need 64 processors to show it, and there are {}",
            evidence.scale.cpus
        ));
    }
    let found = scaling(evidence, it, 256, SPEED);
    let say = all_say(found.values().map(|fold| *fold >= 10.0));
    claim.found(say, format!("{}-fold", typical(&found)))
}
