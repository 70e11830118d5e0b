//! What was recorded, in words and as histograms. It must not know how it was recorded.

use std::fmt::Write as _;

use freehold_model::{
    Fates, LinearHistogram, ProcessRecording, RecordDocument, RecordingCost, Share, SizesDocument,
    TraceCalls,
};

use crate::histogram::{linear, powers_of_two};
use crate::numbers::{grouped, percent};
use crate::table::Tone;

/// Processes that are described one by one: as many at most, and only those that have made a share
/// of the calls. A build has thousands.
const SHOWN: usize = 8;
const LEAST_SHARE: f64 = 0.01;

/// Sizes that are listed one by one.
const LISTED: usize = 10;

/// What was recorded of a command.
pub fn recording(document: &RecordDocument) -> String {
    let mut text = String::new();
    let mut processes: Vec<_> = document.processes.iter().collect();
    processes.sort_by_key(|process| std::cmp::Reverse(process.calls.total()));
    let calls = |processes: &[&ProcessRecording]| -> u64 {
        processes.iter().map(|process| process.calls.total()).sum()
    };
    let least = (calls(&processes) as f64 * LEAST_SHARE) as u64;
    let shown = processes.iter().take(SHOWN).take_while(|process| process.calls.total() >= least);
    let (shown, others) = processes.split_at(shown.count());
    for process in shown {
        describe(&mut text, process);
    }
    if !others.is_empty() {
        let number = count(others.len() as u64, "other process");
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{number}: {} calls", grouped(calls(others)));
    }
    if document.absent_processes > 0 {
        let number = count(document.absent_processes, "further process");
        let _ = writeln!(text, "{number}: nothing of them is in the trace");
    }
    let recorded: u64 = processes.iter().map(|process| process.recorded_calls).sum();
    let each = document.file_bytes as f64 / recorded as f64;
    let each = if recorded > 0 { format!(", {each:.1} bytes a call") } else { String::new() };
    let _ = writeln!(text, "{}: {}{each}", document.file, bytes(document.file_bytes));
    if let Some(measured) = &document.cost {
        cost(&mut text, measured);
    }
    text
}

fn describe(text: &mut String, process: &ProcessRecording) {
    let calls = &process.calls;
    let total = grouped(calls.total());
    let about = if process.exact_seconds.is_some() { "about " } else { "" };
    let title = format!("process {}, {} (pid {})", process.process, name(process), process.pid);
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{}: {about}{total} calls by {} in {:.2} s",
        Tone::Strong.paint(&title),
        count(process.threads.into(), "thread"),
        process.seconds
    );
    let _ = writeln!(text, "  calls      {}", by_function(calls));
    let _ = writeln!(
        text,
        "  memory     {} asked for; at most {} alive, in {} objects after {:.2} s; {} at the end",
        bytes(process.requested_bytes),
        bytes(process.peak.bytes),
        grouped(process.peak.objects),
        process.peak.seconds,
        bytes(process.remaining.bytes)
    );
    let freed = calls.frees().saturating_sub(process.freed_unknown);
    if freed > 0 {
        let elsewhere = percent(process.freed_elsewhere as f64 / freed as f64);
        let _ = writeln!(text, "  threads    {elsewhere} of what was freed, by another thread");
    }
    let _ = writeln!(text, "  allocator  {}", process.allocator);
    remarks(text, process);
}

/// What keeps the recording of a process from being complete.
fn remarks(text: &mut String, process: &ProcessRecording) {
    let mut remark = |sentence: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  note       {sentence}");
    };
    if let Some(parent) = process.forked_from {
        remark(format!("a copy of process {parent}, whose objects it may free"));
    }
    if let Some(seconds) = process.exact_seconds {
        remark(format!(
            "every call until {seconds:.2} s; from then on a share of the objects, as the trace \
             filled: counts are estimates"
        ));
    }
    let counts = [
        (process.freed_unknown, "objects freed that were not seen being given out"),
        (process.nested, "calls within a call, which are not recorded"),
        (process.lost, "calls that there was no room for"),
    ];
    for (number, what) in counts {
        if number > 0 {
            remark(format!("{} {what}", grouped(number)));
        }
    }
}

fn by_function(calls: &TraceCalls) -> String {
    let counts = [
        (calls.malloc, "malloc"),
        (calls.calloc, "calloc"),
        (calls.realloc, "realloc"),
        (calls.aligned, "aligned"),
        (calls.new, "new"),
        (calls.free, "free"),
        (calls.delete, "delete"),
        (calls.free_null, "free(NULL)"),
        (calls.failed, "failed"),
    ];
    let made = counts.iter().filter(|(number, _)| *number > 0);
    let words: Vec<_> = made.map(|(number, name)| format!("{} {name}", grouped(*number))).collect();
    words.join(", ")
}

fn cost(text: &mut String, cost: &RecordingCost) {
    let RecordingCost { plain_ns, recorded_ns, ratio, .. } = cost;
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "overhead: {:.2} times ({:.2} to {:.2}) the processor time of making the calls and no \
         more, {plain_ns:.1} ns without and {recorded_ns:.1} with, measured by making {} of them \
         again",
        ratio.estimate,
        ratio.low,
        ratio.high,
        grouped(cost.calls)
    );
    if let Some(share) = cost.share {
        let _ = write!(text, "; about {} of what the command used", percent(share));
    }
    text.push('\n');
}

/// The histograms of a process.
pub fn sizes(document: &SizesDocument) -> String {
    let process = &document.process;
    let title = format!("{} (pid {})", name(process), process.pid);
    let mut text = format!(
        "{}: {} requests of {} in all\n",
        Tone::Strong.paint(&title),
        grouped(document.requests),
        bytes(document.requested_bytes)
    );
    remarks(&mut text, process);
    section(&mut text, "sizes, by powers of two (bytes)", &powers_of_two(&document.powers));
    let LinearHistogram { step, .. } = document.linear;
    section(&mut text, &format!("sizes, in steps of {step} (bytes)"), &linear(&document.linear));
    section(&mut text, "the most frequent sizes", &most_frequent(document));
    section(
        &mut text,
        "lifetimes of what was freed, by powers of two (nanoseconds; those below 1024 at least)",
        &powers_of_two(&document.lifetimes),
    );
    section(&mut text, "what became of the objects", &fates(&document.fates));
    text
}

fn section(text: &mut String, title: &str, body: &str) {
    let title = Tone::Strong.paint(title);
    // Writing to a string cannot fail.
    let _ = write!(text, "\n{title}\n{body}");
}

fn most_frequent(document: &SizesDocument) -> String {
    let mut sizes: Vec<_> = document.sizes.iter().collect();
    sizes.sort_by_key(|size| (std::cmp::Reverse(size.count), size.size));
    let mut text = String::new();
    for size in sizes.iter().take(LISTED) {
        let share = 100.0 * size.count as f64 / document.requests.max(1) as f64;
        // Writing to a string cannot fail.
        let _ =
            writeln!(text, "{:>16} {share:>6.2} % {:>14}", grouped(size.size), grouped(size.count));
    }
    text
}

fn fates(fates: &Fates) -> String {
    let all = [fates.freed_here, fates.freed_elsewhere, fates.never_freed, fates.unknown];
    let objects: u64 = all.iter().map(|share| share.objects).sum();
    let line = |what: &str, share: Share| {
        let part = 100.0 * share.objects as f64 / objects.max(1) as f64;
        format!("{what:>31} {part:>6.2} % {:>14}  {}\n", grouped(share.objects), bytes(share.bytes))
    };
    let mut text = line("freed by the thread that had it", fates.freed_here)
        + &line("freed by another thread", fates.freed_elsewhere)
        + &line("not freed", fates.never_freed);
    if fates.unknown.objects > 0 {
        text += &line("not followed to the end", fates.unknown);
    }
    text
}

/// The command of a process, without the directories of its program.
pub(crate) fn name(process: &ProcessRecording) -> &str {
    let program = process.command.first().filter(|name| !name.is_empty());
    let program = program.unwrap_or(&process.program);
    program.rsplit('/').next().unwrap_or(program)
}

pub(crate) fn count(number: u64, what: &str) -> String {
    let plural = match number {
        1 => "",
        _ if what.ends_with('s') => "es",
        _ => "s",
    };
    format!("{} {what}{plural}", grouped(number))
}

/// An amount of memory, in the unit that suits it.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// The largest size that the harness `tcl-cells` takes.
const LARGEST_DRAWN: u64 = u16::MAX as u64;

/// Every size and how often it was asked for, a line each: what the harness `tcl-cells` draws
/// sizes from. What it cannot draw is said in a comment.
pub fn weights(document: &SizesDocument) -> String {
    let mut text = format!("# {}: size and count\n", name(&document.process));
    for size in &document.sizes {
        let is_drawn = (1..=LARGEST_DRAWN).contains(&size.size);
        let mark = if is_drawn { "" } else { "# " };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{mark}{} {}", size.size, size.count);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_without_calls_has_no_bytes_a_call() {
        let document = RecordDocument {
            command: Vec::new(),
            exit_status: Some(0),
            signal: None,
            file: "trace".to_owned(),
            file_bytes: 7272,
            limit_bytes: 1 << 30,
            processes: Vec::new(),
            absent_processes: 2,
            cost: None,
        };
        let text = recording(&document);
        assert_eq!(text, "2 further processes: nothing of them is in the trace\ntrace: 7.1 KiB\n");
    }

    #[test]
    fn amounts_have_the_unit_that_suits_them() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1024), "1.0 KiB");
        assert_eq!(bytes(1024 * 1024 - 1), "1.0 MiB");
        assert_eq!(bytes(u64::MAX), "16384.0 PiB");
    }
}
