//! Who is first, by a measure, at one place or at all of them.

use freehold_model::{Better, Claim};

use crate::known::FREEHOLD;
use crate::reproduce::Evidence;
use crate::reproduce::claims::{Judged, Say, asked, compare, typical};
use crate::reproduce::evidence::{Quantity, Rounds, VALUE, middle};

/// A number of a run, and which of two is the better one.
#[derive(Clone, Copy)]
pub(crate) struct Measure {
    pub(crate) of: Quantity,
    pub(crate) better: Better,
}

/// What the harness is about, where more is better.
pub(crate) const RATE: Measure = Measure { of: VALUE, better: Better::Higher };

/// What the harness is about, where less is better.
pub(crate) const TIME: Measure = Measure { of: VALUE, better: Better::Lower };

impl Measure {
    /// Whether the first of two numbers is at least as good as the second.
    fn is_as_good(self, first: f64, second: f64) -> bool {
        match self.better {
            Better::Higher => first >= second,
            Better::Lower => first <= second,
        }
    }

    /// The best of some rounds, by their medians.
    fn best(self, all: &[(Say, usize, Rounds)]) -> Option<&(Say, usize, Rounds)> {
        let with_numbers = all.iter().filter(|(.., rounds)| !rounds.is_empty());
        let key = |rounds: &Rounds| middle(rounds).unwrap_or(0.0);
        match self.better {
            Better::Higher => with_numbers.max_by(|a, b| key(&a.2).total_cmp(&key(&b.2))),
            Better::Lower => with_numbers.min_by(|a, b| key(&a.2).total_cmp(&key(&b.2))),
        }
    }
}

/// Whether an allocator is ahead of all the others at a place, and the numbers of it and of the
/// best of them.
pub(crate) fn is_ahead(
    evidence: &Evidence<'_>,
    place: &[u64],
    measure: Measure,
    first: usize,
    others: &[usize],
) -> (Say, String) {
    let own = evidence.rounds(place, first, measure.of);
    let against = |other: &usize| {
        let rounds = evidence.rounds(place, *other, measure.of);
        (compare(&own, &rounds, |own, other| measure.is_as_good(own, other)), *other, rounds)
    };
    let all: Vec<(Say, usize, Rounds)> = others.iter().map(against).collect();
    let name = |index: usize| &evidence.allocators[index].name;
    let text = measure.best(&all).map_or_else(String::new, |(_, other, rounds)| {
        format!(
            "{}: {} {}, {} {}",
            evidence.label(place),
            name(first),
            typical(&own),
            name(*other),
            typical(rounds)
        )
    });
    let has = |wanted: Say| all.iter().any(|(say, ..)| *say == wanted);
    let say = [Say::No, Say::Both, Say::Yes].into_iter().find(|say| has(*say));
    (say.unwrap_or(Say::Nothing), text)
}

/// Judges the claim that an allocator is ahead of the others at all of these places.
pub(crate) fn leads(
    evidence: &Evidence<'_>,
    claim: Judged,
    places: &[Vec<u64>],
    measure: Measure,
    first: usize,
    others: &[usize],
) -> Claim {
    let at = |place: &Vec<u64>| is_ahead(evidence, place, measure, first, others);
    let all: Vec<_> = places.iter().map(at).collect();
    let count = all.iter().filter(|(say, _)| *say != Say::Nothing).count();
    if count > 2 && all.iter().all(|(say, _)| matches!(say, Say::Yes | Say::Nothing)) {
        return claim.found(Say::Yes, format!("at all {count} places"));
    }
    claim.found_in_all(&all)
}

/// Judges the claim that the first of these allocators is ahead of the others that are here.
pub(crate) fn named_leads(
    evidence: &Evidence<'_>,
    claim: Judged,
    places: &[Vec<u64>],
    measure: Measure,
    first: &str,
    others: &[&str],
) -> Claim {
    let Some(own) = evidence.find(first) else {
        return claim.cannot(&format!("{first} was not run"));
    };
    let others: Vec<usize> = others.iter().filter_map(|name| evidence.find(name)).collect();
    if others.is_empty() {
        return claim.cannot("none of the others was run");
    }
    leads(evidence, claim, places, measure, own, &others)
}

/// Our own question: is Freehold ahead of everything else that was run?
pub(crate) fn freehold_leads(
    evidence: &Evidence<'_>,
    text: &str,
    places: &[Vec<u64>],
    measure: Measure,
) -> Claim {
    let claim = asked(text);
    let Some(first) = evidence.find(FREEHOLD) else { return claim.cannot("it was not run") };
    let others: Vec<usize> = (0..evidence.allocators.len()).filter(|n| *n != first).collect();
    leads(evidence, claim, places, measure, first, &others)
}
