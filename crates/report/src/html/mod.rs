//! Results as one page for a browser: everything within it, no script, nothing fetched. It must not
//! know how anything was measured.

mod chart;
mod curves;
mod documents;
mod escape;
mod intervals;

use std::fmt::Write as _;

use freehold_model::Stored;

pub(crate) use self::escape::escaped;
use crate::page::Section;

/// How the page looks: on a screen, by night, on a phone and on paper.
const STYLE: &str = include_str!("style.css");

/// Says to the browser that the page needs nothing from anywhere, so that it asks for nothing.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

/// The results of one document.
struct Article {
    heading: String,
    parts: Vec<Part>,
}

/// A part of an article.
enum Part {
    /// Words and a table.
    Section(Section),
    /// Drawings that belong together.
    Figures { heading: String, drawings: Vec<String> },
    /// What a reader has to know before trusting a number.
    Warnings(Vec<String>),
}

impl Part {
    fn heading(&self) -> &str {
        match self {
            Self::Section(section) => &section.heading,
            Self::Figures { heading, .. } => heading,
            Self::Warnings(_) => "Before you trust a number",
        }
    }

    fn html(&self, id: &str) -> String {
        let inner = match self {
            Self::Section(section) => section_html(section),
            Self::Figures { drawings, .. } => {
                format!("<div class=\"figures\">\n{}</div>\n", drawings.concat())
            }
            Self::Warnings(warnings) => {
                let items = warnings.iter().map(|text| format!("<li>{}</li>\n", escaped(text)));
                format!("<ul class=\"warnings\">\n{}</ul>\n", items.collect::<String>())
            }
        };
        let heading = escaped(self.heading());
        format!(
            "<section aria-labelledby=\"{id}\">\n<h3 id=\"{id}\">{heading}</h3>\n\
             {inner}</section>\n"
        )
    }
}

fn section_html(section: &Section) -> String {
    let mut html = String::new();
    for line in section.paragraph.lines() {
        // Writing to a string cannot fail.
        let _ = writeln!(html, "<p>{}</p>", escaped(line));
    }
    html.push_str(&section.table.as_ref().map_or_else(String::new, |table| {
        let name = escaped(&section.heading);
        // A wide table scrolls by itself, and a keyboard must get there to scroll it.
        format!(
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{name}\">\n\
             {}</div>\n",
            table.html(&section.heading)
        )
    }));
    html
}

/// The page of some documents.
pub fn html(stored: &[Stored]) -> String {
    let articles: Vec<Article> = stored.iter().map(documents::article).collect();
    let mut contents = String::new();
    let mut main = String::new();
    for (number, article) in articles.iter().enumerate() {
        let heading = escaped(&article.heading);
        // Writing to a string cannot fail.
        let _ = writeln!(main, "<article>\n<h2 id=\"a{number}\">{heading}</h2>");
        let _ = writeln!(contents, "<li><a href=\"#a{number}\">{heading}</a>\n<ul>");
        for (at, part) in article.parts.iter().enumerate() {
            let id = format!("a{number}-{at}");
            let _ =
                writeln!(contents, "<li><a href=\"#{id}\">{}</a></li>", escaped(part.heading()));
            main.push_str(&part.html(&id));
        }
        contents.push_str("</ul></li>\n");
        main.push_str("</article>\n");
    }
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <link rel=\"icon\" href=\"data:,\">\n\
         <title>Allocators compared</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#main\">Skip the contents</a>\n\
         <header><h1>Allocators compared</h1></header>\n\
         <nav aria-label=\"Contents\">\n<details open><summary>Contents</summary>\n\
         <ul>\n{contents}</ul>\n</details>\n</nav>\n\
         <main id=\"main\">\n{main}</main>\n</body>\n</html>\n"
    )
}

#[cfg(test)]
mod tests {
    use freehold_model::{BenchDocument, from_json};

    use super::*;

    fn stored() -> BenchDocument {
        let text = include_str!("../../../model/tests/fixtures/bench-1.json");
        from_json(text).expect("a stored benchmark")
    }

    #[test]
    fn a_page_stands_alone_and_names_all_its_tables() {
        let page = html(&[Stored::Bench(Box::new(stored()))]);
        for foreign in ["http://", "https://", "<script", "url(", "@import", "src="] {
            assert!(!page.contains(foreign), "{foreign}");
        }
        let tables = page.matches("<table>").count();
        assert!(tables > 1, "{page}");
        assert_eq!(page.matches("<caption>").count(), tables);
        assert_eq!(page.matches("<thead>").count(), tables);
        assert!(page.contains("<svg "));
    }

    #[test]
    fn what_looks_like_markup_is_shown_and_not_obeyed() {
        let mut document = stored();
        document.allocators[0].name = "<script>alert(1)</script>".to_owned();
        document.warnings.push("a & b < c".to_owned());
        let page = html(&[Stored::Bench(Box::new(document))]);
        assert!(!page.contains("<script"), "{page}");
        assert!(page.contains("a &amp; b &lt; c"));
    }

    #[test]
    fn every_link_of_the_contents_leads_somewhere() {
        let page = html(&[Stored::Bench(Box::new(stored())), Stored::Bench(Box::new(stored()))]);
        let targets = page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next());
        for target in targets {
            assert_eq!(page.matches(&format!(" id=\"{target}\"")).count(), 1, "{target}");
        }
    }
}
