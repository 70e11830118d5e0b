//! Where threads' time goes, as a table like that of `prstat -mL`. It must not know how it was
//! observed.

use std::cmp::Ordering;
use std::fmt::Write as _;

use freehold_model::{Gap, Source, TopReport, TopRow};

use crate::table::{Align, Cell, Table, Tone};

/// A column to sort by; the greatest value comes first, but names and numbers rise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopColumn {
    /// USR and SYS together.
    Cpu,
    /// One of the shares.
    Share(&'static str),
    /// One of the counts.
    Count(&'static str),
    /// Process and thread.
    Pid,
    /// The name.
    Name,
}

impl TopColumn {
    /// What a column can be called.
    pub const NAMES: [&'static str; 16] = [
        "cpu", "usr", "sys", "tfl", "dfl", "lck", "slp", "lat", "vcx", "icx", "mnf", "mjf", "scl",
        "sig", "pid", "name",
    ];

    /// The column of this name.
    pub fn named(name: &str) -> Option<Self> {
        let known = Self::NAMES.into_iter().find(|known| *known == name)?;
        Some(match known {
            "cpu" => Self::Cpu,
            "pid" => Self::Pid,
            "name" => Self::Name,
            "usr" | "sys" | "tfl" | "dfl" | "lck" | "slp" | "lat" => Self::Share(known),
            _ => Self::Count(known),
        })
    }

    /// The order of two rows.
    fn order(self, a: &TopRow, b: &TopRow) -> Ordering {
        let first = match self {
            Self::Cpu => cpu(b).total_cmp(&cpu(a)),
            Self::Share(name) => share(b, name).total_cmp(&share(a, name)),
            Self::Count(name) => count(b, name).cmp(&count(a, name)),
            Self::Pid => Ordering::Equal,
            Self::Name => a.name.cmp(&b.name),
        };
        first.then((a.pid, a.tid).cmp(&(b.pid, b.tid)))
    }
}

fn cpu(row: &TopRow) -> f64 {
    row.shares.usr + row.shares.sys
}

/// A share by the name of its column; what is unknown comes last.
fn share(row: &TopRow, name: &str) -> f64 {
    let shares = &row.shares;
    let known = match name {
        "usr" => Some(shares.usr),
        "sys" => Some(shares.sys),
        "trp" => shares.trp,
        "tfl" => shares.tfl,
        "dfl" => shares.dfl,
        "lck" => shares.lck,
        "slp" => Some(shares.slp),
        _ => Some(shares.lat),
    };
    known.unwrap_or(-1.0)
}

/// A count by the name of its column.
fn count(row: &TopRow, name: &str) -> Option<u64> {
    match name {
        "vcx" => Some(row.voluntary_switches),
        "icx" => Some(row.involuntary_switches),
        "mnf" => Some(row.minor_faults),
        "mjf" => Some(row.major_faults),
        "scl" => row.system_calls,
        _ => row.signals,
    }
}

const SHARES: [&str; 8] = ["usr", "sys", "trp", "tfl", "dfl", "lck", "slp", "lat"];
const COUNTS: [&str; 6] = ["vcx", "icx", "scl", "sig", "mnf", "mjf"];

/// Sorts rows by a column.
pub fn sort_top(rows: &mut [TopRow], by: TopColumn) {
    rows.sort_by(|a, b| by.order(a, b));
}

/// An interval as a table, of `most` rows if there are more, and a line that sums it up.
pub fn top(report: &TopReport, most: usize) -> String {
    let right = |name: &str| (name.to_uppercase(), Align::Right);
    let columns = ["pid", "tid"].iter().chain(&SHARES).chain(&COUNTS).map(|name| right(name));
    let left = ["IN", "NAME"].map(|name| (name.to_owned(), Align::Left));
    let mut table = Table::new(columns.chain(left));
    for row in report.rows.iter().take(most) {
        table.push(cells(row));
    }
    let mut text = table.text();
    let cost = &report.cost;
    let threads: u32 = report.rows.iter().map(|row| row.threads).sum();
    let ended: u32 = report.rows.iter().map(|row| row.ended).sum();
    // Writing to a string cannot fail.
    let _ = write!(text, "  {threads} threads, {ended} of them ended");
    if report.rows.len() > most {
        let _ = write!(text, ", {} rows not shown", report.rows.len() - most);
    }
    if report.unseen_cpu_seconds >= UNSEEN_SECONDS {
        let ms = report.unseen_cpu_seconds * 1000.0;
        let _ = write!(text, "; {ms:.0} ms of CPU by threads too short-lived to be seen");
    }
    let own = cost.observer_cpus * 100.0;
    let _ = writeln!(
        text,
        "; over {:.1} s, {:.0} looks a second; observing took {own:.2} % of a processor",
        report.seconds, cost.looks_per_second
    );
    text
}

/// Below this it is what counters lag behind.
const UNSEEN_SECONDS: f64 = 0.01;

fn cells(row: &TopRow) -> Vec<Cell> {
    let tid = row.tid.map_or_else(|| format!("/{}", row.threads), |tid| tid.to_string());
    let mut cells = vec![Cell::plain(row.pid.to_string()), Cell::plain(tid)];
    cells.extend(SHARES.iter().map(|name| shown_share(share(row, name))));
    cells.extend(COUNTS.iter().map(|name| shown_count(count(row, name))));
    cells.push(Cell::plain(row.waits_in.as_deref().unwrap_or("-")));
    let name = row.name.chars().map(|c| if c.is_control() { '?' } else { c }).collect::<String>();
    cells.push(Cell::plain(if row.tid.is_some() && row.ended > 0 {
        name + " (ended)"
    } else {
        name
    }));
    cells
}

/// A share in percent: a decimal where it is small. Zero stands back, most of the time stands out.
fn shown_share(share: f64) -> Cell {
    let percent = share * 100.0;
    let text = match percent {
        _ if percent < 0.0 => "-".to_owned(),
        // Most are nothing, and numbers with decimals are dear to write.
        _ if percent < 0.05 => "0.0".to_owned(),
        _ if percent < 9.95 => format!("{percent:.1}"),
        _ => format!("{percent:.0}"),
    };
    let tone = match percent {
        _ if percent < 0.05 => Tone::Faint,
        _ if percent >= 50.0 => Tone::Strong,
        _ => Tone::Plain,
    };
    Cell::toned(text, tone)
}

/// A count, in thousands or millions where it is large.
fn shown_count(count: Option<u64>) -> Cell {
    Cell::plain(match count {
        None => "-".to_owned(),
        Some(count) if count < 10_000 => count.to_string(),
        Some(count) if count < 10_000_000 => format!("{}K", count / 1000),
        Some(count) => format!("{}M", count / 1_000_000),
    })
}

/// Where the numbers come from and what could not be had, a line each.
pub fn provenance(sources: &[Source], missing: &[Gap]) -> Vec<String> {
    let sources = sources
        .iter()
        .map(|source| format!("{}: from {} ({})", source.of, source.from, source.precision));
    let missing = missing.iter().map(|gap| match &gap.remedy {
        Some(remedy) => format!("missing: {}; to have it: {remedy}", gap.what),
        None => format!("missing: {}", gap.what),
    });
    sources.chain(missing).collect()
}

#[cfg(test)]
mod tests {
    use freehold_model::{Cost, Shares};

    use super::*;

    fn row(tid: u32, usr: f64, voluntary_switches: u64) -> TopRow {
        TopRow {
            pid: 7,
            tid: Some(tid),
            name: format!("t{tid}"),
            threads: 1,
            seconds: 1.0,
            shares: Shares { usr, slp: 1.0 - usr, lck: Some(0.0), ..Shares::default() },
            voluntary_switches,
            minor_faults: 12_345,
            ..TopRow::default()
        }
    }

    fn report(rows: Vec<TopRow>) -> TopReport {
        TopReport {
            end_seconds: 1.0,
            seconds: 1.0,
            rows,
            unseen_cpu_seconds: 0.0,
            sources: Vec::new(),
            missing: Vec::new(),
            cost: Cost { observer_cpus: 0.004, looks_per_second: 99.0 },
        }
    }

    #[test]
    fn every_name_is_a_column() {
        for name in TopColumn::NAMES {
            assert!(TopColumn::named(name).is_some(), "{name}");
        }
        assert_eq!(TopColumn::named("usage"), None);
    }

    #[test]
    fn the_greatest_comes_first_and_equals_are_in_the_order_of_their_numbers() {
        let mut rows = vec![row(3, 0.1, 5), row(2, 0.9, 5), row(1, 0.1, 50)];
        sort_top(&mut rows, TopColumn::Cpu);
        assert_eq!(rows.iter().map(|row| row.tid).collect::<Vec<_>>(), [Some(2), Some(1), Some(3)]);
        sort_top(&mut rows, TopColumn::Count("vcx"));
        assert_eq!(rows[0].tid, Some(1));
        sort_top(&mut rows, TopColumn::Pid);
        assert_eq!(rows[0].tid, Some(1));
    }

    #[test]
    fn a_row_shows_shares_in_percent_and_what_is_unknown_as_a_dash() {
        let text = top(&report(vec![row(1, 0.125, 5)]), 10);
        let line = text.lines().nth(1).expect("a row");
        let plain = line.replace("\x1b[2m", "").replace("\x1b[1m", "").replace("\x1b[0m", "");
        let cells: Vec<_> = plain.split_whitespace().collect();
        let shares = ["12", "0.0", "-", "-", "-", "0.0", "88", "0.0"];
        assert_eq!(cells[..2], ["7", "1"]);
        assert_eq!(cells[2..10], shares);
        assert_eq!(cells[10..], ["5", "0", "-", "-", "12K", "0", "-", "t1"]);
    }

    #[test]
    fn rows_that_are_not_shown_are_counted() {
        let text = top(&report(vec![row(1, 0.5, 0), row(2, 0.5, 0)]), 1);
        assert!(text.ends_with(
            "  2 threads, 0 of them ended, 1 rows not shown; over 1.0 s, 99 looks a second; \
             observing took 0.40 % of a processor\n"
        ));
    }

    #[test]
    fn what_is_missing_says_what_would_allow_it() {
        let lines = provenance(
            &[Source::new("VCX", "status", "exact")],
            &[Gap::allowed_by("LAT", "root"), Gap::nowhere("TRP")],
        );
        assert_eq!(
            lines,
            ["VCX: from status (exact)", "missing: LAT; to have it: root", "missing: TRP"]
        );
    }
}
