//! Where threads' time went, drawn: a bar for each thread, memory beneath; and as a table. It must
//! not know how it was observed.

use std::fmt::Write as _;

use freehold_model::{Shares, ThreadBar, TimeColumn, Timeline};

use crate::numbers::{mib, percent};
use crate::page::{self, Section};
use crate::table::{Align, Cell, Table, Tone};

/// Where bars begin, and how wide all columns are together.
const LEFT: f64 = 170.0;
const WIDTH: f64 = 1000.0;

/// How high a bar is, from one to the next, and the space above them.
const BAR: f64 = 18.0;
const STEP: f64 = 22.0;
const TOP: f64 = 64.0;

/// How high memory is drawn.
const MEMORY: f64 = 80.0;

/// A part of a bar.
pub(crate) struct Part {
    /// What it is.
    pub(crate) name: &'static str,
    /// The name of its colour in a page's style.
    pub(crate) class: &'static str,
    colour: &'static str,
    /// The head of its column in a table.
    column: &'static str,
    /// How to read it.
    pub(crate) of: fn(&Shares) -> f64,
}

/// The parts of a bar from below.
pub(crate) const PARTS: [Part; 6] = [
    part("user", "usr", "#3a9d4a", "USR", |shares| shares.usr),
    part("kernel", "sys", "#d0332f", "SYS", |shares| shares.sys),
    part("waiting for a lock", "lck", "#f08c1e", "LCK", |shares| shares.lck.unwrap_or_default()),
    part("waiting for a processor", "lat", "#f5d327", "LAT", |shares| shares.lat),
    part("in a page fault", "dfl", "#7a4fb5", "DFL", Shares::faults),
    part("asleep", "slp", "#dcdcdc", "SLP", |shares| shares.slp),
];

const fn part(
    name: &'static str,
    class: &'static str,
    colour: &'static str,
    column: &'static str,
    of: fn(&Shares) -> f64,
) -> Part {
    Part { name, class, colour, column, of }
}

/// The whole of a timeline as a table for a terminal.
pub fn timeline_text(timeline: &Timeline) -> String {
    page::text(vec![section(timeline)])
}

/// The same as Markdown.
pub fn timeline_markdown(timeline: &Timeline) -> String {
    page::markdown(vec![section(timeline)])
}

/// Where each thread's time went over the whole of a run.
pub(crate) fn section(timeline: &Timeline) -> Section {
    let left = ("Thread".to_owned(), Align::Left);
    let right = PARTS.iter().map(|part| (part.column.to_owned(), Align::Right));
    let mut table = Table::new([left].into_iter().chain(right));
    for thread in &timeline.threads {
        let shares = mean(timeline, thread);
        let name = format!("{} {}", thread.tid, thread.name);
        let cells = PARTS.iter().map(|part| Cell::plain(percent((part.of)(&shares))));
        table.push([Cell::toned(name, Tone::Strong)].into_iter().chain(cells).collect());
    }
    let seconds = timeline.columns.last().map_or(0.0, |last| last.end_seconds);
    let peak = timeline.columns.iter().map(|column| column.resident_bytes).max().unwrap_or(0);
    let mut paragraph = format!(
        "{}\n{seconds:.1} s observed; at most {} MiB resident.",
        timeline.subject.join(" "),
        mib(peak as f64)
    );
    if let Some(live) = timeline.columns.iter().filter_map(live).max() {
        let _ = write!(paragraph, " At most {} MiB of it were in use.", mib(live as f64));
    }
    if timeline.left_out > 0 {
        let _ = write!(paragraph, "\n{} threads are not shown.", timeline.left_out);
    }
    Section { heading: "Where each thread's time went".to_owned(), paragraph, table: Some(table) }
}

/// Where a thread's time went over the whole of its life.
pub(crate) fn mean(timeline: &Timeline, thread: &ThreadBar) -> Shares {
    let there = || {
        let columns = timeline.columns.iter().zip(&thread.columns);
        columns.filter_map(|(column, shares)| Some((column.seconds, shares.as_ref()?)))
    };
    let whole: f64 = there().map(|(seconds, _)| seconds).sum();
    let mut mean = Shares::default();
    for (seconds, shares) in there().filter(|_| whole > 0.0) {
        mean.add(shares, seconds / whole);
    }
    mean
}

/// The picture, as SVG.
pub fn timeline_svg(timeline: &Timeline) -> String {
    let bars = TOP + timeline.threads.len() as f64 * STEP;
    let height = bars + MEMORY + 60.0;
    let width = LEFT + WIDTH + 30.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    head(&mut svg, timeline);
    let seconds = timeline.columns.last().map_or(0.0, |last| last.end_seconds);
    let scale = if seconds > 0.0 { WIDTH / seconds } else { 0.0 };
    for (n, thread) in timeline.threads.iter().enumerate() {
        bar(&mut svg, timeline, thread, TOP + n as f64 * STEP, scale);
    }
    memory(&mut svg, timeline, bars + 24.0, scale);
    axis(&mut svg, seconds, bars + MEMORY + 28.0, scale);
    svg.push_str("</svg>\n");
    svg
}

/// The title and what the colours mean.
fn head(svg: &mut String, timeline: &Timeline) {
    // Writing to a string cannot fail.
    let _ = writeln!(
        svg,
        "<text x=\"10\" y=\"20\" font-size=\"15\">{}</text>",
        escaped(&timeline.subject.join(" "))
    );
    let mut x = 10.0;
    for Part { name, colour, .. } in &PARTS {
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"34\" width=\"12\" height=\"12\" fill=\"{colour}\"/>\
             <text x=\"{}\" y=\"45\">{name}</text>",
            x + 17.0
        );
        x += 32.0 + name.len() as f64 * 6.6;
    }
    if timeline.left_out > 0 {
        let _ = writeln!(
            svg,
            "<text x=\"{x}\" y=\"45\">{} threads not shown</text>",
            timeline.left_out
        );
    }
}

/// A thread's bar: each column is the whole of its time there.
fn bar(svg: &mut String, timeline: &Timeline, thread: &ThreadBar, y: f64, scale: f64) {
    let label = format!("{} {}", thread.tid, thread.name);
    let _ = writeln!(
        svg,
        "<g><title>{0}</title><text x=\"10\" y=\"{1}\">{0}</text>",
        escaped(&label),
        y + 13.0
    );
    for (column, shares) in timeline.columns.iter().zip(&thread.columns) {
        let Some(shares) = shares else { continue };
        let x = LEFT + (column.end_seconds - column.seconds) * scale;
        let mut base = y + BAR;
        for Part { colour, of, .. } in &PARTS {
            let height = of(shares) * BAR;
            if height < 0.05 {
                continue;
            }
            base -= height;
            let _ = writeln!(
                svg,
                "<rect x=\"{x:.2}\" y=\"{base:.2}\" width=\"{:.2}\" height=\"{height:.2}\" \
                 fill=\"{colour}\"/>",
                column.seconds * scale
            );
        }
    }
    svg.push_str("</g>\n");
}

/// A kind of memory, read of a column.
pub(crate) type Bytes = fn(&TimeColumn) -> Option<u64>;

/// Memory beneath the bars.
fn memory(svg: &mut String, timeline: &Timeline, y: f64, scale: f64) {
    let peak = timeline.columns.iter().map(|column| column.resident_bytes).max().unwrap_or(0);
    if peak == 0 {
        return;
    }
    let curves: [(&str, Bytes); 2] = [("#5b8fc9", resident), ("#1f4e86", live)];
    for (colour, bytes) in curves {
        let height = |bytes: u64| bytes as f64 / peak as f64 * MEMORY;
        let mut points = String::new();
        let mut ends = None;
        for column in &timeline.columns {
            let Some(bytes) = bytes(column) else { continue };
            let end = LEFT + column.end_seconds * scale;
            ends = Some((ends.map_or(LEFT, |(first, _): (f64, f64)| first), end));
            let _ = write!(points, "{end:.2},{:.2} ", y + MEMORY - height(bytes).min(MEMORY));
        }
        if let Some((first, last)) = ends {
            let base = y + MEMORY;
            let _ = writeln!(
                svg,
                "<polygon points=\"{first},{base} {points}{last:.2},{base}\" fill=\"{colour}\"/>"
            );
        }
    }
    let _ = writeln!(
        svg,
        "<text x=\"10\" y=\"{}\">resident, up to {} MiB</text>",
        y + 13.0,
        mib(peak as f64)
    );
    if let Some(live) = timeline.columns.iter().filter_map(live).max() {
        let _ = writeln!(
            svg,
            "<text x=\"10\" y=\"{}\">in use (dark), up to {} MiB</text>",
            y + 29.0,
            mib(live as f64)
        );
    }
}

/// Memory that is there; a process that has ended has none to be drawn.
pub(crate) fn resident(column: &TimeColumn) -> Option<u64> {
    Some(column.resident_bytes).filter(|&bytes| bytes > 0)
}

/// Memory that the program has in use of it, where that is known.
pub(crate) fn live(column: &TimeColumn) -> Option<u64> {
    column.live_bytes.filter(|_| column.resident_bytes > 0)
}

fn axis(svg: &mut String, seconds: f64, y: f64, scale: f64) {
    const MARKS: u32 = 10;
    for mark in 0..=MARKS {
        let at = seconds * f64::from(mark) / f64::from(MARKS);
        let x = LEFT + at * scale;
        let _ = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{at:.1} s</text>",
            y + 18.0
        );
    }
}

fn escaped(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let text: String = text.chars().map(plain).collect();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_came_later_is_shown_by_the_time_that_it_was_there() {
        let column =
            |end_seconds| TimeColumn { end_seconds, seconds: 1.0, ..TimeColumn::default() };
        let running = Shares { usr: 1.0, ..Shares::default() };
        let asleep = Shares { slp: 1.0, ..Shares::default() };
        let thread = ThreadBar {
            tid: 7,
            name: "late".to_owned(),
            columns: vec![None, Some(running), Some(asleep)],
            ..ThreadBar::default()
        };
        let text = timeline_text(&Timeline {
            columns: vec![column(1.0), column(2.0), column(3.0)],
            threads: vec![thread],
            ..Timeline::default()
        });
        let row = text.lines().find(|line| line.contains("7 late")).expect("a row");
        assert_eq!(row.matches("50 %").count(), 2, "{text}");
    }

    #[test]
    fn a_bar_has_a_part_for_each_share_and_none_where_the_thread_was_not_there() {
        let waiting = Shares { usr: 0.5, lck: Some(0.5), ..Shares::default() };
        let column = |end_seconds| TimeColumn {
            end_seconds,
            seconds: 1.0,
            resident_bytes: 1 << 20,
            live_bytes: Some(1 << 19),
        };
        let thread = ThreadBar {
            tid: 7,
            name: "a<b".to_owned(),
            columns: vec![None, Some(waiting)],
            ..ThreadBar::default()
        };
        let svg = timeline_svg(&Timeline {
            subject: vec!["prog".to_owned()],
            columns: vec![column(1.0), column(2.0)],
            threads: vec![thread],
            ..Timeline::default()
        });
        let lines: Vec<_> = svg.lines().filter(|line| line.contains("height=\"9.00\"")).collect();
        assert_eq!(lines.len(), 2, "{svg}");
        assert!(lines[0].contains("x=\"670.00\" y=\"73.00\" width=\"500.00\""), "{}", lines[0]);
        assert!(lines[0].contains("#3a9d4a") && lines[1].contains("#f08c1e"), "{lines:?}");
        assert!(svg.contains("in use (dark), up to 0.5 MiB"), "{svg}");
        assert!(svg.contains("7 a&lt;b") && svg.contains("up to 1.0 MiB"), "{svg}");
    }
}
