//! From numbers to verdicts. A claim is decided by what every round says: one that some rounds
//! support and others contradict is undecided.

use freehold_model::{Claim, ClaimVerdict};

use crate::reproduce::evidence::{Rounds, middle};

/// What rounds say of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Say {
    /// All of them agree.
    Yes,
    /// All of them contradict it.
    No,
    /// Some do, others do not.
    Both,
    /// There are none.
    Nothing,
}

/// Asks every round in which both have a number.
pub(crate) fn compare(a: &Rounds, b: &Rounds, holds: impl Fn(f64, f64) -> bool) -> Say {
    let answers = a.iter().filter_map(|(round, a)| Some(holds(*a, *b.get(round)?)));
    all_say(answers)
}

/// Sums answers up.
pub(crate) fn all_say(answers: impl Iterator<Item = bool>) -> Say {
    let mut said = Say::Nothing;
    for answer in answers {
        said = match (said, answer) {
            (Say::Nothing | Say::Yes, true) => Say::Yes,
            (Say::Nothing | Say::No, false) => Say::No,
            _ => Say::Both,
        };
    }
    said
}

/// A claim that is being judged.
pub(crate) struct Judged(Claim);

/// A claim of the publication.
pub(crate) fn published(text: &str) -> Judged {
    Judged(Claim {
        text: text.to_owned(),
        is_published: true,
        there: None,
        here: String::new(),
        verdict: ClaimVerdict::CannotBeTested,
    })
}

/// A question of our own.
pub(crate) fn asked(text: &str) -> Judged {
    let Judged(claim) = published(text);
    Judged(Claim { is_published: false, ..claim })
}

impl Judged {
    /// The publication's numbers.
    pub(crate) fn there(mut self, text: &str) -> Self {
        self.0.there = Some(text.to_owned());
        self
    }

    /// Why it cannot be tested.
    pub(crate) fn cannot(mut self, why: &str) -> Claim {
        self.0.verdict = ClaimVerdict::CannotBeTested;
        why.clone_into(&mut self.0.here);
        self.0
    }

    /// What the rounds say, and the numbers.
    pub(crate) fn found(mut self, say: Say, here: String) -> Claim {
        self.0.verdict = match say {
            Say::Yes => ClaimVerdict::Holds,
            Say::No => ClaimVerdict::DoesNotHold,
            Say::Both => ClaimVerdict::Undecided,
            Say::Nothing => ClaimVerdict::CannotBeTested,
        };
        let nothing = || "no run gave a number".to_owned();
        self.0.here = if say == Say::Nothing { nothing() } else { here };
        self.0
    }

    /// A claim that is made of several places: it does not hold if it fails at one, and holds if it
    /// holds at all. Each comes with its name and its numbers.
    pub(crate) fn found_in_all(self, places: &[(Say, String)]) -> Claim {
        let told = |wanted: Say| -> Vec<String> {
            places.iter().filter(|(say, _)| *say == wanted).map(|(_, text)| text.clone()).collect()
        };
        let (no, both, yes) = (told(Say::No), told(Say::Both), told(Say::Yes));
        let all = no.len() + both.len() + yes.len();
        if !no.is_empty() {
            let here = format!("not at {} of {all}: {}", no.len(), no.join("; "));
            return self.found(Say::No, here);
        }
        if !both.is_empty() {
            let here = format!("rounds differ at {} of {all}: {}", both.len(), both.join("; "));
            return self.found(Say::Both, here);
        }
        let say = if all > 0 { Say::Yes } else { Say::Nothing };
        self.found(say, yes.join("; "))
    }
}

/// A number for a sentence: three digits where there are decimals, and all of those before.
pub(crate) fn number(value: f64) -> String {
    let decimals = match value {
        100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        0.1.. => 3,
        _ => 4,
    };
    format!("{value:.decimals$}")
}

/// The median of some rounds for a sentence.
pub(crate) fn typical(rounds: &Rounds) -> String {
    middle(rounds).map_or_else(|| "nothing".to_owned(), number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(numbers: &[f64]) -> Rounds {
        (0..).zip(numbers.iter().copied()).collect()
    }

    #[test]
    fn a_comparison_is_decided_by_every_round() {
        let more = |a: &[f64], b: &[f64]| compare(&rounds(a), &rounds(b), |a, b| a > b);
        assert_eq!(more(&[2.0, 9.0], &[1.0, 8.0]), Say::Yes);
        assert_eq!(more(&[1.0, 8.0], &[2.0, 9.0]), Say::No);
        assert_eq!(more(&[1.0, 9.0], &[2.0, 8.0]), Say::Both);
        assert_eq!(more(&[1.0, 9.0], &[2.0]), Say::No);
        assert_eq!(more(&[1.0], &[]), Say::Nothing);
    }

    #[test]
    fn numbers_in_sentences_have_three_digits() {
        let shown = [5497.0, 62.04, 1.5, 0.5, 0.0123].map(number);
        assert_eq!(shown, ["5497", "62.0", "1.50", "0.500", "0.0123"]);
    }

    #[test]
    fn a_claim_of_many_places_fails_at_one_and_names_it() {
        let place = |say, text: &str| (say, text.to_owned());
        let claim = published("x").found_in_all(&[
            place(Say::Yes, "a"),
            place(Say::No, "b 1 < 2"),
            place(Say::Both, "c"),
        ]);
        assert_eq!(claim.verdict, ClaimVerdict::DoesNotHold);
        assert_eq!(claim.here, "not at 1 of 3: b 1 < 2");
        let claim = published("x").found_in_all(&[place(Say::Yes, "a"), place(Say::Nothing, "b")]);
        assert_eq!((claim.verdict, claim.here.as_str()), (ClaimVerdict::Holds, "a"));
        let claim = asked("x").found_in_all(&[place(Say::Nothing, "b")]);
        assert_eq!(claim.verdict, ClaimVerdict::CannotBeTested);
        assert!(!claim.is_published);
    }
}
