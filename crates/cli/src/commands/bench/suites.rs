//! Which harnesses a benchmark is made of: names and suites, as users write them.

use freehold_workloads::harness::Harness;
use freehold_workloads::harnesses;

use crate::exit::{Exit, Failure};
use crate::suggest;

/// The harness that has a table of its own.
pub(super) const PAIRS: &str = "pairs";

/// Harnesses in the manner of the field's newer suites. All others are from its literature.
const MODERN: [&str; 4] = ["xmalloc", "mstress", "churn", "large"];

/// Whether a harness is in a suite.
type Holds = fn(&Harness) -> bool;

/// The suites, with what is in them.
const SUITES: [(&str, Holds); 3] = [
    ("classic", |harness| !MODERN.contains(&harness.name)),
    ("modern", |harness| MODERN.contains(&harness.name)),
    ("all", |_| true),
];

/// The harnesses that these names and suites mean, each once and in their usual order.
pub(super) fn chosen(words: &[String]) -> Result<Vec<&'static Harness>, Failure> {
    for word in words {
        check(word)?;
    }
    let is_chosen = |harness: &&'static Harness| {
        words.iter().any(|word| match suite(word) {
            Some(holds) => holds(harness),
            None => harness.name == word,
        })
    };
    Ok(harnesses::all().filter(is_chosen).collect())
}

fn suite(word: &str) -> Option<Holds> {
    SUITES.iter().find(|(name, _)| *name == word).map(|(_, holds)| *holds)
}

fn check(word: &str) -> Result<(), Failure> {
    if suite(word).is_some() || harnesses::find(word).is_some() {
        return Ok(());
    }
    if word == PAIRS {
        let message = "pairs has a table of its own, and is measured apart from the others";
        return Err(Failure::new(Exit::Usage, message).hint("run freehold bench pairs"));
    }
    let failure = Failure::new(Exit::Usage, format!("there is no harness or suite \"{word}\""));
    Err(match suggest::closest(word, names()) {
        Some(name) => failure.hint(format!("did you mean \"{name}\"?")),
        None => failure.hint(format!("there are {}", names().collect::<Vec<_>>().join(", "))),
    })
}

/// Everything that can be asked for.
fn names() -> impl Iterator<Item = &'static str> {
    let suites = SUITES.iter().map(|(name, _)| *name);
    suites.chain([PAIRS]).chain(harnesses::all().map(|harness| harness.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_of(words: &[&str]) -> Vec<&'static str> {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        chosen(&words).expect("known").into_iter().map(|harness| harness.name).collect()
    }

    #[test]
    fn each_harness_is_classic_or_modern_and_all_has_both() {
        let all = names_of(&["all"]);
        assert_eq!(all, harnesses::all().map(|harness| harness.name).collect::<Vec<_>>());
        assert_eq!(names_of(&["classic", "modern"]), all);
        assert_eq!(names_of(&["modern"]).len(), MODERN.len());
        assert_eq!(names_of(&["classic"]).len() + names_of(&["modern"]).len(), all.len());
    }

    #[test]
    fn what_is_named_twice_is_measured_once() {
        assert_eq!(names_of(&["larson", "larson"]), ["larson"]);
        assert_eq!(names_of(&["classic", "larson"]), names_of(&["classic"]));
    }

    #[test]
    fn an_unknown_name_is_answered_by_a_suggestion() {
        let failure = chosen(&["larsen".to_owned()]).map(|_| ()).expect_err("unknown");
        assert_eq!(failure.hint.as_deref(), Some("did you mean \"larson\"?"));
        let failure = chosen(&["banana".to_owned()]).map(|_| ()).expect_err("unknown");
        assert!(failure.hint.is_some_and(|hint| hint.contains("threadtest")));
        chosen(&["all".to_owned(), PAIRS.to_owned()]).map(|_| ()).expect_err("apart");
    }
}
