//! A page of sections, as text for a terminal and as Markdown. It must not know what the sections
//! are about.

use std::fmt::Write as _;

use crate::table::{Table, Tone};

/// The width of a page.
const WIDTH: usize = 96;

/// One part of a page: a heading, a paragraph, and a table.
pub(crate) struct Section {
    pub(crate) heading: String,
    pub(crate) paragraph: String,
    pub(crate) table: Option<Table>,
}

/// Sections as text for a terminal.
pub(crate) fn text(sections: Vec<Section>) -> String {
    let mut text = String::new();
    for section in sections {
        let heading = Tone::Strong.paint(&section.heading);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{heading}");
        for line in section.paragraph.lines() {
            let _ = writeln!(text, "{}", wrapped(line));
        }
        if let Some(table) = section.table {
            let gap = if section.paragraph.is_empty() { "" } else { "\n" };
            let _ = write!(text, "{gap}{}", table.text());
        }
        text.push('\n');
    }
    text
}

/// Sections as Markdown.
pub(crate) fn markdown(sections: Vec<Section>) -> String {
    let mut text = String::new();
    for section in sections {
        let paragraph = section.paragraph.replace('*', "\\*").replace('\n', "  \n");
        let _ = writeln!(text, "### {}\n\n{paragraph}\n", section.heading);
        if let Some(table) = section.table {
            let _ = writeln!(text, "{}", table.markdown());
        }
    }
    text
}

/// Breaks a line between words where it would be wider than a page.
fn wrapped(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut width = 0;
    for word in line.split(' ') {
        let needed = word.chars().count();
        if width > 0 && width + 1 + needed > WIDTH {
            text.push('\n');
            width = 0;
        } else if width > 0 {
            text.push(' ');
            width += 1;
        }
        text.push_str(word);
        width += needed;
    }
    text
}
