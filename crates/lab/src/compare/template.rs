//! Parameters: lists of values that take turns, and commands in which `{name}` stands for one of
//! them.

use std::ffi::{OsStr, OsString};

use freehold_model::Parameters;

/// A list of values under its name.
pub type List = (String, Vec<String>);

/// The name of a list that none of these texts mentions: a slip, since all its cases would be the
/// same.
pub fn unmentioned<'a>(lists: &'a [List], texts: &[&str]) -> Option<&'a str> {
    let is_mentioned = |name: &str| texts.iter().any(|text| text.contains(&placeholder(name)));
    lists.iter().map(|(name, _)| name.as_str()).find(|name| !is_mentioned(name))
}

fn placeholder(name: &str) -> String {
    format!("{{{name}}}")
}

/// All combinations of values, the last list varying fastest; a single empty one without lists.
pub fn parameters(lists: &[List]) -> Vec<Parameters> {
    let mut cases = vec![Parameters::new()];
    for (name, values) in lists {
        let with = |case: &Parameters, value: &String| {
            let mut case = case.clone();
            case.insert(name.clone(), value.clone());
            case
        };
        cases = cases
            .iter()
            .flat_map(|case| values.iter().map(move |value| with(case, value)))
            .collect();
    }
    cases
}

/// A word with the values of its parameters. One that is not text holds none.
pub fn filled(word: &OsStr, case: &Parameters) -> OsString {
    let Some(text) = word.to_str() else { return word.to_owned() };
    let fill =
        |text: String, (name, value): (&String, &String)| text.replace(&placeholder(name), value);
    case.iter().fold(text.to_owned(), fill).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(name: &str, values: &[&str]) -> List {
        (name.to_owned(), values.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn lists_are_combined() {
        let cases = parameters(&[list("t", &["1", "2"]), list("s", &["a", "b"])]);
        let shown: Vec<String> =
            cases.iter().map(|case| format!("{}{}", case["t"], case["s"])).collect();
        assert_eq!(shown, ["1a", "1b", "2a", "2b"]);
        assert_eq!(parameters(&[]), [Parameters::new()]);
    }

    #[test]
    fn a_list_that_nothing_mentions_is_found() {
        let lists = [list("a", &["1"]), list("b", &["1"])];
        assert_eq!(unmentioned(&lists, &["x {a}", "{b}"]), None);
        assert_eq!(unmentioned(&lists, &["x {a}", "b"]), Some("b"));
    }

    #[test]
    fn names_in_braces_are_replaced_and_other_braces_are_left() {
        let case = &parameters(&[list("n", &["7"])])[0];
        let filled = |word: &str| filled(OsStr::new(word), case);
        assert_eq!(filled("--threads={n}"), "--threads=7");
        assert_eq!(filled("{n}{n} {other} {"), "77 {other} {");
    }
}
