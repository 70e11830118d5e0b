//! A diagnosis in words. It must not know how it was made.

use std::fmt::Write as _;

use freehold_model::{Cause, Confidence, Diagnosis};

use crate::table::Tone;

/// The verdict, what it rests on, and what to do.
pub fn diagnosis(diagnosis: &Diagnosis) -> String {
    let mut text = String::new();
    let title = format!("{}, {}", name(diagnosis.cause), sureness(diagnosis.confidence));
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}\n", Tone::Strong.paint(&title));
    paragraph(&mut text, &diagnosis.summary);
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
        let _ = writeln!(text, "To measure it:\n\n  {}", Tone::Strong.paint(compare));
    }
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

    #[test]
    fn a_diagnosis_says_what_it_is_why_and_what_to_do() {
        let said = diagnosis(&Diagnosis {
            subject: vec!["./server".to_owned()],
            allocator: Some("system 2.36".to_owned()),
            cause: Cause::AllocatorContention,
            confidence: Confidence::High,
            summary: "word ".repeat(40).trim_end().to_owned(),
            evidence: vec!["a line".to_owned(), "more ".repeat(40).trim_end().to_owned()],
            switching: "It would.".to_owned(),
            compare: Some("freehold compare -- ./server".to_owned()),
            findings: Findings { seconds: 2.0, thread_seconds: 16.0, ..Findings::default() },
            locks: Vec::new(),
            spins: Vec::new(),
            sources: Vec::new(),
            missing: Vec::new(),
            cost: Cost { observer_cpus: 0.02, looks_per_second: 90.0 },
        });
        let plain = said.replace("\x1b[1m", "").replace("\x1b[0m", "");
        assert!(plain.starts_with("Allocator contention, surely\n\nword word"), "{plain}");
        assert!(plain.contains("- allocator: system 2.36\n- a line\n- more more"), "{plain}");
        assert!(plain.contains("\n  freehold compare -- ./server\n"), "{plain}");
        assert!(plain.contains("\n  more more"), "{plain}");
        assert!(plain.lines().all(|line| line.chars().count() <= 100), "{plain}");
    }
}
