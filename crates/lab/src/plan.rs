//! Planning a benchmark: which cases, in which order, and whether the machine can bear them. It
//! runs nothing.

use freehold_model::{Case, Length, PairsParams, Plan, Purpose, Skipped};

use crate::random::Random;

/// The share of the available memory that a case may be expected to fill.
const MEMORY_SHARE: f64 = 0.7;

/// What a size class rounds up by, at most, in common allocators; and what is touched of a block
/// that nobody writes to: its first page, by the allocator's own book-keeping.
const ROUNDING: f64 = 1.25;
const TOUCHED_BYTES: u64 = 4096;

/// Starting and ending a child, as measured on an ordinary machine.
const OVERHEAD_SECONDS: f64 = 0.1;

/// What a run of fixed loops is taken to last before one was made.
const FIXED_LOOPS_SECONDS: f64 = 2.0;

/// The combinations to measure.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    /// Numbers of pairs.
    pub pairs: Vec<u32>,
    /// Maximum sizes.
    pub max_bytes: Vec<u32>,
    /// Everything else.
    pub template: PairsParams,
    /// A case of its own, measured for the memory that it leaves behind.
    pub retention: Option<PairsParams>,
}

impl Grid {
    /// Every case, pairs varying slowest, as rows of the table.
    pub fn cases(&self) -> Vec<Case> {
        let speed = self.pairs.iter().flat_map(|&pairs| {
            self.max_bytes.iter().map(move |&max_bytes| Case {
                purpose: Purpose::Speed,
                params: PairsParams { pairs, max_bytes, ..self.template.clone() },
            })
        });
        let retention = self
            .retention
            .iter()
            .map(|params| Case { purpose: Purpose::Retention, params: params.clone() });
        speed.chain(retention).collect()
    }
}

/// Plans the cases, leaving out those that would not fit into `available_bytes` (`None` leaves
/// nothing out). With huge pages everywhere, untouched parts of blocks become resident too.
pub fn plan(cases: Vec<Case>, repeat: u32, available_bytes: Option<u64>, huge: bool) -> Plan {
    let too_large = |(case, Case { params, .. }): (usize, &Case)| {
        let available = available_bytes?;
        let needed = expected_resident_bytes(params, huge);
        (needed as f64 > available as f64 * MEMORY_SHARE).then(|| Skipped {
            case,
            reason: format!(
                "may need {:.1} GiB of memory, and {:.1} GiB are available",
                gib(needed),
                gib(available)
            ),
        })
    };
    let skipped = cases.iter().enumerate().filter_map(too_large).collect();
    Plan { cases, repeat, skipped }
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

/// What a case is expected to fill at its peak under an ordinary allocator.
pub(crate) fn expected_resident_bytes(params: &PairsParams, huge: bool) -> u64 {
    let rounded = (params.mean_bytes() as f64 * ROUNDING) as u64;
    let touched = if params.memset || huge { rounded } else { rounded.min(TOUCHED_BYTES) };
    params.blocks_in_flight() * touched
}

/// One run to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Index of the case.
    pub case: usize,
    /// Index of the allocator.
    pub allocator: usize,
    /// The round.
    pub round: u32,
}

/// The order of all runs: round by round.
pub fn schedule(plan: &Plan, allocators: usize, seed: u64) -> Vec<Step> {
    let mut random = Random::new(seed);
    let is_kept = |case: &usize| plan.skipped.iter().all(|skipped| skipped.case != *case);
    let cases: Vec<usize> = (0..plan.cases.len()).filter(is_kept).collect();
    let rounds = (0..plan.repeat).flat_map(|number| round(number, &cases, allocators, &mut random));
    rounds.collect()
}

/// The order of a round. It goes through every case once, in random order, and through every
/// allocator within a case, in random order: runs that are compared are neighbours in time, and no
/// allocator always comes after the same one.
pub(crate) fn round(
    round: u32,
    cases: &[usize],
    allocators: usize,
    random: &mut Random,
) -> Vec<Step> {
    let mut cases = cases.to_vec();
    random.shuffle(&mut cases);
    let mut steps = Vec::with_capacity(cases.len() * allocators);
    for case in cases {
        let mut order: Vec<usize> = (0..allocators).collect();
        random.shuffle(&mut order);
        steps.extend(order.into_iter().map(|allocator| Step { case, allocator, round }));
    }
    steps
}

/// How long the runs will take, roughly.
pub fn expected_seconds(plan: &Plan, steps: &[Step]) -> f64 {
    steps.iter().map(|step| expected_run_seconds(&plan.cases[step.case].params)).sum()
}

/// How long one run will take, roughly.
pub fn expected_run_seconds(params: &PairsParams) -> f64 {
    let measured = match params.length {
        Length::Samples { count, seconds, warmup_seconds } => {
            warmup_seconds + f64::from(count) * seconds
        }
        Length::Loops { .. } => FIXED_LOOPS_SECONDS,
    };
    measured + params.settle_seconds + OVERHEAD_SECONDS
}

#[cfg(test)]
pub(crate) mod tests {
    use freehold_model::{Handoff, Sizes};

    use super::*;

    pub(crate) fn params(pairs: u32, max_bytes: u32) -> PairsParams {
        PairsParams {
            pairs,
            min_bytes: 8,
            max_bytes,
            sizes: Sizes::Random,
            allocations: 5000,
            memset: false,
            handoff: Handoff::Yield,
            depth: 2,
            seed: 1,
            length: Length::Samples { count: 1, seconds: 0.5, warmup_seconds: 0.1 },
            settle_seconds: 0.0,
        }
    }

    fn grid() -> Grid {
        Grid {
            pairs: vec![1, 32],
            max_bytes: vec![256, 65536],
            template: params(0, 0),
            retention: Some(PairsParams { memset: true, ..params(32, 4096) }),
        }
    }

    #[test]
    fn cases_are_rows_with_the_retention_case_last() {
        let cases = grid().cases();
        let rows: Vec<_> =
            cases.iter().map(|case| (case.params.pairs, case.params.max_bytes)).collect();
        assert_eq!(rows, [(1, 256), (1, 65536), (32, 256), (32, 65536), (32, 4096)]);
        assert_eq!(cases[4].purpose, Purpose::Retention);
    }

    #[test]
    fn a_schedule_makes_every_run_once_and_keeps_a_case_together() {
        let plan = plan(grid().cases(), 3, None, false);
        let steps = schedule(&plan, 4, 7);
        assert_eq!(steps.len(), 5 * 4 * 3);
        for block in steps.chunks(4) {
            assert!(
                block.iter().all(|step| (step.case, step.round) == (block[0].case, block[0].round))
            );
            let mut allocators: Vec<_> = block.iter().map(|step| step.allocator).collect();
            allocators.sort_unstable();
            assert_eq!(allocators, [0, 1, 2, 3]);
        }
        assert_eq!(steps, schedule(&plan, 4, 7));
        assert_ne!(steps, schedule(&plan, 4, 8));
    }

    #[test]
    fn a_case_that_would_not_fit_is_left_out_with_the_reason() {
        let plan = plan(grid().cases(), 1, Some(1 << 30), false);
        let left_out: Vec<_> = plan.skipped.iter().map(|skipped| skipped.case).collect();
        assert_eq!(left_out, [3, 4]);
        assert_eq!(plan.skipped[0].reason, "may need 1.2 GiB of memory, and 1.0 GiB are available");
        assert_eq!(schedule(&plan, 2, 1).len(), 3 * 2);
    }

    #[test]
    fn huge_pages_make_the_untouched_part_of_a_block_count() {
        let large = params(32, 65536);
        assert!(expected_resident_bytes(&large, true) > 9 * expected_resident_bytes(&large, false));
    }
}
