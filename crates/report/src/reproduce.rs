//! A reproduction: what the original says and what was found here, panel by panel, and what became
//! of the claims. It must not know which experiment it is.

use std::fmt::Write as _;

use freehold_model::{Better, Chart, Claim, ClaimVerdict, Panel, PanelColumn, Reproduction, Whose};

use crate::numbers::rate;
use crate::origin;
use crate::page::{self, Section};
use crate::table::{Align, Cell, Table, Tone};

/// Columns of numbers that fit beside each other.
const WIDEST: usize = 8;

/// Rows up to which a table is turned, so that allocators are its rows.
const FEWEST_ROWS: usize = 2;

/// Characters of the longest bar, and of a bar of shares.
const BAR: f64 = 40.0;
const SHARES_BAR: f64 = 50.0;

/// Marks of a line over time, and how many there are at most.
const MARKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const MOST_MARKS: usize = 60;

/// How names begin that are written small at the beginning of a sentence as well.
const SMALL_NAMES: [&str; 6] = ["lib", "umem", "mtmalloc", "ptmalloc", "llalloc", "jemalloc"];

/// What stands where there is no number.
const NOTHING: &str = "-";

/// The reproduction as text for a terminal.
pub fn reproduction_text(document: &Reproduction) -> String {
    page::text(sections(document))
}

/// The reproduction as Markdown.
pub fn reproduction_markdown(document: &Reproduction) -> String {
    page::markdown(sections(document))
}

pub(crate) fn sections(document: &Reproduction) -> Vec<Section> {
    let mut sections = vec![head(document)];
    sections.extend(document.panels.iter().flat_map(panel));
    let (published, ours): (Vec<_>, Vec<_>) =
        document.claims.iter().partition(|claim| claim.is_published);
    sections.extend(claims("What was claimed", &published));
    sections.extend(claims("What we ask besides", &ours));
    sections.push(origin::section(&document.provenance, &document.allocators));
    sections
}

fn head(document: &Reproduction) -> Section {
    let mut paragraph = format!("{}\nThere: {}.", document.source, document.method);
    for sentence in &document.scaled {
        // Writing to a string cannot fail.
        let _ = write!(paragraph, "\nHere: {sentence}.");
    }
    if !document.complete {
        paragraph.push_str("\nNot every run was made.");
    }
    Section { heading: document.title.clone(), paragraph, table: None }
}

fn claims(heading: &str, claims: &[&Claim]) -> Option<Section> {
    let lines: Vec<_> = claims.iter().map(|claim| sentence(claim)).collect();
    (!lines.is_empty()).then(|| Section {
        heading: heading.to_owned(),
        paragraph: lines.join("\n"),
        table: None,
    })
}

fn sentence(claim: &Claim) -> String {
    let verdict = match claim.verdict {
        ClaimVerdict::Holds => "holds",
        ClaimVerdict::DoesNotHold => "does not hold",
        ClaimVerdict::Undecided => "undecided",
        ClaimVerdict::CannotBeTested => "cannot be tested here",
    };
    let there = claim.there.as_ref().map_or_else(String::new, |it| format!(" There: {it}."));
    let here = match claim.verdict {
        ClaimVerdict::CannotBeTested => format!(" {}.", capital(&claim.here)),
        _ => format!(" Here: {}.", claim.here),
    };
    format!("[{verdict}] {}.{there}{here}", capital(&claim.text))
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(char::to_uppercase).into_iter().flatten();
    // A name that is written small stays so.
    if SMALL_NAMES.iter().any(|name| text.starts_with(name)) {
        return text.to_owned();
    }
    first.chain(letters).collect()
}

fn panel(panel: &Panel) -> Vec<Section> {
    if panel.columns.is_empty() {
        return Vec::new();
    }
    let better = match panel.better {
        Some(Better::Higher) => " Higher is better.",
        Some(Better::Lower) => " Lower is better.",
        None => "",
    };
    let section = |heading: &str, table: Table| Section {
        heading: heading.to_owned(),
        paragraph: format!("In {}.{better}", panel.unit),
        table: Some(table),
    };
    match panel.chart {
        Chart::Table if panel.rows.len() <= FEWEST_ROWS => {
            vec![section(&panel.title, turned(panel))]
        }
        Chart::Table if panel.columns.len() > WIDEST => {
            let of = |whose: Whose, heading: &str| {
                let columns: Vec<_> =
                    panel.columns.iter().filter(|column| column.whose == whose).collect();
                let heading = format!("{}, {heading}", panel.title);
                let title = |column: &PanelColumn| column.name.clone();
                (!columns.is_empty()).then(|| section(&heading, numbers(panel, &columns, title)))
            };
            let parts = [of(Whose::Original, "the original"), of(Whose::Here, "here")];
            parts.into_iter().flatten().collect()
        }
        Chart::Table => {
            vec![section(
                &panel.title,
                numbers(panel, &panel.columns.iter().collect::<Vec<_>>(), name),
            )]
        }
        Chart::Bars => vec![section(&panel.title, bars(panel))],
        Chart::Lines => vec![section(&panel.title, lines(panel))],
        Chart::Shares => {
            vec![Section { paragraph: legend(panel), ..section(&panel.title, shares(panel)) }]
        }
    }
}

/// What heads a column.
fn name(column: &PanelColumn) -> String {
    match column.whose {
        Whose::Original => format!("{} (original)", column.name),
        Whose::Here => column.name.clone(),
    }
}

/// The best of the numbers of a row, of those that are whose.
fn best(panel: &Panel, columns: &[&PanelColumn], row: usize, whose: Whose) -> Option<f64> {
    let own = columns.iter().filter(|column| column.whose == whose);
    let numbers = own.filter_map(|column| column.values[row]);
    match panel.better? {
        Better::Higher => numbers.max_by(f64::total_cmp),
        Better::Lower => numbers.min_by(f64::total_cmp),
    }
}

fn number(value: Option<f64>, best: Option<f64>) -> Cell {
    match value {
        None => Cell::toned(NOTHING, Tone::Faint),
        Some(value) if Some(value) == best => Cell::toned(significant(value), Tone::Strong),
        Some(value) => Cell::plain(significant(value)),
    }
}

/// Three digits at least that mean something.
fn significant(value: f64) -> String {
    match value {
        _ if value >= 0.995 || value == 0.0 => rate(value),
        _ if value >= 0.0995 => format!("{value:.3}"),
        _ => format!("{value:.4}"),
    }
}

/// The rows in which there is a number, and the columns headed by what `title` says.
fn numbers(
    panel: &Panel,
    columns: &[&PanelColumn],
    title: impl Fn(&PanelColumn) -> String,
) -> Table {
    let heads = panel.heads.iter().map(|head| (head.clone(), Align::Right));
    let titles = columns.iter().map(|column| (title(column), Align::Right));
    let mut table = Table::new(heads.chain(titles));
    for (n, row) in panel.rows.iter().enumerate() {
        if columns.iter().all(|column| column.values[n].is_none()) {
            continue;
        }
        let bests = [Whose::Original, Whose::Here].map(|whose| best(panel, columns, n, whose));
        let cells = columns.iter().map(|column| {
            let best = bests[usize::from(column.whose == Whose::Here)];
            number(column.values[n], best)
        });
        table.push(row.iter().map(Cell::plain).chain(cells).collect());
    }
    table
}

/// A table with few rows, turned around.
fn turned(panel: &Panel) -> Table {
    let columns: Vec<_> = panel.columns.iter().collect();
    let of_row = |row: &Vec<String>| {
        let parts = panel.heads.iter().zip(row).map(|(head, part)| match part.as_str() {
            "1" => format!("1 {}", head.strip_suffix('s').unwrap_or(head)),
            _ => format!("{part} {head}"),
        });
        (parts.collect::<Vec<_>>().join(", "), Align::Right)
    };
    let head = ("allocator".to_owned(), Align::Left);
    let mut table = Table::new([head].into_iter().chain(panel.rows.iter().map(of_row)));
    for column in &columns {
        let cells = column
            .values
            .iter()
            .enumerate()
            .map(|(n, value)| number(*value, best(panel, &columns, n, column.whose)));
        table.push([Cell::plain(name(column))].into_iter().chain(cells).collect());
    }
    table
}

/// A bar for each number, as long as it is large.
fn bars(panel: &Panel) -> Table {
    let heads = panel.heads.iter().map(|head| (head.clone(), Align::Right));
    let rest = [("allocator", Align::Left), (panel.unit.as_str(), Align::Right), ("", Align::Left)];
    let rest = rest.map(|(name, align)| (name.to_owned(), align));
    let mut table = Table::new(heads.chain(rest));
    let all = panel.columns.iter().flat_map(|column| &column.values).flatten().copied();
    let most = all.fold(0.0, f64::max);
    for (n, row) in panel.rows.iter().enumerate() {
        let here = panel.columns.iter().filter_map(|column| Some((column, column.values[n]?)));
        for (m, (column, value)) in here.enumerate() {
            let part = |part: &String| Cell::plain(if m == 0 { part.as_str() } else { "" });
            let length = if most > 0.0 { value / most * BAR } else { 0.0 };
            let cells = [name(column), significant(value), "█".repeat(length.round() as usize)];
            table.push(row.iter().map(part).chain(cells.map(Cell::plain)).collect());
        }
    }
    table
}

/// A line of marks for each column, and its first and last numbers.
fn lines(panel: &Panel) -> Table {
    let names = [("allocator", Align::Left), ("first", Align::Right), ("last", Align::Right)];
    let over = format!("over {} {}s", panel.rows.len(), panel.heads.join(", "));
    let columns = names.map(|(name, align)| (name.to_owned(), align));
    let mut table = Table::new(columns.into_iter().chain([(over, Align::Left)]));
    for column in &panel.columns {
        let values: Vec<f64> = column.values.iter().flatten().copied().collect();
        let (Some(first), Some(last)) = (values.first(), values.last()) else { continue };
        table.push(vec![
            Cell::plain(name(column)),
            Cell::plain(significant(*first)),
            Cell::plain(significant(*last)),
            Cell::plain(marks(&values)),
        ]);
    }
    table
}

/// Marks as high as numbers are, relative to the highest of them; neighbours are averaged where
/// there are too many.
fn marks(values: &[f64]) -> String {
    let each = values.len().div_ceil(MOST_MARKS).max(1);
    let means: Vec<f64> =
        values.chunks(each).map(|part| part.iter().sum::<f64>() / part.len() as f64).collect();
    let most = means.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let mark = |value: &f64| {
        let height = (value / most * MARKS.len() as f64).ceil().max(1.0) as usize;
        MARKS[height.min(MARKS.len()) - 1]
    };
    means.iter().map(mark).collect()
}

/// The letter that a share is drawn with.
fn letter(column: &PanelColumn) -> char {
    column.name.chars().next().unwrap_or('?')
}

fn legend(panel: &Panel) -> String {
    let letters = panel.columns.iter().map(|column| format!("{} {}", letter(column), column.name));
    format!("Shares of each thread's time: {}.", letters.collect::<Vec<_>>().join(", "))
}

/// A bar for each row, divided as its shares are.
fn shares(panel: &Panel) -> Table {
    let heads = panel.heads.iter().map(|head| (head.clone(), Align::Left));
    let columns = panel.columns.iter().map(|column| (format!("{} %", column.name), Align::Right));
    let bar = [(String::new(), Align::Left)];
    let mut table = Table::new(heads.chain(bar).chain(columns));
    for (n, row) in panel.rows.iter().enumerate() {
        let mut bar = String::new();
        let mut sum = 0.0;
        for column in &panel.columns {
            sum += column.values[n].unwrap_or(0.0);
            let end = (sum * SHARES_BAR).round() as usize;
            let length = end.saturating_sub(bar.chars().count());
            bar.extend(std::iter::repeat_n(letter(column), length));
        }
        let percent = |column: &PanelColumn| {
            Cell::plain(
                column.values[n]
                    .map_or_else(|| NOTHING.to_owned(), |share| format!("{:.0}", share * 100.0)),
            )
        };
        let cells = row.iter().map(Cell::plain).chain([Cell::plain(bar)]);
        table.push(cells.chain(panel.columns.iter().map(percent)).collect());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, whose: Whose, values: &[Option<f64>]) -> PanelColumn {
        PanelColumn { name: name.to_owned(), whose, values: values.to_vec() }
    }

    fn panel_of(chart: Chart, columns: Vec<PanelColumn>) -> Panel {
        Panel {
            title: "Speed".to_owned(),
            unit: "loops/s".to_owned(),
            better: Some(Better::Higher),
            chart,
            heads: vec!["pairs".to_owned()],
            rows: ["1", "4", "8"].map(|pairs| vec![pairs.to_owned()]).to_vec(),
            columns,
        }
    }

    #[test]
    fn the_originals_numbers_stand_beside_ours_and_the_best_of_each_is_marked() {
        let columns = vec![
            column("old", Whose::Original, &[Some(137.0), None, Some(93.0)]),
            column("x", Whose::Here, &[Some(5.0), Some(2.5), Some(1.25)]),
            column("y", Whose::Here, &[Some(4.0), Some(3.0), None]),
        ];
        let sections = panel(&panel_of(Chart::Table, columns));
        assert_eq!(
            page::markdown(sections),
            "### Speed\n\nIn loops/s. Higher is better.\n\n\
             | pairs | old (original) | x | y |\n| ---: | ---: | ---: | ---: |\n\
             | 1 | **137** | **5.00** | 4.00 |\n| 4 | - | 2.50 | **3.00** |\n\
             | 8 | **93.0** | **1.25** | - |\n\n"
        );
    }

    #[test]
    fn a_table_that_would_be_too_wide_is_two() {
        let of = |whose| move |n: usize| column(&format!("c{n}"), whose, &[Some(1.0); 3]);
        let columns: Vec<_> =
            (0..5).map(of(Whose::Original)).chain((5..10).map(of(Whose::Here))).collect();
        let sections = panel(&panel_of(Chart::Table, columns));
        let headings: Vec<_> = sections.iter().map(|it| it.heading.as_str()).collect();
        assert_eq!(headings, ["Speed, the original", "Speed, here"]);
    }

    #[test]
    fn a_table_of_few_rows_is_turned_and_counts_in_words() {
        let columns = vec![column("x", Whose::Here, &[Some(1.0), Some(2.0)])];
        let rows = ["1", "4"].map(|pairs| vec![pairs.to_owned()]).to_vec();
        let few = Panel { rows, ..panel_of(Chart::Table, columns) };
        assert!(page::markdown(panel(&few)).contains("| allocator | 1 pair | 4 pairs |"));
    }

    #[test]
    fn bars_are_as_long_as_numbers_are_large_and_lines_as_high() {
        let columns = vec![column("x", Whose::Here, &[Some(10.0), Some(20.0), None])];
        let text = bars(&panel_of(Chart::Bars, columns)).text();
        let lengths: Vec<_> = text.lines().map(|line| line.matches('█').count()).collect();
        assert_eq!(lengths, [0, 20, 40]);
        assert_eq!(marks(&[1.0, 4.0, 8.0]), "▁▄█");
        assert_eq!(marks(&[5.0; 1000]).chars().count(), 59);
    }

    #[test]
    fn a_bar_of_shares_is_divided_as_they_are() {
        let columns = vec![
            column("user", Whose::Here, &[Some(0.5); 3]),
            column("lock", Whose::Here, &[Some(0.3); 3]),
            column("asleep", Whose::Here, &[Some(0.2); 3]),
        ];
        let text = shares(&panel_of(Chart::Shares, columns)).text();
        let bar = format!("{}{}{}", "u".repeat(25), "l".repeat(15), "a".repeat(10));
        assert!(text.contains(&bar), "{text}");
    }

    #[test]
    fn a_claim_says_what_became_of_it_there_and_here() {
        let mut claim = Claim {
            text: "it falls".to_owned(),
            is_published: true,
            there: Some("137 to 93".to_owned()),
            here: "5 to 1".to_owned(),
            verdict: ClaimVerdict::Holds,
        };
        assert_eq!(sentence(&claim), "[holds] It falls. There: 137 to 93. Here: 5 to 1.");
        claim.verdict = ClaimVerdict::CannotBeTested;
        claim.there = None;
        claim.here = "it is not here".to_owned();
        assert_eq!(sentence(&claim), "[cannot be tested here] It falls. It is not here.");
    }
}
