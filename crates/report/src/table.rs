//! Tables of cells, as aligned text, as Markdown and as HTML. It must not know what the cells mean.

use std::fmt::Write as _;

use crate::html::escaped as escaped_html;

/// Spaces between two columns.
const GAP: &str = "  ";

/// How a cell is shown on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    /// As it is.
    Plain,
    /// Standing out.
    Strong,
    /// Standing back.
    Faint,
}

impl Tone {
    /// Wraps `text` in the codes of this tone.
    pub(crate) fn paint(self, text: &str) -> String {
        let mut painted = String::new();
        self.paint_to(text, &mut painted);
        painted
    }

    /// The same, behind what is there already.
    fn paint_to(self, text: &str, painted: &mut String) {
        let (begin, end) = match self {
            Self::Plain => ("", ""),
            Self::Strong => ("\x1b[1m", "\x1b[0m"),
            Self::Faint => ("\x1b[2m", "\x1b[0m"),
        };
        painted.extend([begin, text, end]);
    }
}

/// One cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), tone: Tone::Plain }
    }

    pub(crate) fn toned(text: impl Into<String>, tone: Tone) -> Self {
        Self { text: text.into(), tone }
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

/// Which side of its column a cell keeps to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn new(columns: impl IntoIterator<Item = (String, Align)>) -> Self {
        Self { columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    pub(crate) fn push(&mut self, row: Vec<Cell>) {
        debug_assert_eq!(row.len(), self.columns.len());
        self.rows.push(row);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Aligned text with painted cells, each line ended by a newline.
    pub(crate) fn text(&self) -> String {
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|column| {
                let cells = self.rows.iter().map(|row| row[column].width());
                cells.chain([self.columns[column].0.chars().count()]).max().unwrap_or_default()
            })
            .collect();
        let head: Vec<Cell> =
            self.columns.iter().map(|(name, _)| Cell::toned(name, Tone::Strong)).collect();
        let mut text = String::new();
        for row in [&head].into_iter().chain(&self.rows) {
            let start = text.len();
            for ((cell, width), (_, align)) in row.iter().zip(&widths).zip(&self.columns) {
                let padding = std::iter::repeat_n(' ', width - cell.width());
                text.push_str(GAP);
                match align {
                    Align::Left => {
                        cell.tone.paint_to(&cell.text, &mut text);
                        text.extend(padding);
                    }
                    Align::Right => {
                        text.extend(padding);
                        cell.tone.paint_to(&cell.text, &mut text);
                    }
                }
            }
            let line = text[start..].trim_end().len();
            text.truncate(start + line);
            text.push('\n');
        }
        text
    }

    /// A table of GitHub-flavoured Markdown.
    pub(crate) fn markdown(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "|{}", self.joined(|(name, _)| format!(" {} |", escaped(name))));
        let _ = writeln!(
            text,
            "|{}",
            self.joined(|(_, align)| match align {
                Align::Left => " --- |".to_owned(),
                Align::Right => " ---: |".to_owned(),
            })
        );
        for row in &self.rows {
            text.push('|');
            for cell in row {
                let inner = escaped(&cell.text);
                let _ = match cell.tone {
                    Tone::Strong => write!(text, " **{inner}** |"),
                    Tone::Plain | Tone::Faint => write!(text, " {inner} |"),
                };
            }
            text.push('\n');
        }
        text
    }

    /// A table of HTML, in which the first cell of a row says what the row is about.
    pub(crate) fn html(&self, caption: &str) -> String {
        let class = |align: Align| match align {
            Align::Left => "",
            Align::Right => " class=\"right\"",
        };
        let head = self.joined(|(name, align)| {
            format!("<th scope=\"col\"{}>{}</th>", class(*align), escaped_html(name.trim()))
        });
        let mut html = format!(
            "<table>\n<caption>{}</caption>\n<thead><tr>{head}</tr></thead>\n<tbody>\n",
            escaped_html(caption)
        );
        for row in &self.rows {
            html.push_str("<tr>");
            for (at, (cell, (_, align))) in row.iter().zip(&self.columns).enumerate() {
                let inner = escaped_html(cell.text.trim());
                let inner = match cell.tone {
                    Tone::Strong => format!("<strong>{inner}</strong>"),
                    Tone::Faint => format!("<span class=\"faint\">{inner}</span>"),
                    Tone::Plain => inner,
                };
                let class = class(*align);
                // Writing to a string cannot fail.
                let _ = if at == 0 {
                    write!(html, "<th scope=\"row\"{class}>{inner}</th>")
                } else {
                    write!(html, "<td{class}>{inner}</td>")
                };
            }
            html.push_str("</tr>\n");
        }
        html.push_str("</tbody>\n</table>\n");
        html
    }

    fn joined(&self, each: impl Fn(&(String, Align)) -> String) -> String {
        self.columns.iter().map(each).collect()
    }
}

fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('*', "\\*")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table =
            Table::new([("name".to_owned(), Align::Left), ("MiB".to_owned(), Align::Right)]);
        table.push(vec![Cell::plain("a"), Cell::toned("1,024 *", Tone::Strong)]);
        table.push(vec![Cell::plain("longer"), Cell::plain("3")]);
        table
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_paint_takes_no_width() {
        let text = table().text();
        assert_eq!(
            text,
            "  \x1b[1mname\x1b[0m        \x1b[1mMiB\x1b[0m\n  a       \
             \x1b[1m1,024 *\x1b[0m\n  longer        3\n"
        );
    }

    #[test]
    fn markdown_marks_strong_cells_and_escapes_what_it_would_interpret() {
        assert_eq!(
            table().markdown(),
            "| name | MiB |\n| --- | ---: |\n| a | **1,024 \\*** |\n| longer | 3 |\n"
        );
    }
}
