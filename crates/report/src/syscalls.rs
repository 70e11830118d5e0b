//! System calls as tables like those of `truss -c`. It must not know how they were counted.

use std::fmt::Write as _;

use freehold_model::{CallRow, SyscallsReport, ThreadCalls};

use crate::numbers::{duration, grouped};
use crate::table::{Align, Cell, Table, Tone};

/// The calls of all threads; and those of each of so many threads.
pub fn syscalls(report: &SyscallsReport, threads: usize) -> String {
    let mut text = table(&report.calls).text();
    for thread in report.threads.iter().take(threads) {
        let ThreadCalls { tid, name, calls } = thread;
        let title = Tone::Strong.paint(&format!("Thread {tid}, {name}"));
        // Writing to a string cannot fail.
        let _ = write!(text, "\n{title}\n{}", table(calls).text());
    }
    let made: u64 = report.calls.iter().map(|row| row.count).sum();
    let errors: u64 = report.calls.iter().map(|row| row.errors).sum();
    let per_second = if report.seconds > 0.0 { made as f64 / report.seconds } else { 0.0 };
    let _ = writeln!(
        text,
        "\n{} calls, {} errors, {} threads in {:.2} s: {} calls a second; tracing took {:.2} s of \
         a processor",
        grouped(made),
        grouped(errors),
        report.threads.len(),
        report.seconds,
        grouped(per_second.round() as u64),
        report.observer_seconds,
    );
    text
}

fn table(calls: &[CallRow]) -> Table {
    let right = ["Time", "Calls", "Errors", "Mean", "Longest"].map(|name| (name, Align::Right));
    let columns = right.into_iter().chain([("Call", Align::Left)]);
    let mut table = Table::new(columns.map(|(name, align)| (name.to_owned(), align)));
    for row in calls {
        let errors = if row.errors > 0 { grouped(row.errors) } else { String::new() };
        table.push(vec![
            Cell::plain(duration(row.seconds)),
            Cell::plain(grouped(row.count)),
            Cell::plain(errors),
            Cell::plain(duration(row.seconds / row.count.max(1) as f64)),
            Cell::plain(duration(row.longest_seconds)),
            Cell::toned(&row.name, Tone::Strong),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_shown_in_all_and_by_thread() {
        let read = CallRow {
            name: "read".to_owned(),
            count: 2000,
            errors: 3,
            seconds: 0.5,
            longest_seconds: 0.01,
        };
        let thread = ThreadCalls { tid: 7, name: "worker".to_owned(), calls: vec![read.clone()] };
        let report = SyscallsReport {
            seconds: 2.0,
            calls: vec![read],
            threads: vec![thread],
            ..SyscallsReport::default()
        };
        let text = syscalls(&report, 1);
        assert!(text.contains("500.0 ms  2,000       3  250 µs  10.0 ms"), "{text}");
        assert!(text.contains("Thread 7, worker"), "{text}");
        assert!(text.contains("2,000 calls, 3 errors, 1 threads in 2.00 s: 1,000 calls a second"));
        assert!(!syscalls(&report, 0).contains("Thread"));
    }
}
