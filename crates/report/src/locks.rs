//! What threads wait for, as tables like those of `plockstat -C`. It must not know how it was
//! observed.

use std::fmt::Write as _;

use freehold_model::{Frame, LocksReport, WaitKind, WaitRow};

use crate::numbers::{duration, grouped, percent};
use crate::table::{Align, Cell, Table, Tone};

/// How much of a report to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocksDetail {
    /// Rows of each table.
    pub rows: usize,
    /// Frames of each stack; with none there are no stacks.
    pub frames: usize,
}

/// The report as tables: contended locks, spinning, other waits, sleep.
pub fn locks(report: &LocksReport, detail: LocksDetail) -> String {
    let mut text = String::new();
    let (contended, idle): (Vec<_>, Vec<_>) =
        report.waits.iter().partition(|row| row.kind.is_contention());
    section(&mut text, "Contended locks", &contended, report, detail);
    spins(&mut text, report, detail);
    section(&mut text, "Waiting for others, which is no contention", &idle, report, detail);
    sleeps(&mut text, report, detail.rows);
    let allocator = report.seconds_in(WaitKind::AllocatorLock);
    let all = contended.iter().fold(0.0, |sum, row| sum + row.seconds);
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{:.2} s observed, {:.2} s of all threads: {:.2} s in contended locks ({}), {:.2} s of \
         that in the allocator ({}); all waits for futexes (LCK of freehold top) {:.2} s",
        report.seconds,
        report.thread_seconds,
        all,
        part(all, report.thread_seconds),
        allocator,
        part(allocator, report.thread_seconds),
        report.lck_seconds,
    );
    let _ = writeln!(
        text,
        "{:.0} looks a second, {} without a stack; observing took {:.2} % of a processor",
        report.cost.looks_per_second,
        report.without_stack,
        report.cost.observer_cpus * 100.0
    );
    text
}

fn part(seconds: f64, whole: f64) -> String {
    percent(if whole > 0.0 { seconds / whole } else { 0.0 })
}

fn section(
    text: &mut String,
    title: &str,
    rows: &[&WaitRow],
    report: &LocksReport,
    detail: LocksDetail,
) {
    let _ = writeln!(text, "{}", Tone::Strong.paint(title));
    if rows.is_empty() {
        let _ = writeln!(text, "  none\n");
        return;
    }
    let right = ["Waits", "Mean", "Longest", "Total", "Share"].map(|name| (name, Align::Right));
    let left = ["Lock", "Caller"].map(|name| (name, Align::Left));
    let columns = right.into_iter().chain(left).map(|(name, align)| (name.to_owned(), align));
    let mut table = Table::new(columns);
    for row in rows.iter().take(detail.rows) {
        table.push(cells(row, report));
    }
    text.push_str(&table.text());
    if rows.len() > detail.rows {
        let _ = writeln!(text, "  and {} more", rows.len() - detail.rows);
    }
    text.push('\n');
    if detail.frames > 0 {
        for row in rows.iter().take(detail.rows) {
            stacks(text, row, detail);
        }
    }
}

fn cells(row: &WaitRow, report: &LocksReport) -> Vec<Cell> {
    let caller = row.sites.first().map(|site| described(&site.caller)).unwrap_or_default();
    let more = match row.sites.len() {
        0 | 1 => String::new(),
        more => format!(" and {} more places", more - 1),
    };
    vec![
        Cell::plain(format!("~{}", grouped(row.waits.round() as u64))),
        Cell::plain(format!("~{}", duration(row.mean_seconds()))),
        Cell::plain(format!(">{}", duration(row.longest_seconds))),
        Cell::plain(duration(row.seconds)),
        Cell::plain(part(row.seconds, report.thread_seconds)),
        Cell::toned(named(row), Tone::Strong),
        Cell::plain(caller + &more),
    ]
}

/// What is waited for, and where it is declared.
fn named(row: &WaitRow) -> String {
    let declared = match (&row.file, row.line) {
        (Some(file), Some(line)) => format!(" ({}:{line})", last_of(file)),
        _ => String::new(),
    };
    format!("{}{}{declared}", prefix(row.kind), row.name)
}

/// The name of a file without its directories.
fn last_of(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}

/// Words that threads spin for: time on a processor, which is no waiting.
fn spins(text: &mut String, report: &LocksReport, detail: LocksDetail) {
    let title =
        "Spun for, or written by several threads all together, which is time on a processor";
    let _ = writeln!(text, "{}", Tone::Strong.paint(title));
    let Some(samples) = report.samples else {
        let _ = writeln!(text, "  not known: samples are not allowed\n");
        return;
    };
    let right = ["Total", "Share", "Samples"].map(|name| (name.to_owned(), Align::Right));
    let left = ["Word", "Caller"].map(|name| (name.to_owned(), Align::Left));
    let mut table = Table::new(right.into_iter().chain(left));
    for row in report.spins.iter().take(detail.rows) {
        table.push(vec![
            Cell::plain(duration(row.seconds)),
            Cell::plain(part(row.seconds, report.thread_seconds)),
            Cell::plain(grouped(row.looks)),
            Cell::toned(named(row), Tone::Strong),
            Cell::plain(row.sites.first().map(|site| described(&site.caller)).unwrap_or_default()),
        ]);
    }
    text.push_str(&if table.is_empty() { "  none\n".to_owned() } else { table.text() });
    let _ = writeln!(text, "  of {} samples of running threads\n", grouped(samples));
}

/// What is put before the name of what is waited for.
fn prefix(kind: WaitKind) -> &'static str {
    match kind {
        WaitKind::AllocatorLock => "malloc: ",
        WaitKind::Lock => "",
        WaitKind::Condition => "condition ",
        WaitKind::Join => "end of a thread ",
        WaitKind::Semaphore => "semaphore ",
        WaitKind::Barrier => "barrier ",
        WaitKind::Park => "parked ",
        WaitKind::Other => "futex ",
    }
}

/// A function with its source line, or its file where there is none.
fn described(frame: &Frame) -> String {
    let function = if frame.function.is_empty() { "(no stack)" } else { &frame.function };
    match (&frame.file, frame.line) {
        (Some(file), Some(line)) => format!("{function} ({}:{line})", last_of(file)),
        _ if frame.module.is_empty() => function.to_owned(),
        _ => format!("{function} in {}", frame.module),
    }
}

fn stacks(text: &mut String, row: &WaitRow, detail: LocksDetail) {
    let _ = writeln!(text, "  {}{}", prefix(row.kind), Tone::Strong.paint(&row.name));
    for site in row.sites.iter().take(detail.rows) {
        let _ = writeln!(text, "    {}", duration(site.seconds));
        for frame in site.stack.iter().take(detail.frames) {
            let _ = writeln!(text, "      {}", described(frame));
        }
    }
    text.push('\n');
}

fn sleeps(text: &mut String, report: &LocksReport, most: usize) {
    let _ = writeln!(text, "{}", Tone::Strong.paint("Asleep in system calls, and in page faults"));
    let columns = [("Total", Align::Right), ("Share", Align::Right), ("Call", Align::Left)];
    let mut table = Table::new(columns.map(|(name, align)| (name.to_owned(), align)));
    let mut push = |seconds: f64, name: &str| {
        let share = part(seconds, report.thread_seconds);
        table.push(vec![Cell::plain(duration(seconds)), Cell::plain(share), Cell::plain(name)]);
    };
    for row in report.sleeps.iter().take(most) {
        push(row.seconds, &row.call);
    }
    if report.fault_seconds > 0.0 {
        push(report.fault_seconds, "(page faults)");
    }
    let none = table.is_empty();
    text.push_str(if none { "  none\n" } else { "" });
    text.push_str(&if none { String::new() } else { table.text() });
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use freehold_model::WaitSite;

    use super::*;

    fn row(kind: WaitKind, name: &str, seconds: f64) -> WaitRow {
        let caller = Frame {
            function: "work".to_owned(),
            module: "prog".to_owned(),
            file: Some("/src/prog.c".to_owned()),
            line: Some(7),
        };
        WaitRow {
            kind,
            name: name.to_owned(),
            file: Some("/src/prog.c".to_owned()),
            line: Some(3),
            waits: 1000.0,
            seconds,
            longest_seconds: 0.02,
            looks: 50,
            sites: vec![WaitSite { stack: vec![caller.clone()], caller, seconds }],
        }
    }

    fn shown(waits: Vec<WaitRow>, frames: usize) -> String {
        let report = LocksReport {
            seconds: 1.0,
            thread_seconds: 4.0,
            waits,
            samples: Some(0),
            ..LocksReport::default()
        };
        locks(&report, LocksDetail { rows: 10, frames })
    }

    #[test]
    fn contention_and_idleness_stand_apart() {
        let text = shown(
            vec![
                row(WaitKind::AllocatorLock, "glibc main_arena", 1.0),
                row(WaitKind::Condition, "prog`ready", 2.0),
            ],
            0,
        );
        let (contended, idle) = text.split_once("Waiting for others").expect("two parts");
        assert!(contended.contains("malloc: glibc main_arena"), "{contended}");
        assert!(contended.contains("~1,000  ~1.0 ms  >20.0 ms  1.00 s   25 %"), "{contended}");
        assert!(contended.contains("work (prog.c:7)"), "{contended}");
        assert!(idle.contains("condition prog`ready"), "{idle}");
        assert!(text.contains("1.00 s in contended locks (25 %), 1.00 s of that in the allocator"));
    }

    #[test]
    fn stacks_are_shown_as_deep_as_is_asked_for() {
        assert_eq!(shown(vec![row(WaitKind::Lock, "a", 1.0)], 0).matches("prog.c:7").count(), 1);
        assert_eq!(shown(vec![row(WaitKind::Lock, "a", 1.0)], 5).matches("prog.c:7").count(), 2);
    }

    #[test]
    fn nothing_is_said_to_be_nothing() {
        assert_eq!(shown(Vec::new(), 0).matches("  none\n").count(), 4);
    }
}
