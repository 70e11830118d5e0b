//! Whether the statistics keep their promises, tried on simulated measurements whose truth is
//! known. Every simulation has a fixed seed, so that each gives the same result every time.

use freehold_model::{Finding, Interval, Kind};

use super::*;
use crate::random::Random;

/// Simulated comparisons of a kind.
const COMPARISONS: u32 = 200;

/// The share of them in which same candidates may seem to differ.
const WRONG: u32 = COMPARISONS / 20;

/// How two runs of a round are disturbed.
#[derive(Debug, Clone, Copy)]
enum Noise {
    /// By many small things.
    Normal,
    /// Mostly little, sometimes much, and always for the worse.
    LogNormal,
    /// By one of two states that a run is in.
    Bimodal,
    /// By a machine that grows slower, from run to run.
    Drifting,
}

const SHAPES: [Noise; 4] = [Noise::Normal, Noise::LogNormal, Noise::Bimodal, Noise::Drifting];

/// A machine that runs two candidates, one of which takes `ratio` times as long.
struct Machine {
    random: Random,
    noise: Noise,
    ratio: f64,
    runs: u32,
}

impl Machine {
    fn new(seed: u64, noise: Noise, ratio: f64) -> Self {
        Self { random: Random::new(seed), noise, ratio, runs: 0 }
    }

    /// A round: both candidates in random order, as the ratio of their times.
    fn round(&mut self) -> f64 {
        let reference_first = self.random.below(2) == 0;
        let (first, second) = (self.run(), self.run());
        let (reference, other) = if reference_first { (first, second) } else { (second, first) };
        self.ratio * other / reference
    }

    fn run(&mut self) -> f64 {
        self.runs += 1;
        match self.noise {
            Noise::Normal => (0.02 * self.normal()).exp(),
            Noise::LogNormal => 1.0 + 0.02 * self.normal().exp(),
            Noise::Bimodal => (0.004 * self.normal()).exp() + 0.1 * self.random.below(2) as f64,
            Noise::Drifting => (0.01 * self.normal() + 0.01 * f64::from(self.runs)).exp(),
        }
    }

    fn normal(&mut self) -> f64 {
        let mut unit = || (self.random.below(1 << 53) as f64 + 0.5) / (1_u64 << 53) as f64;
        let (radius, angle) = (unit(), unit());
        (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
    }

    fn rounds(&mut self, count: usize) -> Vec<f64> {
        (0..count).map(|_| self.round()).collect()
    }
}

fn judged(ratio: &Interval, level: f64) -> Finding {
    judge(ratio, Kind::Time, level, 0.05)
}

/// What a fixed number of rounds shows.
fn fixed(machine: &mut Machine, rounds: usize) -> (Finding, Interval) {
    let ratio = paired_ratio(&machine.rounds(rounds), CLAIM_LEVEL).expect("ratios");
    (judged(&ratio, CLAIM_LEVEL), ratio)
}

/// What as many rounds show as it takes to be within `precision`, or `limit` of them.
fn until(machine: &mut Machine, precision: f64, limit: usize) -> Finding {
    let looks = Looks::repeated(limit, CLAIM_LEVEL);
    let mut ratios = Vec::new();
    loop {
        ratios.push(machine.round());
        if !looks.is_due(ratios.len()) {
            continue;
        }
        let ratio = paired_ratio(&ratios, looks.level()).expect("ratios");
        if is_within(&ratio, precision) || ratios.len() == looks.limit() {
            return judged(&ratio, looks.level());
        }
    }
}

fn is_claim(finding: Finding) -> bool {
    finding.is_better() || finding.is_worse()
}

/// Comparisons with seeds of their own in which `claims`.
fn count(mut claims: impl FnMut(u64) -> bool) -> u32 {
    (0..u64::from(COMPARISONS)).filter(|&seed| claims(seed)).count() as u32
}

#[test]
fn the_same_against_itself_hardly_ever_seems_to_differ() {
    for noise in SHAPES {
        for rounds in [8, 10, 25] {
            let wrong =
                count(|seed| is_claim(fixed(&mut Machine::new(seed, noise, 1.0), rounds).0));
            println!("{noise:?}, {rounds} rounds: {wrong} of {COMPARISONS} claim a difference");
            assert!(wrong <= WRONG, "{noise:?}, {rounds} rounds: {wrong}");
        }
    }
}

#[test]
fn looking_again_and_again_does_not_find_what_is_not_there() {
    let looks = Looks::repeated(60, CLAIM_LEVEL);
    for noise in SHAPES {
        // Whoever looks stops as soon as there seems to be a difference.
        let wrong = count(|seed| {
            let ratios = Machine::new(seed, noise, 1.0).rounds(looks.limit());
            let due = (1..=looks.limit()).filter(|&rounds| looks.is_due(rounds));
            due.map(|rounds| paired_ratio(&ratios[..rounds], looks.level()).expect("ratios"))
                .any(|ratio| is_claim(judged(&ratio, looks.level())))
        });
        println!("{noise:?}: {wrong} of {COMPARISONS} claim a difference at some look");
        assert!(wrong <= WRONG, "{noise:?}: {wrong}");
    }
}

#[test]
fn a_slowdown_of_five_percent_is_found_when_the_interval_says_that_it_can_be() {
    for noise in SHAPES {
        for rounds in [8, 12, 20, 40] {
            let (mut able, mut found) = (0, 0);
            for seed in 0..u64::from(COMPARISONS) {
                let (finding, ratio) = fixed(&mut Machine::new(seed, noise, 1.05), rounds);
                if detectable(&ratio) <= 0.05 {
                    able += 1;
                    found += u32::from(finding == Finding::Slower);
                }
            }
            println!("{noise:?}, {rounds} rounds: found {found} of {able} that could be");
            assert!(f64::from(found) >= 0.95 * f64::from(able), "{noise:?}, {rounds} rounds");
        }
    }
}

#[test]
fn a_slowdown_of_five_percent_is_found_when_measuring_until_two_percent() {
    for noise in SHAPES {
        let found =
            count(|seed| until(&mut Machine::new(seed, noise, 1.05), 0.02, 100) == Finding::Slower);
        println!("{noise:?}: found {found} of {COMPARISONS}");
        assert!(found * 100 >= COMPARISONS * 95, "{noise:?}: {found}");
    }
}

#[test]
fn intervals_hold_the_true_ratio_as_often_as_they_say() {
    for level in [LEVEL, CLAIM_LEVEL] {
        for rounds in [8, 15, 30] {
            let holds = |noise, seed| {
                let ratios = Machine::new(seed, noise, 1.3).rounds(rounds);
                let ratio = paired_ratio(&ratios, level).expect("ratios");
                ratio.low <= 1.3 && 1.3 <= ratio.high
            };
            let held: u32 = SHAPES.into_iter().map(|noise| count(|seed| holds(noise, seed))).sum();
            let all = COMPARISONS * SHAPES.len() as u32;
            println!("{rounds} rounds at {level}: {held} of {all}");
            assert!(held >= count_at_least(all, level), "{rounds} rounds at {level}: {held}");
        }
    }
}

#[test]
fn means_over_cases_hold_the_true_ratio_as_often_as_they_say() {
    for cases in [1, 17] {
        for rounds in [2, 3, 5, 8] {
            let mean = |noise, seed| {
                let mut machine = Machine::new(seed, noise, 1.3);
                let ratios: Vec<_> = (0..cases).map(|_| machine.rounds(rounds)).collect();
                geometric_mean(&ratios).expect("ratios")
            };
            let holds = |noise, seed| {
                let mean = mean(noise, seed);
                mean.low <= 1.3 && 1.3 <= mean.high
            };
            let level = mean(Noise::Normal, 0).level;
            let held: u32 = SHAPES.into_iter().map(|noise| count(|seed| holds(noise, seed))).sum();
            let all = COMPARISONS * SHAPES.len() as u32;
            println!("{cases} cases, {rounds} rounds at {level}: {held} of {all}");
            assert!(held >= count_at_least(all, level), "{cases} cases, {rounds} rounds: {held}");
        }
    }
}

/// Three standard deviations below what a count should be that `chance` decides.
fn count_at_least(all: u32, chance: f64) -> u32 {
    let all = f64::from(all);
    (all * chance - 3.0 * (all * chance * (1.0 - chance)).sqrt()) as u32
}

#[test]
fn a_median_is_within_its_interval_as_often_as_it_says() {
    for rounds in [8, 15, 30] {
        let held = count(|seed| {
            let mut machine = Machine::new(seed, Noise::LogNormal, 1.0);
            let runs: Vec<f64> = (0..rounds).map(|_| machine.run()).collect();
            let interval = median_interval(&runs, LEVEL).expect("runs");
            interval.low <= 1.02 && 1.02 <= interval.high
        });
        println!("{rounds} rounds: {held} of {COMPARISONS}");
        assert!(held >= count_at_least(COMPARISONS, LEVEL), "{rounds} rounds: {held}");
    }
}

#[test]
fn results_of_two_days_that_are_the_same_hardly_ever_seem_to_differ() {
    for noise in [Noise::Normal, Noise::LogNormal, Noise::Bimodal] {
        for rounds in [5, 10, 25] {
            let wrong = count(|seed| {
                let mut machine = Machine::new(seed, noise, 1.0);
                let mut runs = || -> Vec<f64> { (0..rounds).map(|_| machine.run()).collect() };
                let (before, after) = (runs(), runs());
                let ratio = unpaired_ratio(&before, &after, CLAIM_LEVEL).expect("ratios");
                is_claim(judged(&ratio, CLAIM_LEVEL))
            });
            println!("{noise:?}, {rounds} runs each: {wrong} of {COMPARISONS}");
            assert!(wrong <= WRONG, "{noise:?}, {rounds} runs each: {wrong}");
        }
    }
}

#[test]
fn two_groups_are_seen_where_there_are_two_and_hardly_ever_where_there_is_one() {
    for rounds in [10, 20, 50] {
        let seen = |noise| {
            count(|seed| {
                let mut machine = Machine::new(seed, noise, 1.0);
                let runs: Vec<f64> = (0..rounds).map(|_| machine.run()).collect();
                two_groups(&runs).is_some()
            })
        };
        let (normal, skewed) = (seen(Noise::Normal), seen(Noise::LogNormal));
        let bimodal = seen(Noise::Bimodal);
        println!("{rounds} runs: normal {normal}, skewed {skewed}, bimodal {bimodal}");
        assert!(normal <= WRONG && skewed <= WRONG, "{rounds} runs: {normal} and {skewed}");
        assert!(bimodal * 100 >= COMPARISONS * 80, "{rounds} runs: {bimodal}");
    }
}

#[test]
fn a_drift_is_seen_where_there_is_one_and_hardly_ever_where_there_is_none() {
    for rounds in [10, 20] {
        let seen = |noise| {
            count(|seed| {
                let mut machine = Machine::new(seed, noise, 1.0);
                let runs: Vec<f64> = (0..rounds).map(|_| machine.run()).collect();
                drift(&runs).is_some()
            })
        };
        let (still, skewed, drifting) =
            (seen(Noise::Normal), seen(Noise::LogNormal), seen(Noise::Drifting));
        println!("{rounds} runs: still {still}, skewed {skewed}, drifting {drifting}");
        assert!(still <= WRONG && skewed <= WRONG, "{rounds} runs: {still} and {skewed}");
        assert!(drifting * 100 >= COMPARISONS * 90, "{rounds} runs: {drifting}");
    }
}
