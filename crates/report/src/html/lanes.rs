//! Where threads' time went as lanes above each other, with memory beneath, which can be made wider
//! without a script: the choice of a width is a matter of style.

use std::fmt::Write as _;

use freehold_model::{ThreadBar, TimeColumn, Timeline};

use super::escape::escaped;
use crate::numbers::mib;
use crate::timeline::{Bytes, PARTS, live, mean, resident};

/// The drawing of a lane, in its own units: it is stretched to the width that is chosen.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 20.0;

/// How many times as wide as the page lanes can be made.
const ZOOMS: [u32; 5] = [1, 2, 4, 8, 16];

/// Marks on the axis of time.
const MARKS: u32 = 10;

/// The lanes of a timeline, which is the `number`-th on its page.
pub(super) fn html(timeline: &Timeline, number: usize) -> String {
    let scale = Scale::of(&timeline.columns);
    let mut html = String::from("<div class=\"lanes\">\n<span>Width:</span>\n");
    for (n, zoom) in ZOOMS.into_iter().enumerate() {
        let (id, checked) = (format!("z{number}-{zoom}"), if n == 0 { " checked" } else { "" });
        // Writing to a string cannot fail.
        let _ = writeln!(
            html,
            "<input type=\"radio\" class=\"z{zoom}\" name=\"z{number}\" id=\"{id}\"{checked}>\
             <label for=\"{id}\">{zoom}×</label>"
        );
    }
    html.push_str(&key());
    html.push_str(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Threads over time\">\n\
         <div class=\"wide\">\n",
    );
    for thread in &timeline.threads {
        lane(&mut html, timeline, thread, scale);
    }
    memory(&mut html, &timeline.columns, scale);
    axis(&mut html, scale);
    html.push_str("</div>\n</div>\n</div>\n");
    html
}

/// From seconds to the units of a lane.
#[derive(Debug, Clone, Copy)]
struct Scale {
    seconds: f64,
}

impl Scale {
    fn of(columns: &[TimeColumn]) -> Self {
        Self { seconds: columns.last().map_or(0.0, |last| last.end_seconds) }
    }

    fn at(self, seconds: f64) -> f64 {
        if self.seconds > 0.0 { seconds / self.seconds * WIDTH } else { 0.0 }
    }
}

/// What the colours mean.
fn key() -> String {
    let items = PARTS.iter().map(|part| {
        let (class, name) = (part.class, part.name);
        format!(
            "<li><svg viewBox=\"0 0 12 12\" class=\"swatch\" aria-hidden=\"true\">\
             <rect width=\"12\" height=\"12\" class=\"{class}\"/></svg>{name}</li>\n"
        )
    });
    format!("<ul class=\"key\">\n{}</ul>\n", items.collect::<String>())
}

fn lane(html: &mut String, timeline: &Timeline, thread: &ThreadBar, scale: Scale) {
    let name = format!("{} {}", thread.tid, thread.name);
    let shares = mean(timeline, thread);
    let said: Vec<String> = PARTS
        .iter()
        .filter(|part| (part.of)(&shares) >= 0.005)
        .map(|part| format!("{} {:.0} %", part.name, (part.of)(&shares) * 100.0))
        .collect();
    let label = escaped(&format!("{name}: {}", said.join(", ")));
    let _ = writeln!(
        html,
        "<div class=\"lane\"><span>{}</span><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{label}\"><title>{label}</title>",
        escaped(&name)
    );
    for (n, part) in PARTS.iter().enumerate() {
        let path = path(timeline, thread, n, scale);
        if !path.is_empty() {
            let _ = writeln!(html, "<path class=\"{}\" d=\"{path}\"/>", part.class);
        }
    }
    html.push_str("</svg></div>\n");
}

/// The rectangles of one part of a lane: above those of the parts before it.
fn path(timeline: &Timeline, thread: &ThreadBar, part: usize, scale: Scale) -> String {
    let mut path = String::new();
    for (column, shares) in timeline.columns.iter().zip(&thread.columns) {
        let Some(shares) = shares else { continue };
        let below: f64 = PARTS[..part].iter().map(|part| (part.of)(shares)).sum();
        let height = (PARTS[part].of)(shares) * HEIGHT;
        if height < 0.05 {
            continue;
        }
        let left = scale.at(column.end_seconds - column.seconds);
        let width = scale.at(column.seconds);
        let bottom = HEIGHT * (1.0 - below);
        let _ = write!(path, "M{left:.1} {bottom:.1}v-{height:.1}h{width:.2}v{height:.1}z");
    }
    path
}

fn memory(html: &mut String, columns: &[TimeColumn], scale: Scale) {
    const HIGH: f64 = 80.0;
    let peak = columns.iter().map(|column| column.resident_bytes).max().unwrap_or(0);
    if peak == 0 {
        return;
    }
    let curve = |bytes: Bytes| {
        let mut path = format!("M0 {HIGH}");
        for column in columns {
            let Some(bytes) = bytes(column) else { continue };
            let height = (bytes as f64 / peak as f64 * HIGH).min(HIGH);
            let end = scale.at(column.end_seconds);
            // Writing to a string cannot fail.
            let _ = write!(path, "V{:.1}H{end:.1}", HIGH - height);
        }
        format!("{path}V{HIGH}z")
    };
    let mut label = format!("resident, up to {} MiB", mib(peak as f64));
    let mut paths = format!("<path d=\"{}\"/>", curve(resident));
    if let Some(most) = columns.iter().filter_map(live).max() {
        let _ = write!(label, "; in use (dark), up to {} MiB", mib(most as f64));
        let _ = write!(paths, "<path class=\"live\" d=\"{}\"/>", curve(live));
    }
    let _ = writeln!(
        html,
        "<div class=\"lane memory\"><span>{label}</span><svg viewBox=\"0 0 {WIDTH} {HIGH}\" \
         preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{label}\">{paths}</svg></div>"
    );
}

fn axis(html: &mut String, scale: Scale) {
    html.push_str("<div class=\"lane axis\"><span></span><div>");
    for mark in 0..=MARKS {
        let part = f64::from(mark) / f64::from(MARKS);
        let _ = write!(html, "<span>{:.1} s</span>", part * scale.seconds);
    }
    html.push_str("</div></div>\n");
}
