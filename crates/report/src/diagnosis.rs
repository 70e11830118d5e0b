//! A diagnosis in words. It must not know how it was made.

use std::fmt::Write as _;

use freehold_model::{Cause, Charge, Confidence, Diagnosis, Gap};

use crate::table::{Align, Cell, Table, Tone};

/// The verdict, what it rests on, and what to do.
pub fn diagnosis(diagnosis: &Diagnosis) -> String {
    let mut text = String::new();
    let title = format!("{}, {}", name(diagnosis.cause), sureness(diagnosis.confidence));
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}\n", Tone::Strong.paint(&title));
    paragraph(&mut text, &diagnosis.summary);
    if !diagnosis.charges.is_empty() {
        let _ = writeln!(text, "\n{}", Tone::Strong.paint("What the allocator costs"));
        paragraph(&mut text, &charged(&diagnosis.charges));
        text.push('\n');
        text.push_str(&table(&diagnosis.charges));
    }
    let _ = writeln!(text, "\n{}", Tone::Strong.paint("What this rests on"));
    if let Some(allocator) = &diagnosis.allocator {
        let _ = writeln!(text, "- allocator: {allocator}");
    }
    for line in &diagnosis.evidence {
        item(&mut text, line);
    }
    let _ = writeln!(text, "\n{}", Tone::Strong.paint("What another allocator would change"));
    paragraph(&mut text, &diagnosis.switching);
    if let Some(compare) = &diagnosis.compare {
        let may = diagnosis.cause.may_be_allocators();
        let lead = if may { "To measure it:" } else { "To make sure of that:" };
        let _ = writeln!(text, "{lead}\n\n  {}", Tone::Strong.paint(compare));
    }
    not_measured(&mut text, diagnosis);
    let findings = &diagnosis.findings;
    let _ = writeln!(
        text,
        "\nObserved for {:.1} s, {:.2} s of all threads; observing took {:.2} % of a processor.",
        findings.seconds,
        findings.thread_seconds,
        diagnosis.cost.observer_cpus * 100.0
    );
    text
}

/// The numbers that were had, as sentences.
fn charged(charges: &[Charge]) -> String {
    let known = charges.iter().filter(|charge| charge.value.is_some());
    let sentences: Vec<_> = known.map(|charge| sentence(&charge.words)).collect();
    if sentences.is_empty() { "None of it could be told.".to_owned() } else { sentences.join(" ") }
}

/// Words as a sentence.
fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string());
    format!("{}{}.", first.unwrap_or_default(), letters.as_str())
}

/// The same with where they come from and how precise they are.
fn table(charges: &[Charge]) -> String {
    let head = ["Number", "", "From", "How precise"];
    let aligned = [Align::Left, Align::Right, Align::Left, Align::Left];
    let mut table = Table::new(head.map(str::to_owned).into_iter().zip(aligned));
    for charge in charges.iter().filter(|charge| charge.value.is_some()) {
        let words = |words: &Option<String>| Cell::plain(words.as_deref().unwrap_or_default());
        let cells = [
            Cell::plain(charge.name.replace('_', " ")),
            Cell::plain(shown(charge)),
            words(&charge.source),
            words(&charge.precision),
        ];
        table.push(cells.into_iter().collect());
    }
    table.text()
}

/// A number in its unit.
fn shown(charge: &Charge) -> String {
    let value = charge.value.unwrap_or_default();
    match charge.unit.as_str() {
        "share" => format!("{:.0} %", value * 100.0),
        "bytes" => format!("{:.1} MiB", value / 1_048_576.0),
        _ => format!("{value:.0} /s"),
    }
}

/// What could not be had, with what would allow it.
fn not_measured(text: &mut String, diagnosis: &Diagnosis) {
    if diagnosis.missing.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{}", Tone::Strong.paint("What was not measured"));
    for Gap { what, remedy } in &diagnosis.missing {
        match remedy {
            Some(remedy) => item(text, &format!("{what}; to have it: {remedy}")),
            None => item(text, what),
        }
    }
}

/// A paragraph, broken into lines.
fn paragraph(text: &mut String, words: &str) {
    broken(text, "", words);
}

/// An item of a list, broken into lines.
fn item(text: &mut String, words: &str) {
    text.push_str("- ");
    broken(text, "  ", words);
}

/// Words in lines, of which all but the first begin with an indent.
fn broken(text: &mut String, indent: &str, words: &str) {
    const WIDTH: usize = 96;
    let mut column = indent.len();
    let mut is_first = true;
    for word in words.split(' ') {
        let len = word.chars().count();
        if !is_first && column + 1 + len > WIDTH {
            text.push('\n');
            text.push_str(indent);
            column = indent.len();
        } else if !is_first {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += len;
        is_first = false;
    }
    text.push('\n');
}

/// A cause in a few words.
fn name(cause: Cause) -> &'static str {
    match cause {
        Cause::AllocatorContention => "Allocator contention",
        Cause::AllocatorCpu => "Allocator processor time",
        Cause::OtherLock => "Another lock",
        Cause::Spinning => "Spinning",
        Cause::FalseSharing => "False sharing suspected",
        Cause::PageFaults => "Page-fault storm",
        Cause::MappingStorm => "Mapping storm",
        Cause::AdviceStorm => "Advice storm",
        Cause::MemoryGrows => "Growing memory",
        Cause::MemoryHeld => "Memory not given back",
        Cause::ThreadChurn => "Thread churn",
        Cause::Starved => "Too few processors",
        Cause::Computing => "Computing",
        Cause::Idle => "Nothing to do",
        Cause::TooShort => "Too short",
        Cause::TooFewLooks => "Not enough evidence",
    }
}

fn sureness(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::High => "surely",
        Confidence::Medium => "probably",
        Confidence::Low => "perhaps",
    }
}

#[cfg(test)]
mod tests {
    use freehold_model::{Cost, Findings};

    use super::*;

    fn charge(name: &str, value: Option<f64>) -> Charge {
        let known = |words: &str| value.map(|_| words.to_owned());
        Charge {
            name: name.to_owned(),
            value,
            unit: "share".to_owned(),
            words: format!("the words of {name}"),
            source: known("a file"),
            precision: known("exact"),
            remedy: value.is_none().then(|| "be root".to_owned()),
        }
    }

    #[test]
    fn a_diagnosis_says_what_it_is_why_and_what_to_do() {
        let said = diagnosis(&Diagnosis {
            subject: vec!["./server".to_owned()],
            allocator: Some("system 2.36".to_owned()),
            cause: Cause::AllocatorContention,
            confidence: Confidence::High,
            summary: "word ".repeat(40).trim_end().to_owned(),
            charges: vec![charge("allocator_locks", Some(0.25)), charge("threads_begun", None)],
            evidence: vec!["a line".to_owned(), "more ".repeat(40).trim_end().to_owned()],
            switching: "It would.".to_owned(),
            compare: Some("freehold compare -- ./server".to_owned()),
            findings: Findings { seconds: 2.0, thread_seconds: 16.0, ..Findings::default() },
            locks: Vec::new(),
            spins: Vec::new(),
            sources: Vec::new(),
            missing: vec![Gap::allowed_by("threads", "be root"), Gap::nowhere("nothing else")],
            cost: Cost { observer_cpus: 0.02, looks_per_second: 90.0 },
        });
        let plain = said.replace("\x1b[1m", "").replace("\x1b[0m", "");
        assert!(plain.starts_with("Allocator contention, surely\n\nword word"), "{plain}");
        assert!(plain.contains("- allocator: system 2.36\n- a line\n- more more"), "{plain}");
        assert!(plain.contains("\n  freehold compare -- ./server\n"), "{plain}");
        assert!(plain.contains("\n  more more"), "{plain}");
        assert!(plain.contains("costs\nThe words of allocator_locks.\n\n"), "{plain}");
        assert!(plain.contains("allocator locks  25 %  a file  exact\n"), "{plain}");
        assert!(!plain.contains("threads begun"), "{plain}");
        let gaps = "measured\n- threads; to have it: be root\n- nothing else\n";
        assert!(plain.contains(gaps), "{plain}");
        assert!(plain.lines().all(|line| line.chars().count() <= 100), "{plain}");
    }
}
