//! Results as one page for a browser: everything within it, no script, nothing fetched. It must not
//! know how anything was measured.

mod chart;
mod curves;
mod documents;
mod escape;
mod intervals;
mod lanes;

use std::fmt::Write as _;

use freehold_model::{Stored, Timeline};

pub(crate) use self::escape::escaped;
use crate::page::Section;

/// How the page looks: on a screen, by night, on a phone and on paper.
const STYLE: &str = include_str!("style.css");

/// Says to the browser that the page needs nothing from anywhere, so that it asks for nothing.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

/// Something that a page can be made of.
#[derive(Debug, Clone, PartialEq)]
pub enum Shown {
    /// Results of measurements.
    Results(Stored),
    /// Where threads' time went.
    Timeline(Box<Timeline>),
}

/// The results of one document.
struct Article {
    heading: String,
    parts: Vec<Part>,
}

/// A part of an article.
enum Part {
    /// Words and a table.
    Section(Section),
    /// Threads over time.
    Lanes {
        /// What they show.
        heading: String,
        /// The drawing.
        html: String,
    },
    /// Drawings that belong together.
    Figures { heading: String, drawings: Vec<String> },
    /// What a reader has to know before trusting a number.
    Warnings(Vec<String>),
}

impl Part {
    fn heading(&self) -> &str {
        match self {
            Self::Section(section) => &section.heading,
            Self::Figures { heading, .. } | Self::Lanes { heading, .. } => heading,
            Self::Warnings(_) => "Before you trust a number",
        }
    }

    fn html(&self, id: &str) -> String {
        let inner = match self {
            Self::Section(section) => section_html(section),
            Self::Lanes { html, .. } => html.clone(),
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
pub fn html(shown: &[Shown]) -> String {
    let articles: Vec<Article> = shown
        .iter()
        .enumerate()
        .map(|(number, shown)| match shown {
            Shown::Results(document) => documents::article(document),
            Shown::Timeline(timeline) => documents::of_timeline(timeline, number),
        })
        .collect();
    let is_timeline = |shown: &Shown| matches!(shown, Shown::Timeline(_));
    let title =
        if shown.iter().all(is_timeline) { "Threads over time" } else { "Allocators compared" };
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
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#main\">Skip the contents</a>\n\
         <header><h1>{title}</h1></header>\n\
         <nav aria-label=\"Contents\">\n<details open><summary>Contents</summary>\n\
         <ul>\n{contents}</ul>\n</details>\n</nav>\n\
         <main id=\"main\">\n{main}</main>\n</body>\n</html>\n"
    )
}

#[cfg(test)]
mod tests {
    use freehold_model::{BenchDocument, Shares, ThreadBar, TimeColumn, from_json};

    use super::*;

    fn stored() -> BenchDocument {
        let text = include_str!("../../../model/tests/fixtures/bench-1.json");
        from_json(text).expect("a stored benchmark")
    }

    fn bench(document: BenchDocument) -> Shown {
        Shown::Results(Stored::Bench(Box::new(document)))
    }

    #[test]
    fn threads_over_time_can_be_made_wider_without_a_script() {
        let running = Shares { usr: 0.5, lck: Some(0.5), ..Shares::default() };
        let column = |end_seconds| TimeColumn {
            end_seconds,
            seconds: 1.0,
            resident_bytes: 1 << 20,
            live_bytes: Some(1 << 19),
        };
        let thread = |tid| ThreadBar {
            tid,
            name: "a<b".to_owned(),
            columns: vec![None, Some(running)],
            ..ThreadBar::default()
        };
        let timeline = Timeline {
            subject: vec!["prog".to_owned()],
            columns: vec![column(1.0), column(2.0)],
            threads: vec![thread(7), thread(8)],
            ..Timeline::default()
        };
        let page = html(&[Shown::Timeline(Box::new(timeline)), bench(stored())]);
        assert!(!page.contains("<script"), "{page}");
        assert!(page.contains("7 a&lt;b: user 50 %, waiting for a lock 50 %"), "{page}");
        // The second half of the time: user beneath, waiting above it.
        assert!(page.contains("class=\"usr\" d=\"M500.0 20.0v-10.0h500.00v10.0z\""), "{page}");
        assert!(page.contains("class=\"lck\" d=\"M500.0 10.0v-10.0h500.00v10.0z\""), "{page}");
        assert!(page.contains("resident, up to 1.0 MiB"), "{page}");
        // One of the widths is chosen, and each has its label.
        assert_eq!(page.matches(" checked>").count(), 1);
        let inputs = page.matches("type=\"radio\"").count();
        assert_eq!(page.matches("<label for=\"z0-").count(), inputs);
    }

    #[test]
    fn a_page_stands_alone_and_names_all_its_tables() {
        let page = html(&[bench(stored())]);
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
        let page = html(&[bench(document)]);
        assert!(!page.contains("<script"), "{page}");
        assert!(page.contains("a &amp; b &lt; c"));
    }

    #[test]
    fn every_link_of_the_contents_leads_somewhere() {
        let page = html(&[bench(stored()), bench(stored())]);
        let targets = page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next());
        for target in targets {
            assert_eq!(page.matches(&format!(" id=\"{target}\"")).count(), 1, "{target}");
        }
    }
}
