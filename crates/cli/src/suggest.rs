//! "Did you mean": the name that a mistyped one was probably meant to be.

/// How alike two names must be, from 0 to 1.
const ALIKE: f64 = 0.8;

/// The candidate most like `typed`, if any is like it at all.
pub(crate) fn closest<'a>(
    typed: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    let likeness = |candidate: &'a str| (strsim::jaro_winkler(&typed, candidate), candidate);
    let rated = candidates.into_iter().map(likeness).filter(|(likeness, _)| *likeness >= ALIKE);
    rated.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 5] = ["freehold", "system", "jemalloc", "mimalloc", "tcmalloc"];

    #[test]
    fn slips_of_the_finger_are_understood() {
        assert_eq!(closest("freehodl", NAMES), Some("freehold"));
        assert_eq!(closest("jemaloc", NAMES), Some("jemalloc"));
        assert_eq!(closest("TCMaloc", NAMES), Some("tcmalloc"));
        assert_eq!(closest("sytem", NAMES), Some("system"));
    }

    #[test]
    fn something_else_altogether_is_not() {
        assert_eq!(closest("banana", NAMES), None);
        assert_eq!(closest("", NAMES), None);
    }
}
