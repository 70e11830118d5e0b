//! Which allocator serves a process, in words. It must not know how that was found out.

use std::fmt::Write as _;

use freehold_model::{Linkage, ProcessReport, Provider, Verdict};

use crate::table::Tone;

/// The report on a process. The first line is the answer.
pub fn process(report: &ProcessReport) -> String {
    let mut text = String::new();
    let mut live = report.live.iter();
    if let Some(first) = live.next() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", Tone::Strong.paint(&described(first)));
        let _ = writeln!(text, "  in       {}", first.path);
    }
    let _ = writeln!(text, "  process  {}, {}", report.pid, report.executable);
    for other in live {
        let _ = writeln!(text, "  besides  {}, in {}", described(other), other.path);
    }
    for idle in &report.idle {
        let _ = writeln!(text, "  unused   {}, in {}", described(idle), idle.path);
    }
    for note in &report.notes {
        let _ = writeln!(text, "  note     {note}");
    }
    text
}

fn described(provider: &Provider) -> String {
    let name = provider.family.as_deref().unwrap_or("unknown allocator");
    let version = provider.version.as_deref().map(|version| format!(" {version}"));
    format!("{name}{}, {}", version.unwrap_or_default(), linkage(provider.linkage))
}

fn linkage(linkage: Linkage) -> &'static str {
    match linkage {
        Linkage::Preloaded => "preloaded",
        Linkage::Linked => "linked",
        Linkage::Static => "static in the executable",
        Linkage::CLibrary => "the C library's own",
        Linkage::OpenedLater => "opened later, or not used by malloc",
    }
}

/// What a run showed about its allocator, as one line.
pub fn verdict(name: &str, verdict: &Verdict) -> String {
    match verdict {
        Verdict::Live { pid } => format!("{name} is live in process {pid}"),
        Verdict::LoaderConfirms { pid } => format!(
            "{name} was live in process {pid}, which ended too soon to be looked at: its loader \
             confirms it"
        ),
        Verdict::NotLive { reason } => format!("{name} is not live: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provider(family: Option<&str>, version: Option<&str>, linkage: Linkage) -> Provider {
        Provider {
            family: family.map(str::to_owned),
            version: version.map(str::to_owned),
            linkage,
            path: "/lib/x.so".to_owned(),
        }
    }

    #[test]
    fn the_answer_comes_first_and_everything_else_below() {
        let report = ProcessReport {
            pid: 42,
            executable: "/bin/prog".to_owned(),
            live: vec![
                provider(Some("freehold"), Some("0.1.0"), Linkage::Static),
                provider(Some("system"), Some("2.36"), Linkage::CLibrary),
            ],
            idle: vec![provider(Some("jemalloc"), None, Linkage::OpenedLater)],
            notes: vec!["a note".to_owned()],
        };
        assert_eq!(
            process(&report),
            "\x1b[1mfreehold 0.1.0, static in the executable\x1b[0m\n  in       /lib/x.so\n\
             \x20 process  42, /bin/prog\n\
             \x20 besides  system 2.36, the C library's own, in /lib/x.so\n\
             \x20 unused   jemalloc, opened later, or not used by malloc, in /lib/x.so\n\
             \x20 note     a note\n"
        );
    }

    #[test]
    fn an_unknown_allocator_is_called_unknown() {
        assert_eq!(described(&provider(None, None, Linkage::Linked)), "unknown allocator, linked");
    }

    #[test]
    fn verdicts_are_one_line_each() {
        let live = verdict("jemalloc 5.3.0", &Verdict::Live { pid: 7 });
        assert_eq!(live, "jemalloc 5.3.0 is live in process 7");
        let not = verdict("jemalloc", &Verdict::NotLive { reason: "static".into() });
        assert_eq!(not, "jemalloc is not live: static");
    }
}
