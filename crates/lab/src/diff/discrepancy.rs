//! What is different about two results besides their numbers. It finds facts; what they mean is
//! said elsewhere.

use std::collections::BTreeMap;

use freehold_model::{Provenance, Stored};

/// A difference that may be the reason for others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Discrepancy {
    /// They are not about the same thing.
    OtherSubject {
        /// What the earlier one is about.
        before: String,
        /// What the later one is about.
        after: String,
    },
    /// A harness did other work in cases that are matched.
    OtherWork {
        /// The parameter.
        parameter: String,
        /// What it was in the earlier one.
        before: String,
        /// What it is in the later one.
        after: String,
        /// The cases.
        cases: Vec<String>,
    },
    /// Something about the machine.
    Machine {
        /// What it is.
        what: &'static str,
        /// What it was in the earlier one.
        before: String,
        /// What it is in the later one.
        after: String,
    },
    /// One of them was interrupted, or ran out of time.
    Incomplete {
        /// Whether it is the later one.
        is_later: bool,
    },
}

/// Looks for what is different.
pub fn discrepancies(before: &Stored, after: &Stored) -> Vec<Discrepancy> {
    let mut found = Vec::new();
    let (first, second) = (subject(before), subject(after));
    if first != second {
        found.push(Discrepancy::OtherSubject { before: first, after: second });
    }
    found.extend(other_work(before, after));
    if let (Some(first), Some(second)) = (before.provenance(), after.provenance()) {
        found.extend(machines(first, second));
    }
    for (stored, is_later) in [(before, false), (after, true)] {
        if !stored.is_complete() {
            found.push(Discrepancy::Incomplete { is_later });
        }
    }
    found
}

/// What a result is about.
fn subject(stored: &Stored) -> String {
    match stored {
        Stored::Compare(document) => document.plan.command.join(" "),
        Stored::Bench(_) | Stored::Grid(_) => "bench".to_owned(),
        Stored::Reproduction(document) => format!("reproduce {}", document.name),
        Stored::Replay(document) => format!("replay of {}", document.process.command.join(" ")),
    }
}

/// Parameters that both have and that differ, each with the cases that are concerned.
fn other_work(before: &Stored, after: &Stored) -> Vec<Discrepancy> {
    let earlier: BTreeMap<_, _> = before.parameters().into_iter().collect();
    let mut found: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for (case, parameters) in after.parameters() {
        let Some(others) = earlier.get(&case) else { continue };
        for (parameter, after) in parameters {
            let before = others.get(&parameter).filter(|before| **before != after);
            if let Some(before) = before {
                found.entry((parameter, before.clone(), after)).or_default().push(case.clone());
            }
        }
    }
    let discrepancy = |((parameter, before, after), cases)| Discrepancy::OtherWork {
        parameter,
        before,
        after,
        cases,
    };
    found.into_iter().map(discrepancy).collect()
}

fn machines(before: &Provenance, after: &Provenance) -> Vec<Discrepancy> {
    let facts = |provenance: &Provenance| {
        let machine = &provenance.machine;
        let known = |text: &Option<String>| text.clone().unwrap_or_default();
        [
            ("processor", known(&machine.cpu)),
            ("number of processors", machine.cpus_usable.to_string()),
            ("kernel", machine.kernel.clone()),
            ("transparent huge pages", known(&machine.huge_pages.enabled)),
        ]
    };
    let pairs = facts(before).into_iter().zip(facts(after));
    let differing = pairs.filter(|((_, before), (_, after))| before != after);
    differing
        .map(|((what, before), (_, after))| Discrepancy::Machine { what, before, after })
        .collect()
}

#[cfg(test)]
mod tests {
    use freehold_model::{GridCase, GridDocument, GridPlan, GridSummary, ParamValue, Params};

    use super::*;

    fn threadtest(iterations: u64) -> Stored {
        let params: Params = [("objects", 100), ("iterations", iterations)]
            .map(|(name, value)| (name.to_owned(), ParamValue::Count(value)))
            .into();
        let case = |threads| GridCase {
            harness: "threadtest".to_owned(),
            threads,
            size: None,
            params: params.clone(),
        };
        let cases = vec![case(1), case(2)];
        Stored::Grid(Box::new(GridDocument {
            complete: true,
            parts: Vec::new(),
            allocators: Vec::new(),
            plan: GridPlan { cases, ..GridPlan::default() },
            summary: GridSummary::default(),
            warnings: Vec::new(),
            runs: Vec::new(),
        }))
    }

    #[test]
    fn cases_in_which_a_harness_did_other_work_are_found() {
        assert_eq!(discrepancies(&threadtest(2), &threadtest(2)), []);
        let found = discrepancies(&threadtest(2), &threadtest(200));
        let wanted = Discrepancy::OtherWork {
            parameter: "iterations".to_owned(),
            before: "2".to_owned(),
            after: "200".to_owned(),
            cases: vec!["threadtest threads=1".to_owned(), "threadtest threads=2".to_owned()],
        };
        assert_eq!(found, [wanted]);
    }
}
