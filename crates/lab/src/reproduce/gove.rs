//! D. Gove, "Cost of pointer chasing in libmtmalloc" and "mtmalloc vs umem", 2009: one thread,
//! every other block of which is kept for ever.

use std::iter;

use freehold_model::{Better, Chart, Claim, Numbers, Panel, PanelColumn, Whose};

use crate::known::FREEHOLD;
use crate::reproduce::claims::{Say, all_say, asked, number, published, typical};
use crate::reproduce::evidence::{Evidence, Published, Quantity, Rounds, VALUE, middle, panel};
use crate::reproduce::plan::{Case, Experiment, Plan, Scale, Under, Work};

const MTMALLOC: &str = "model:mtmalloc";

/// The variable by which the chunk size is set, and its values.
const CHUNK_SIZE: &str = "MTCHUNKSIZE";
const CHUNK_SIZES: &[u64] = &[9, 20, 30];

/// Where the numbers stand of what has no chunk size.
const NO_CHUNKS: u64 = 0;

const ROUNDS: u64 = 100;
const BLOCKS: u64 = 100_000;
const SIZE: u64 = 512;

/// Rounds where memory is short, and of a quick look.
const FEW_ROUNDS: u64 = 30;
const QUICK_ROUNDS: u64 = 6;

/// What half of the blocks and their headers come to in a round, and some room.
const KEPT_BYTES_A_ROUND: u64 = BLOCKS / 2 * (SIZE + 64);

/// What is touched before a run: a quarter more, since the kernel need not give out the very same
/// pages.
const TOUCHED_BYTES_A_ROUND: u64 = KEPT_BYTES_A_ROUND * 5 / 4;

pub(super) static EXPERIMENTS: [&Experiment; 1] = [&Experiment {
    name: "gove-chunksize",
    title: "mtmalloc's chunk size: the time that the search through full chunks takes",
    source: "D. Gove, Cost of pointer chasing in libmtmalloc; mtmalloc vs umem, 2009",
    method: "one thread, 100 rounds of 100,000 blocks of 512 bytes; every other block is kept for \
             ever, the rest is freed after each round; times of timex, machine not named",
    models: &[MTMALLOC],
    plan,
    panels,
    claims,
}];

/// Times as published, of the whole program.
static REAL: Published = Published {
    names: &["mtmalloc", "libumem"],
    rows: &[
        (&[9], &[Some(284.18), None]),
        (&[20], &[Some(69.10), None]),
        (&[30], &[Some(38.36), None]),
        (&[NO_CHUNKS], &[None, Some(31.06)]),
    ],
};
static USER: Published = Published {
    names: &["mtmalloc", "libumem"],
    rows: &[
        (&[9], &[Some(273.80), None]),
        (&[20], &[Some(61.09), None]),
        (&[30], &[Some(31.41), None]),
        (&[NO_CHUNKS], &[None, Some(18.10)]),
    ],
};
static SYSTEM: Published = Published {
    names: &["mtmalloc", "libumem"],
    rows: &[
        (&[9], &[Some(8.70), None]),
        (&[20], &[Some(6.53), None]),
        (&[30], &[Some(4.96), None]),
        (&[NO_CHUNKS], &[None, Some(10.95)]),
    ],
};

fn rounds_of(scale: &Scale) -> u64 {
    match () {
        () if scale.is_quick => QUICK_ROUNDS,
        () if scale.available_bytes < ROUNDS * TOUCHED_BYTES_A_ROUND => FEW_ROUNDS,
        () => ROUNDS,
    }
}

fn plan(scale: &Scale) -> Plan {
    let rounds = rounds_of(scale);
    let work = || {
        let options = [("rounds", rounds), ("blocks", BLOCKS), ("size", SIZE), ("threads", 1)];
        Work::harness("chunk-scan", &options)
    };
    let seconds = |share: f64| share * rounds as f64 / ROUNDS as f64;
    let touched_bytes = (rounds * TOUCHED_BYTES_A_ROUND).min(scale.available_bytes);
    let mut cases: Vec<Case> = CHUNK_SIZES
        .iter()
        .map(|chunk| Case {
            under: Under::Only(&[MTMALLOC]),
            touched_bytes,
            ..Case::new(format!("{CHUNK_SIZE}={chunk}"), &[*chunk], work(), seconds(40.0))
                .with(CHUNK_SIZE, *chunk)
        })
        .collect();
    cases.push(Case {
        under: Under::AllBut(&[MTMALLOC]),
        touched_bytes,
        ..Case::new("no chunk size".to_owned(), &[NO_CHUNKS], work(), seconds(2.0))
    });
    let mut scaled = vec![
        "the published program frees the successor of each block and then reads it; here each \
         block is freed once, after its link was read"
            .to_owned(),
        "blocks have 512 bytes with their link; as printed they would have 520 on 64 bits"
            .to_owned(),
        "before each run as much memory as it will keep is touched and given back: in a virtual \
         machine, a page that is new to it costs several times as much as any other"
            .to_owned(),
    ];
    if rounds != ROUNDS {
        let kept = (rounds * KEPT_BYTES_A_ROUND) >> 20;
        scaled.push(format!(
            "{rounds} rounds instead of {ROUNDS}, which leave {kept} MiB in use; the search grows \
             with the rounds, so that times are less far apart"
        ));
    }
    Plan { cases, scaled }
}

const ELAPSED: Quantity = VALUE;
/// Of a single thread, this is what the times of a quiet machine would be.
const PROCESSOR: Quantity =
    |numbers| Some(numbers.usage().user_seconds + numbers.usage().system_seconds);
const IN_USER: Quantity = |numbers| Some(numbers.usage().user_seconds);
const IN_SYSTEM: Quantity = |numbers| Some(numbers.usage().system_seconds);

/// Processor seconds of each round, which other programs do not lengthen.
const ROUND_PROCESSOR: &str = "processor time";
/// Those of them in the program: in the kernel is what a new page costs, whoever asked for it.
const ROUND_IN_USER: &str = "processor time in the program";

fn round_times(numbers: &Numbers, which: &str) -> Vec<f64> {
    let Numbers::Harness(run) = numbers else { return Vec::new() };
    let Some(series) = &run.series else { return Vec::new() };
    let time = series.columns.iter().position(|column| column.name == which);
    time.map_or_else(Vec::new, |time| series.rows.iter().map(|row| row[time]).collect())
}

fn panels(evidence: &Evidence<'_>) -> Vec<Panel> {
    let mut places: Vec<Vec<u64>> = CHUNK_SIZES.iter().map(|chunk| vec![*chunk]).collect();
    places.push(vec![NO_CHUNKS]);
    let of = |title, published: &Published, quantity| {
        let table = panel(title, "seconds", Better::Lower, Chart::Table, &[CHUNK_SIZE], &places);
        let columns = [published.columns(&places), evidence.columns(&places, quantity)].concat();
        let mut panel = Panel { columns, ..table };
        panel.rows[CHUNK_SIZES.len()] = vec!["none".to_owned()];
        panel
    };
    vec![
        of("Elapsed time", &REAL, ELAPSED),
        of("Processor time in the program", &USER, IN_USER),
        of("Processor time in the kernel", &SYSTEM, IN_SYSTEM),
        over_rounds(evidence),
    ]
}

/// How long each round took, which is flat where `malloc` does not search.
fn over_rounds(evidence: &Evidence<'_>) -> Panel {
    let column = |place: u64, allocator: usize| {
        let values = round_times(evidence.first(&[place], allocator)?, ROUND_PROCESSOR);
        let own = &evidence.allocators[allocator].name;
        let name = if place == NO_CHUNKS { own.clone() } else { format!("{own}, {place}") };
        let values = values.into_iter().map(Some).collect();
        Some(PanelColumn { name, whose: Whose::Here, values })
    };
    let places = evidence.places();
    let all = places.iter().flat_map(|place| {
        (0..evidence.allocators.len()).filter_map(move |it| column(place[0], it))
    });
    let columns: Vec<_> = all.collect();
    let rounds = columns.iter().map(|column| column.values.len()).max().unwrap_or(0);
    let rows: Vec<Vec<u64>> = (1..=rounds as u64).map(|round| vec![round]).collect();
    let title = "Processor time of each round";
    let chart = panel(title, "seconds", Better::Lower, Chart::Lines, &["round"], &rows);
    Panel { columns, ..chart }
}

fn claims(evidence: &Evidence<'_>) -> Vec<Claim> {
    vec![
        ratio(evidence, 20, 284.18 / 69.10),
        ratio(evidence, 30, 284.18 / 38.36),
        published("libumem does without the search: 31 s")
            .cannot("there is no libumem for this system, and no model of it"),
        flat(evidence),
        faster(evidence),
    ]
}

/// Runs of which the middle one decides whether a ratio is about that of the original. The search
/// lives in the processor's cache, whose other users make single runs take twice as long.
const ENOUGH: usize = 3;

/// The middle of some ratios, and from where to where they go.
fn spread(ratios: &Rounds) -> String {
    let end = |most: fn(f64, f64) -> f64| ratios.values().copied().reduce(most).map(number);
    match (end(f64::min), end(f64::max)) {
        (Some(least), Some(most)) => format!("{} ({least} to {most})", typical(ratios)),
        _ => typical(ratios),
    }
}

/// How many times as long the smallest chunks take as others, within a factor of two: in the
/// program, where it searches. In the kernel is what new pages cost, which are as many for all.
fn ratio(evidence: &Evidence<'_>, chunk: u64, published_ratio: f64) -> Claim {
    let claim = published(&format!(
        "chunks of {chunk} pages make it {} times as fast as chunks of 9",
        number(published_ratio)
    ))
    .there(&format!("{} to 1", number(published_ratio)));
    let Some(model) = evidence.find(MTMALLOC) else { return claim.cannot("its model was not run") };
    let [small, large] = [9, chunk].map(|chunk| evidence.rounds(&[chunk], model, IN_USER));
    let ratios: Rounds = small
        .iter()
        .filter_map(|(round, small)| Some((*round, small / large.get(round)?)))
        .collect();
    let here = format!("{} to 1 in processor time in the program", spread(&ratios));
    if evidence.plan.cases.iter().all(|case| case.arguments().contains(&full_length())) {
        let is_near = |ratio: f64| (published_ratio / 2.0..=published_ratio * 2.0).contains(&ratio);
        let every = all_say(ratios.values().copied().map(is_near));
        let typical_is_near = ratios.len() >= ENOUGH && middle(&ratios).is_some_and(is_near);
        return claim.found(if typical_is_near { Say::Yes } else { every }, here);
    }
    claim.cannot(&format!("with fewer rounds it is {here}, and it grows with their number"))
}

fn full_length() -> String {
    format!("--rounds={ROUNDS}")
}

/// What the second and the last quarter of all rounds take: in the first one an allocator gets its
/// memory.
fn quarter(numbers: &Numbers, which: &str, is_last: bool) -> Option<f64> {
    let times = round_times(numbers, which);
    let quarter = times.len() / 4;
    let from = if is_last { times.len() - quarter } else { quarter };
    let times = times.get(from..from + quarter).filter(|times| !times.is_empty())?;
    Some(times.iter().sum())
}

/// How many times as long the last rounds of all runs together take as early ones. The kernel
/// tells a program's time from its own by its clock ticks, of which a quarter of a run has some
/// twenty: too few to judge each run by itself.
fn growth(evidence: &Evidence<'_>, allocator: usize, early: Quantity, late: Quantity) -> f64 {
    let sum = |of| evidence.rounds(&[NO_CHUNKS], allocator, of).into_values().sum::<f64>();
    sum(late) / sum(early)
}

/// Below this growth, rounds take about the same time. Where `malloc` searches, the last quarter
/// takes more than twice as long as the second.
const FLAT: f64 = 1.5;

fn flat(evidence: &Evidence<'_>) -> Claim {
    let claim = asked("under Freehold the program takes as long for every round");
    let Some(own) = evidence.find(FREEHOLD) else { return claim.cannot("it was not run") };
    let in_user = growth(
        evidence,
        own,
        |numbers| quarter(numbers, ROUND_IN_USER, false),
        |numbers| quarter(numbers, ROUND_IN_USER, true),
    );
    let in_all = growth(
        evidence,
        own,
        |numbers| quarter(numbers, ROUND_PROCESSOR, false),
        |numbers| quarter(numbers, ROUND_PROCESSOR, true),
    );
    if !in_user.is_finite() {
        return claim.cannot("there are too few rounds");
    }
    let here = format!(
        "the last rounds take {} times as long as early ones in the program, {} times with the \
         kernel's page faults",
        number(in_user),
        number(in_all)
    );
    claim.found(all_say(iter::once(in_user < FLAT)), here)
}

fn faster(evidence: &Evidence<'_>) -> Claim {
    let claim = asked("Freehold is faster than mtmalloc with any chunk size");
    let (Some(own), Some(model)) = (evidence.find(FREEHOLD), evidence.find(MTMALLOC)) else {
        return claim.cannot("one of them was not run");
    };
    let own = evidence.rounds(&[NO_CHUNKS], own, PROCESSOR);
    let against = |chunk: &u64| {
        let other = evidence.rounds(&[*chunk], model, PROCESSOR);
        let say = crate::reproduce::claims::compare(&own, &other, |own, other| own < other);
        (say, format!("{chunk}: {} s, {} s", typical(&own), typical(&other)))
    };
    let all: Vec<(Say, String)> = CHUNK_SIZES.iter().map(against).collect();
    claim.found_in_all(&all)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use freehold_model::ClaimVerdict::{CannotBeTested, DoesNotHold, Holds, Undecided};
    use freehold_model::{Column, HarnessRun, Readings, Usage};

    use super::*;
    use crate::reproduce::invented::{invented, invented_in, machine, seconds};

    /// A run that takes so long on the processor, in rounds that take as much as `of` says.
    fn run(user_seconds: f64, of: impl Fn(u64) -> f64) -> HarnessRun {
        let column =
            |name: &str, unit: &str| Column { name: name.to_owned(), unit: unit.to_owned() };
        let named = |name| column(name, "seconds");
        let columns = vec![column("round", ""), named(ROUND_PROCESSOR), named(ROUND_IN_USER)];
        // The pages of later rounds are dear.
        let rows = (0..ROUNDS).map(|round| vec![round as f64, of(round) + round as f64, of(round)]);
        let rows = rows.collect();
        let run = seconds(user_seconds);
        let usage = Usage { user_seconds, ..run.usage };
        HarnessRun { usage, series: Some(Readings { columns, rows }), ..run }
    }

    fn under(name: &str, place: &[u64], twenty: f64) -> HarnessRun {
        match (name, place[0]) {
            (FREEHOLD, _) => run(1.0, |_| 0.01),
            (_, 9) => run(300.0, |round| round as f64),
            (_, 20) => run(twenty, |round| round as f64),
            _ => run(40.0, |round| round as f64),
        }
    }

    #[test]
    fn ratios_hold_within_a_factor_of_two_and_rounds_that_are_alike_are_flat() {
        let all = &[MTMALLOC, FREEHOLD];
        let found =
            invented("gove-chunksize", machine(2), all, |name, place| under(name, place, 60.0));
        assert_eq!(found.verdict("chunks of 20 pages").0, Holds);
        assert_eq!(found.verdict("chunks of 30 pages").0, Holds);
        assert_eq!(found.verdict("under Freehold the program").0, Holds);
        assert_eq!(found.verdict("Freehold is faster").0, Holds);
        let found =
            invented("gove-chunksize", machine(2), all, |name, place| under(name, place, 200.0));
        assert_eq!(found.verdict("chunks of 20 pages").0, DoesNotHold);
    }

    #[test]
    fn of_three_runs_the_middle_one_decides_on_a_ratio() {
        let all = &[MTMALLOC];
        let twenty = Cell::new(0.0);
        let of_runs = |first: f64, step: f64| {
            twenty.set(first);
            invented_in(3, "gove-chunksize", machine(2), all, |name, place| {
                let now = twenty.get();
                if place[0] == 20 {
                    twenty.set(now + step);
                }
                under(name, place, now)
            })
        };
        let claim = "chunks of 20 pages";
        assert_eq!(of_runs(20.0, 40.0).verdict(claim).0, Holds);
        assert_eq!(of_runs(100.0, 100.0).verdict(claim).0, Undecided);
        assert_eq!(of_runs(200.0, 40.0).verdict(claim).0, DoesNotHold);
    }

    #[test]
    fn rounds_that_take_ever_longer_are_not_flat_and_those_of_all_runs_count_together() {
        let all = &[MTMALLOC, FREEHOLD];
        let with_own = |of: fn(u64) -> f64| {
            invented("gove-chunksize", machine(2), all, |name, place| match name {
                FREEHOLD => run(1.0, of),
                _ => under(name, place, 60.0),
            })
        };
        let claim = "under Freehold the program";
        assert_eq!(with_own(|round| round as f64).verdict(claim).0, DoesNotHold);
        assert_eq!(with_own(|round| 0.01 + round as f64 / 1e4).verdict(claim).0, Holds);
        // A kernel that counted no tick in any early round says nothing.
        let unseen = with_own(|round| f64::from(u8::from(round > 60)));
        assert_eq!(unseen.verdict(claim).0, CannotBeTested);
    }

    #[test]
    fn nothing_is_said_of_the_ratios_where_memory_was_too_short_for_all_rounds() {
        let small = Scale { available_bytes: 1 << 30, ..machine(2) };
        let all = &[MTMALLOC, FREEHOLD];
        let found = invented("gove-chunksize", small, all, |name, place| under(name, place, 60.0));
        assert_eq!(found.verdict("chunks of 20 pages").0, CannotBeTested);
    }
}
