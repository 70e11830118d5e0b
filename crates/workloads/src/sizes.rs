//! Distributions of block sizes: known ones, and those read from a file. It must not know what the
//! sizes are drawn for.

use std::path::Path;
use std::{fs, io};

use crate::error::Error;
use crate::mapping::Mapping;
use crate::rng::Rng;

/// The largest weight of an entry: sums of as many as fit into memory stay exact.
const MOST_WEIGHT: f64 = 1e15;

/// Sizes from `least` to `most`, all equally likely, and how likely they are together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Entry {
    pub(crate) least: u32,
    pub(crate) most: u32,
    pub(crate) weight: f64,
}

impl Entry {
    pub(crate) fn one(size: u32, weight: f64) -> Self {
        Self { least: size, most: size, weight }
    }

    fn mean(&self) -> f64 {
        f64::midpoint(f64::from(self.least), f64::from(self.most))
    }
}

/// An entry as it is drawn from: up to this draw, and not up to that of the entry before.
struct Bound {
    draw: u32,
    entry: Entry,
}

/// A distribution of sizes.
pub(crate) struct Sizes {
    bounds: Mapping<Bound>,
}

impl Sizes {
    /// A distribution with these entries, of which the weights need not have any particular sum.
    pub(crate) fn new(entries: &[Entry]) -> io::Result<Self> {
        let sum: f64 = entries.iter().map(|entry| entry.weight).sum();
        let mut below = 0.0;
        let bounds = Mapping::filled(entries.len(), |number| {
            let entry = entries[number];
            below += entry.weight;
            // The last one is reached by every draw, whatever was rounded.
            let is_last = number + 1 == entries.len();
            let draw = if is_last { u32::MAX } else { (below / sum * f64::from(u32::MAX)) as u32 };
            Bound { draw, entry }
        })?;
        Ok(Self { bounds })
    }

    /// All sizes from `least` to `most`, equally likely.
    pub(crate) fn uniform(least: u32, most: u32) -> io::Result<Self> {
        Self::new(&[Entry { least, most, weight: 1.0 }])
    }

    /// Reads lines of a size, or a range of sizes as in `33-64`, and a weight. What follows a `#`
    /// is a comment.
    pub(crate) fn read(path: &Path, most: usize) -> Result<Self, Error> {
        let unsuitable =
            |reason: String| Error::Unsuitable(format!("{}: {reason}", path.display()));
        let text = fs::read_to_string(path).map_err(|error| unsuitable(error.to_string()))?;
        let entries = parse(&text, most).map_err(unsuitable)?;
        Self::new(&entries).map_err(Error::Map)
    }

    /// A size.
    #[inline]
    pub(crate) fn draw(&self, rng: &mut Rng) -> usize {
        let draw = (rng.next() >> 32) as u32;
        let place = self.bounds.partition_point(|bound| bound.draw < draw);
        let Entry { least, most, .. } = self.bounds[place].entry;
        (least + rng.below(most - least + 1)) as usize
    }

    /// The mean size.
    pub(crate) fn mean(&self) -> f64 {
        let sum: f64 = self.bounds.iter().map(|bound| bound.entry.weight).sum();
        let bytes = self.bounds.iter().map(|Bound { entry, .. }| entry.mean() * entry.weight);
        bytes.sum::<f64>() / sum
    }
}

/// Octaves from `least` to `most`, which are powers of two: every octave has half the weight of
/// the one below, and so about as many bytes. The weights sum up to `weight`.
pub(crate) fn octaves(least: u32, most: u32, weight: f64) -> Vec<Entry> {
    let count = most.ilog2() - least.ilog2();
    let sum = 2.0 - 2.0_f64.powi(1 - count as i32);
    (0..count)
        .map(|octave| Entry {
            least: (least << octave) + 1,
            most: least << (octave + 1),
            weight: weight / sum / 2.0_f64.powi(octave as i32),
        })
        .collect()
}

/// A size from `least` to `most` that is uniform on a logarithmic scale.
pub(crate) fn log_uniform(rng: &mut Rng, least: usize, most: usize) -> usize {
    let draw = f64::from(rng.below(u32::MAX)) / f64::from(u32::MAX);
    // One more than the most, as the result is rounded down.
    let (low, high) = ((least as f64).ln(), ((most + 1) as f64).ln());
    ((low + draw * (high - low)).exp() as usize).clamp(least, most)
}

fn parse(text: &str, most: usize) -> Result<Vec<Entry>, String> {
    let mut entries = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let entry = parse_line(line).filter(|entry| entry.most as usize <= most);
        entries.push(entry.ok_or_else(|| {
            let number = number + 1;
            format!("line {number}, {line:?}, is no size from 1 to {most}, or range, and weight")
        })?);
    }
    if entries.iter().all(|entry| entry.weight == 0.0) {
        return Err("no sizes with a weight".to_owned());
    }
    Ok(entries)
}

fn parse_line(line: &str) -> Option<Entry> {
    let (sizes, weight) = line.split_once(char::is_whitespace)?;
    let (least, most) = sizes.split_once('-').unwrap_or((sizes, sizes));
    let (least, most) = (least.parse().ok()?, most.parse().ok()?);
    let weight = weight.trim().parse().ok()?;
    let is_sound = 0 < least && least <= most && (0.0..=MOST_WEIGHT).contains(&weight);
    is_sound.then_some(Entry { least, most, weight })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_drawn_as_often_as_their_weights_say() {
        let entries = [Entry::one(32, 3.0), Entry { least: 100, most: 199, weight: 1.0 }];
        let sizes = Sizes::new(&entries).expect("maps");
        let mut rng = Rng::for_thread(1, 0);
        let drawn: Vec<_> = (0..40_000).map(|_| sizes.draw(&mut rng)).collect();
        let small = drawn.iter().filter(|size| **size == 32).count();
        assert!((29_500..30_500).contains(&small), "{small}");
        assert!(drawn.iter().all(|size| *size == 32 || (100..200).contains(size)));
        let mean = drawn.iter().sum::<usize>() as f64 / 40_000.0;
        assert!((sizes.mean() - 61.375).abs() < 1e-9);
        assert!((mean - sizes.mean()).abs() < 1.0, "{mean}");
    }

    #[test]
    fn octaves_halve_in_number_and_keep_their_bytes() {
        let entries = octaves(8, 64, 7.0);
        let expected = [(9, 16, 4.0), (17, 32, 2.0), (33, 64, 1.0)];
        let expected = expected.map(|(least, most, weight)| Entry { least, most, weight });
        assert_eq!(entries, expected);
    }

    #[test]
    fn every_octave_is_as_likely_on_a_logarithmic_scale() {
        let mut rng = Rng::for_thread(1, 0);
        let sizes: Vec<_> = (0..24_000).map(|_| log_uniform(&mut rng, 16, 65_536)).collect();
        assert!(sizes.iter().all(|size| (16..=65_536).contains(size)));
        for octave in 4..16 {
            let count = sizes.iter().filter(|size| size.ilog2() == octave).count();
            assert!((1800..2200).contains(&count), "{count} from {} up", 1 << octave);
        }
        // The mean of 16 to 65,536: their difference by the logarithm of their quotient.
        let mean = sizes.iter().sum::<usize>() as f64 / 24_000.0;
        assert!((7500.0..8300.0).contains(&mean), "{mean}");
    }

    #[test]
    fn a_file_may_have_sizes_ranges_comments_and_blank_lines() {
        let text = "# a server\n32 10\n\n33-64\t2.5 # and more\n";
        let expected = vec![Entry::one(32, 10.0), Entry { least: 33, most: 64, weight: 2.5 }];
        assert_eq!(parse(text, 100), Ok(expected));
    }

    #[test]
    fn a_line_that_makes_no_sense_is_named() {
        for line in ["32", "0 1", "9-8 1", "8 -1", "8 many", "200 1", "x 1"] {
            let error = parse(&format!("8 1\n{line}\n"), 100).expect_err(line);
            assert!(error.starts_with(&format!("line 2, {line:?}, is no size")), "{error}");
        }
        assert!(parse("# nothing\n", 100).is_err());
        assert!(parse("8 0\n", 100).is_err());
    }
}
