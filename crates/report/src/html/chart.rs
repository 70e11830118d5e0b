//! Curves as SVG. It must not know what they show.

use std::fmt::Write as _;

use super::escape::escaped;
use crate::numbers::grouped;

/// The drawing, in units that are pixels on a phone.
const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 230.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 40.0;

/// Values that are further apart than this are drawn on a logarithmic scale.
const FAR_APART: f64 = 30.0;

/// Colours that there are. More curves than this are told apart by their dashes.
const COLOURS: usize = 8;

/// Dashes, so that curves can be told apart without colours.
const DASHES: [&str; 4] = ["", "7 3", "2 3", "9 3 2 3"];

/// One curve.
#[derive(Debug, Clone)]
pub(super) struct Curve {
    pub(super) name: String,
    /// Which colour and dashes it has, the same in all charts of a page.
    pub(super) look: usize,
    /// Its points from left to right.
    pub(super) points: Vec<(f64, f64)>,
}

/// What is written along the axis from left to right.
#[derive(Debug, Clone)]
pub(super) enum Across {
    /// Names of the places 0, 1, 2 and so on.
    Places(Vec<String>),
    /// Numbers.
    Numbers,
}

/// Curves in one drawing.
#[derive(Debug, Clone)]
pub(super) struct Chart {
    pub(super) title: String,
    pub(super) across: Across,
    pub(super) across_label: String,
    pub(super) up_label: String,
    pub(super) curves: Vec<Curve>,
}

/// From values to places in the drawing.
struct Scale {
    low: f64,
    high: f64,
    is_logarithmic: bool,
    from: f64,
    to: f64,
}

impl Scale {
    fn at(&self, value: f64) -> f64 {
        let share = if self.is_logarithmic {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + (self.to - self.from) * share
    }

    /// The scale of values from below to above.
    fn up(values: &[f64]) -> Self {
        let most = values.iter().copied().fold(0.0, f64::max);
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let is_logarithmic = least > 0.0 && most / least > FAR_APART;
        let (low, high) = if is_logarithmic {
            (10_f64.powf(least.log10().floor()), 10_f64.powf(most.log10().ceil()))
        } else {
            (0.0, if most > 0.0 { most * 1.05 } else { 1.0 })
        };
        Self { low, high, is_logarithmic, from: HEIGHT - BOTTOM, to: TOP }
    }

    fn right(values: &[f64]) -> Self {
        let high = values.iter().copied().fold(0.0, f64::max);
        let high = if high > 0.0 { high } else { 1.0 };
        Self { low: 0.0, high, is_logarithmic: false, from: LEFT, to: WIDTH - RIGHT }
    }

    /// Round values to be written along it.
    fn ticks(&self) -> Vec<f64> {
        if self.is_logarithmic {
            let decades = (self.high / self.low).log10().round() as i32;
            return (0..=decades).map(|decade| self.low * 10_f64.powi(decade)).collect();
        }
        let step = round_step((self.high - self.low) / 5.0);
        (0..=10).map(|number| f64::from(number) * step).filter(|tick| *tick <= self.high).collect()
    }
}

/// The step of 1, 2 or 5 times a power of ten that is nearest above.
fn round_step(least: f64) -> f64 {
    let decade = 10_f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * decade);
    steps.into_iter().find(|step| *step >= least).unwrap_or(10.0 * decade)
}

/// A number along an axis, short.
pub(super) fn tick(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        _ if value >= 1e9 => format!("{}G", trimmed(value / 1e9)),
        _ if value >= 1e6 => format!("{}M", trimmed(value / 1e6)),
        _ if value >= 1e4 => format!("{}k", trimmed(value / 1e3)),
        _ if value >= 1e3 => grouped(value.round() as u64),
        _ => trimmed(value),
    }
}

fn trimmed(value: f64) -> String {
    let digits = if value >= 1.0 { 2 } else { 2 - value.log10().floor() as i32 } as usize;
    let text = format!("{value:.digits$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl Chart {
    /// The drawing with its caption and its key.
    pub(super) fn html(&self) -> String {
        let title = escaped(&self.title);
        let key: String = self.curves.iter().map(key_entry).collect();
        format!(
            "<figure>\n<figcaption>{title}</figcaption>\n{}<ul class=\"key\">\n{key}</ul>\n\
             </figure>\n",
            self.svg()
        )
    }

    fn svg(&self) -> String {
        let all = || self.curves.iter().flat_map(|curve| &curve.points);
        let up = Scale::up(&all().map(|(_, y)| *y).collect::<Vec<_>>());
        let right = match &self.across {
            // Half a place is left free at either end.
            Across::Places(names) => {
                let high = names.len() as f64 - 0.5;
                Scale { low: -0.5, ..Scale::right(&[high]) }
            }
            Across::Numbers => Scale::right(&all().map(|(x, _)| *x).collect::<Vec<_>>()),
        };
        let words = if up.is_logarithmic { ", logarithmic" } else { "" };
        let (title, label) = (escaped(&self.title), escaped(&self.up_label));
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}: {label}\">\n"
        );
        draw_up(&mut svg, &up);
        self.draw_across(&mut svg, &right);
        for curve in &self.curves {
            svg.push_str(&curve.path(&right, &up));
        }
        // Writing to a string cannot fail.
        let _ = writeln!(svg, "<text x=\"2\" y=\"{}\">{label}{words}</text>\n</svg>", HEIGHT - 6.0);
        svg
    }

    fn draw_across(&self, svg: &mut String, right: &Scale) {
        let foot = HEIGHT - BOTTOM;
        let (ends, places) = (WIDTH - RIGHT, foot + 14.0);
        let mut write = |x: f64, text: &str| {
            let text = escaped(text);
            // Writing to a string cannot fail.
            let _ = writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{places}\" text-anchor=\"middle\">{text}</text>"
            );
        };
        match &self.across {
            Across::Places(names) => {
                for (place, name) in names.iter().enumerate() {
                    write(right.at(place as f64), name);
                }
            }
            Across::Numbers => right.ticks().into_iter().for_each(|x| write(right.at(x), &tick(x))),
        }
        let label = escaped(&self.across_label);
        let _ = writeln!(
            svg,
            "<path class=\"axis\" d=\"M{LEFT} {TOP}V{foot}H{ends}\"/>\
             <text x=\"{ends}\" y=\"{}\" text-anchor=\"end\">{label}</text>",
            HEIGHT - 6.0
        );
    }
}

fn draw_up(svg: &mut String, up: &Scale) {
    let end = WIDTH - RIGHT;
    for value in up.ticks() {
        let y = up.at(value);
        // Writing to a string cannot fail.
        let _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{end}\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 5.0,
            y + 4.0,
            tick(value)
        );
    }
}

impl Curve {
    fn path(&self, right: &Scale, up: &Scale) -> String {
        let places = self.points.iter().map(|(x, y)| (right.at(*x), up.at(*y)));
        let places: Vec<_> = places.map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
        let style = style(self.look);
        let name = escaped(&self.name);
        // A single point makes no line: it is drawn as a short one.
        let more = if places.len() == 1 { "h0.1\" stroke-linecap=\"round" } else { "" };
        format!("<path {style} d=\"M{}{more}\"><title>{name}</title></path>\n", places.join("L"))
    }
}

/// The class and the dashes of a curve.
fn style(look: usize) -> String {
    let dashes = DASHES[(look + look / COLOURS) % DASHES.len()];
    format!("class=\"curve k{}\" stroke-dasharray=\"{dashes}\"", look % COLOURS)
}

fn key_entry(curve: &Curve) -> String {
    format!(
        "<li><svg viewBox=\"0 0 32 8\" aria-hidden=\"true\"><path {} d=\"M0 4H32\"/></svg>\
         {}</li>\n",
        style(curve.look),
        escaped(&curve.name)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(values: &[f64]) -> String {
        let points = (0..).zip(values).map(|(x, y)| (f64::from(x), *y)).collect();
        let names = values.iter().map(ToString::to_string).collect();
        Chart {
            title: "t".to_owned(),
            across: Across::Places(names),
            across_label: "threads".to_owned(),
            up_label: "seconds".to_owned(),
            curves: vec![Curve { name: "a".to_owned(), look: 0, points }],
        }
        .svg()
    }

    #[test]
    fn values_far_apart_are_drawn_logarithmically_and_it_is_said() {
        assert!(chart(&[1.0, 1000.0]).contains("seconds, logarithmic"));
        assert!(!chart(&[1.0, 10.0]).contains("logarithmic"));
    }

    #[test]
    fn every_point_lies_within_the_drawing() {
        for values in [&[1.0, 2.0, 5.0][..], &[1e-6, 1.0], &[0.0, 0.0], &[7.0], &[0.0, 1e12]] {
            let svg = chart(values);
            let path = svg.split("class=\"curve").nth(1).expect("a curve");
            let path = path.split(" d=\"M").nth(1).expect("a path");
            let path = path.split(['"', 'h']).next().unwrap_or_default();
            for point in path.split('L') {
                let (x, y) = point.split_once(' ').expect("two numbers");
                let (x, y): (f64, f64) = (x.parse().expect("x"), y.parse().expect("y"));
                assert!((LEFT..=WIDTH - RIGHT).contains(&x), "{values:?}: {point}");
                assert!((TOP..=HEIGHT - BOTTOM).contains(&y), "{values:?}: {point}");
            }
        }
    }

    #[test]
    fn numbers_along_an_axis_are_short() {
        let values = [0.0, 0.002, 0.25, 3.0, 1500.0, 20_000.0, 2.5e6, 1e9];
        assert_eq!(values.map(tick), ["0", "0.002", "0.25", "3", "1,500", "20k", "2.5M", "1G"]);
        assert!((round_step(0.3) - 0.5).abs() < 1e-12);
        assert!((round_step(70.0) - 100.0).abs() < 1e-9);
    }
}
