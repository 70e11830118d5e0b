//! Which licences the dependencies may have.

use crate::metadata::{packages, text};
use serde_json::Value;

/// Licences that ask no more than to be named, in SPDX terms.
const ACCEPTED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Findings: packages none of whose licences is accepted.
pub(crate) fn check(metadata: &Value) -> Vec<String> {
    let refused = packages(metadata).filter(|package| !is_accepted(text(package, "license")));
    refused
        .map(|package| {
            let (name, version) = (text(package, "name"), text(package, "version"));
            format!("{name} {version}: licence {:?} is not accepted", text(package, "license"))
        })
        .collect()
}

/// Whether an SPDX expression leaves an accepted choice: one side of an OR, both sides of an AND.
/// `/` is an old way of writing OR.
fn is_accepted(expression: &str) -> bool {
    let expression = expression.replace('/', " OR ");
    let expression = strip_parentheses(expression.trim());
    if let Some((left, right)) = split_outside(expression, " OR ") {
        return is_accepted(left) || is_accepted(right);
    }
    if let Some((left, right)) = split_outside(expression, " AND ") {
        return is_accepted(left) && is_accepted(right);
    }
    ACCEPTED.contains(&expression)
}

/// Takes off parentheses that enclose everything.
fn strip_parentheses(expression: &str) -> &str {
    let inner = expression.strip_prefix('(').and_then(|e| e.strip_suffix(')'));
    inner.filter(|inner| depth_stays_positive(inner)).map_or(expression, str::trim)
}

fn depth_stays_positive(expression: &str) -> bool {
    let mut depth = 0;
    expression.chars().all(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth >= 0
    })
}

/// Splits at the first `word` that stands outside of parentheses.
fn split_outside<'a>(expression: &'a str, word: &str) -> Option<(&'a str, &'a str)> {
    let outside = |at: &usize| {
        let before = &expression[..*at];
        before.matches('(').count() == before.matches(')').count()
    };
    let (at, _) = expression.match_indices(word).find(|(at, _)| outside(at))?;
    Some((&expression[..at], &expression[at + word.len()..]))
}

#[cfg(test)]
mod tests {
    use super::is_accepted;

    #[test]
    fn a_choice_is_enough_and_a_conjunction_needs_both() {
        assert!(is_accepted("MIT"));
        assert!(is_accepted("MIT/Apache-2.0"));
        assert!(is_accepted("GPL-3.0 OR MIT"));
        assert!(is_accepted("(MIT OR Apache-2.0) AND Unicode-3.0"));
        assert!(is_accepted("Apache-2.0 WITH LLVM-exception OR GPL-2.0"));
        assert!(!is_accepted("(MIT OR Apache-2.0) AND GPL-3.0"));
        assert!(!is_accepted("GPL-3.0"));
        assert!(!is_accepted(""));
    }
}
