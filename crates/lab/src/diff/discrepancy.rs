//! What is different about two results besides their numbers. It finds facts; what they mean is
//! said elsewhere.

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
