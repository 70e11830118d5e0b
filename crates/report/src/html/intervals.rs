//! Ratios with their confidence intervals, as SVG: a row for each, around the line where nothing
//! differs. It must not know what is compared.

use std::fmt::Write as _;

use freehold_model::Interval;

use super::chart::tick;
use super::escape::escaped;

/// The drawing, in units that are pixels on a phone.
const WIDTH: f64 = 360.0;
const LEFT: f64 = 150.0;
const RIGHT: f64 = 16.0;
const ROW: f64 = 20.0;
const FOOT: f64 = 24.0;

/// The ratios that are written along the foot, where they lie within it.
const TICKS: [f64; 13] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0];

/// One ratio.
pub(super) struct Row {
    pub(super) name: String,
    pub(super) look: usize,
    pub(super) ratio: Interval,
}

/// The drawing with its caption; nothing without rows.
pub(super) fn html(title: &str, rows: &[Row]) -> Option<String> {
    let ends = |ratio: &Interval| [ratio.low, ratio.high];
    let values: Vec<f64> = rows.iter().flat_map(|row| ends(&row.ratio)).collect();
    let known = values.iter().copied().filter(|value| value.is_finite() && *value > 0.0);
    let low = known.clone().reduce(f64::min)?.min(0.5);
    let high = known.reduce(f64::max)?.max(2.0);
    let at = |ratio: f64| LEFT + (WIDTH - LEFT - RIGHT) * (ratio / low).ln() / (high / low).ln();
    let foot = rows.len() as f64 * ROW + 4.0;
    let mut svg = String::new();
    for ratio in TICKS.into_iter().filter(|ratio| (low..=high).contains(ratio)) {
        let class = if (ratio - 1.0).abs() < 1e-9 { "one" } else { "grid" };
        // Writing to a string cannot fail.
        let _ = writeln!(
            svg,
            "<path class=\"{class}\" d=\"M{x:.1} 0V{foot}\"/>\
             <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            foot + 14.0,
            tick(ratio),
            x = at(ratio)
        );
    }
    for (index, Row { name, look, ratio }) in rows.iter().enumerate() {
        let y = (index as f64 + 0.5) * ROW;
        let colour = look % 8;
        let (from, to, middle) = (at(ratio.low), at(ratio.high), at(ratio.estimate));
        let _ = writeln!(
            svg,
            "<text x=\"0\" y=\"{:.1}\">{}</text>\
             <path class=\"curve k{colour}\" d=\"M{from:.1} {y}H{to:.1}M{middle:.1} {}v10\"/>",
            y + 4.0,
            escaped(name),
            y - 5.0
        );
    }
    let (title, height) = (escaped(title), foot + FOOT);
    Some(format!(
        "<figure>\n<figcaption>{title}</figcaption>\n\
         <svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\">\n{svg}</svg>\n\
         </figure>\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_where_nothing_differs_is_always_there() {
        let ratio = Interval { estimate: 4.0, low: 3.0, high: 5.0, level: 0.95 };
        let row = Row { name: "a < b".to_owned(), look: 0, ratio };
        let drawn = html("speed", &[row]).expect("a row");
        assert!(drawn.contains("class=\"one\"") && drawn.contains("a &lt; b"), "{drawn}");
        assert_eq!(html("speed", &[]), None);
    }
}
