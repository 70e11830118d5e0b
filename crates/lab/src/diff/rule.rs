//! Rules that a change must not break, such as `rss.peak > +5%`: what they say, and whether a
//! change breaks them.

use std::fmt;

use freehold_model::{Change, Measure, RuleCheck, RuleOutcome};

use super::{Changes, is_shown};
use crate::statistics::CLAIM_LEVEL;

/// How a change is compared with the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Above,
    AtLeast,
    Below,
    AtMost,
}

const OPERATORS: [(&str, Operator); 4] = [
    (">=", Operator::AtLeast),
    ("<=", Operator::AtMost),
    (">", Operator::Above),
    ("<", Operator::Below),
];

/// A condition that is not to come true.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// As it was written.
    text: String,
    /// The allocator that it is about; all where none is named.
    allocator: Option<String>,
    measure: &'static Measure,
    operator: Operator,
    /// The limit, as a ratio: 1.05 for +5 %.
    limit: f64,
}

/// Why a rule cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleError {
    /// It does not have the form of one.
    Malformed,
    /// There is no such measure.
    UnknownMeasure {
        /// What was written.
        name: String,
    },
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => {
                f.write_str("write a rule as 'MEASURE > +5%' or 'ALLOCATOR:MEASURE < -5%'")
            }
            Self::UnknownMeasure { name } => write!(f, "there is no measure \"{name}\""),
        }
    }
}

impl std::error::Error for RuleError {}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Rule {
    /// Reads a rule.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        let found = OPERATORS.iter().find_map(|(sign, operator)| {
            let (left, right) = text.split_once(sign)?;
            Some((left.trim(), *operator, right.trim()))
        });
        let (left, operator, right) = found.ok_or(RuleError::Malformed)?;
        let (allocator, name) = match left.rsplit_once(':') {
            Some((allocator, name)) => (Some(allocator.trim().to_owned()), name.trim()),
            None => (None, left),
        };
        let measure = Measure::named(name)
            .ok_or_else(|| RuleError::UnknownMeasure { name: name.to_owned() })?;
        let percent: f64 = right
            .strip_suffix('%')
            .and_then(|number| number.trim().parse().ok())
            .filter(|percent: &f64| percent.is_finite() && *percent > -100.0)
            .ok_or(RuleError::Malformed)?;
        let limit = 1.0 + percent / 100.0;
        Ok(Self { text: text.trim().to_owned(), allocator, measure, operator, limit })
    }

    /// Whether it is about anything that both results have.
    pub fn concerns_any(&self, found: &Changes) -> bool {
        found.changes.iter().any(|change| self.concerns(&change.allocator, &change.measure))
            || self.lacks_ratio(found)
    }

    /// Whether it is about something of which there is no ratio.
    fn lacks_ratio(&self, found: &Changes) -> bool {
        found.without_ratio.iter().any(|(allocator, measure)| self.concerns(allocator, measure))
    }

    /// Whether it is about something that the later result has no numbers of. A program that
    /// crashes since the change must not pass for one that has become no slower.
    fn has_lost(&self, found: &Changes) -> bool {
        found.lost.iter().any(|(allocator, measure)| self.concerns(allocator, measure))
    }

    fn concerns(&self, allocator: &str, measure: &str) -> bool {
        measure == self.measure.name && self.allocator.as_ref().is_none_or(|own| own == allocator)
    }

    /// Whether this change breaks it: the estimate is beyond the limit, and there is a change at
    /// all. Measurements that could not have shown a change of this size settle nothing.
    fn outcome(&self, change: &Change) -> RuleOutcome {
        let ratio = &change.ratio;
        let is_beyond = match self.operator {
            Operator::Above => ratio.estimate > self.limit,
            Operator::AtLeast => ratio.estimate >= self.limit,
            Operator::Below => ratio.estimate < self.limit,
            Operator::AtMost => ratio.estimate <= self.limit,
        };
        if ratio.level < CLAIM_LEVEL {
            return RuleOutcome::NotEnoughEvidence;
        }
        if is_beyond {
            let forbids_staying = match self.operator {
                Operator::Above | Operator::AtLeast => self.limit < 1.0,
                Operator::Below | Operator::AtMost => self.limit > 1.0,
            };
            // "Not a gain of 5 %" is broken by no change as well as by a loss.
            let is_sure = is_shown(change.finding) || forbids_staying;
            return if is_sure { RuleOutcome::Broken } else { RuleOutcome::NotEnoughEvidence };
        }
        let limit = self.limit.max(1.0 / self.limit);
        let is_too_noisy = limit > 1.0 && (ratio.high / ratio.low).sqrt() > limit;
        if is_too_noisy { RuleOutcome::NotEnoughEvidence } else { RuleOutcome::Kept }
    }
}

/// Applies rules to changes. What has no ratio settles nothing.
pub fn check(rules: &[Rule], found: &Changes) -> Vec<RuleCheck> {
    let of = |rule: &Rule| -> Vec<RuleCheck> {
        let check = |change, outcome| RuleCheck { rule: rule.text.clone(), change, outcome };
        let changes = found.changes.iter().enumerate();
        let concerned =
            changes.filter(|(_, change)| rule.concerns(&change.allocator, &change.measure));
        let mut checks: Vec<_> =
            concerned.map(|(index, change)| check(Some(index), rule.outcome(change))).collect();
        if rule.lacks_ratio(found) || rule.has_lost(found) {
            checks.push(check(None, RuleOutcome::NotEnoughEvidence));
        }
        checks
    };
    rules.iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::super::changes;
    use super::super::tests::{TEN, series};
    use super::*;

    #[test]
    fn what_has_no_numbers_any_more_keeps_no_rule() {
        let before = [series("a", "wall", &TEN), series("b", "wall", &TEN)];
        let found = changes(&before, &before[..1]);
        let outcome = |text: &str| {
            let rule = Rule::parse(text).expect("a rule");
            let checks = check(&[rule], &found);
            checks.into_iter().map(|check| check.outcome).collect::<Vec<_>>()
        };
        let (kept, open) = (RuleOutcome::Kept, RuleOutcome::NotEnoughEvidence);
        assert_eq!(outcome("wall > +5%"), [kept, open]);
        assert_eq!(outcome("a:wall > +5%"), [kept]);
    }

    /// What becomes of a rule when time changes by these factors from run to run.
    fn outcome(rule: &str, before: &[f64], after: &[f64]) -> RuleOutcome {
        let rules = [Rule::parse(rule).expect("a rule")];
        let found = changes(&[series("a", "wall", before)], &[series("a", "wall", after)]);
        let checks = check(&rules, &found);
        assert_eq!(checks.len(), 1);
        checks[0].outcome
    }

    #[test]
    fn a_change_beyond_the_limit_breaks_a_rule_and_one_below_does_not() {
        let by = |factor: f64| TEN.map(|value| value * factor);
        assert_eq!(outcome("wall > +5%", &TEN, &by(1.08)), RuleOutcome::Broken);
        assert_eq!(outcome("wall > +5%", &TEN, &by(1.03)), RuleOutcome::Kept);
        assert_eq!(outcome("wall > +5%", &TEN, &by(0.8)), RuleOutcome::Kept);
        assert_eq!(outcome("wall < -5%", &TEN, &by(0.9)), RuleOutcome::Broken);
        assert_eq!(outcome("wall>=0%", &TEN, &by(1.1)), RuleOutcome::Broken);
        assert_eq!(outcome("wall > -5%", &TEN, &by(1.0)), RuleOutcome::Broken);
        assert_eq!(outcome("wall > -5%", &TEN, &by(0.9)), RuleOutcome::Kept);
    }

    #[test]
    fn noise_or_too_few_runs_settle_nothing() {
        let noisy = [1.0, 3.0, 2.0, 0.7, 1.5, 2.5];
        let noisier = [1.2, 3.3, 1.0, 2.2, 1.9, 2.9];
        assert_eq!(outcome("wall > +5%", &noisy, &noisier), RuleOutcome::NotEnoughEvidence);
        assert_eq!(outcome("wall > +5%", &noisier, &noisy), RuleOutcome::NotEnoughEvidence);
        assert_eq!(outcome("wall > +5%", &[1.0], &[2.0]), RuleOutcome::NotEnoughEvidence);
    }

    #[test]
    fn a_rule_about_readings_of_nothing_settles_nothing() {
        let zeros = TEN.map(|value| if value > 10.0 { 0.0 } else { value });
        let found = changes(&[series("a", "user", &TEN)], &[series("a", "user", &zeros)]);
        let rule = Rule::parse("user > +5%").expect("a rule");
        assert!(rule.concerns_any(&found));
        let checks = check(&[rule], &found);
        let checks: Vec<_> = checks.iter().map(|check| (check.change, check.outcome)).collect();
        assert_eq!(checks, [(None, RuleOutcome::NotEnoughEvidence)]);
        let other = Rule::parse("b:user > +5%").expect("a rule");
        assert!(!other.concerns_any(&found));
    }

    #[test]
    fn rules_are_read_as_they_are_written() {
        let rule = Rule::parse(" freehold:rss.peak>+5 % ").expect("a rule");
        assert_eq!((rule.allocator.as_deref(), rule.measure.name), (Some("freehold"), "rss.peak"));
        assert!((rule.limit - 1.05).abs() < 1e-9);
        for bad in ["", "rss.peak", "rss.peak > 5", "rss.peak = 5%", "rss.peak > much%"] {
            assert_eq!(Rule::parse(bad), Err(RuleError::Malformed), "{bad}");
        }
        let unknown = RuleError::UnknownMeasure { name: "rss.peek".to_owned() };
        assert_eq!(Rule::parse("rss.peek > 5%"), Err(unknown));
    }

    #[test]
    fn a_rule_is_about_its_allocator_or_about_all() {
        let both = [series("a", "wall", &TEN), series("b", "wall", &TEN)];
        let found = changes(&both, &both);
        let count = |rule: &str| check(&[Rule::parse(rule).expect("a rule")], &found).len();
        assert_eq!((count("wall > 1%"), count("b:wall > 1%"), count("c:wall > 1%")), (2, 1, 0));
    }
}
