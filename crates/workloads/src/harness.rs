//! What a harness says of itself: its parameters, its metric, and how it scales. Command lines,
//! benchmarks and documents are made from these descriptions, so that a harness is described once.

use std::fmt;

use crate::error::Error;
use crate::outcome::Outcome;
use crate::settings::{Settings, Value};

/// The most threads that a harness takes.
pub const MOST_THREADS: u64 = 256;

/// Which of two values of a metric is the better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// The higher one: a rate.
    Higher,
    /// The lower one: a time, or an amount of memory.
    Lower,
}

/// The number that a harness is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Its name, as in "elapsed time".
    pub name: &'static str,
    /// Its unit, as in "seconds".
    pub unit: &'static str,
    /// Which of two values is the better one.
    pub better: Better,
}

/// What the values of a parameter are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// A whole number within these bounds, which are both allowed.
    Count {
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// A number within these bounds, which are both allowed.
    Number {
        /// The least.
        least: f64,
        /// The most.
        most: f64,
    },
    /// Given or not; not given by default.
    Flag,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// The path of a file; none by default.
    Path,
}

/// A parameter of a harness.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parameter {
    /// Its name, in lower case with hyphens, as after `--` on a command line.
    pub name: &'static str,
    /// What it counts; empty for what has no unit.
    pub unit: &'static str,
    /// What its values are.
    pub kind: Kind,
    /// The value when none is given, in the form that [`Parameter::parse`] reads.
    pub default: &'static str,
    /// What it means, as a phrase.
    pub help: &'static str,
}

/// The number of threads of a harness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threads {
    /// When none is given.
    pub default: &'static str,
    /// The least that the harness makes sense with.
    pub least: u64,
    /// What the threads are, as a phrase.
    pub help: &'static str,
}

/// A harness.
#[derive(Debug)]
pub struct Harness {
    /// The name that selects it.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// What it measures.
    pub metric: Metric,
    /// Its threads.
    pub threads: Threads,
    /// The parameter that a list of sizes is meant for; `None` where sizes are part of what the
    /// harness is.
    pub size: Option<&'static str>,
    /// Parameters of its own; [`Harness::parameters`] has those of all harnesses besides.
    pub own: &'static [Parameter],
    pub(crate) run: fn(&Settings) -> Result<Outcome, Error>,
}

/// The most bytes in a block of a harness.
const MOST_BYTES: u64 = 1 << 30;

/// Parameters of every harness.
const COMMON: [Parameter; 4] = [
    Parameter::count("seed", "", (0, u64::MAX), "1", "Seed of all random numbers"),
    Parameter {
        name: "settle",
        unit: "seconds",
        kind: Kind::Number { least: 0.0, most: 86_400.0 },
        default: "0",
        help: "After everything is freed, stay idle for this long before memory is read again",
    },
    Parameter::flag(
        "verify",
        "Fill every block, and check what is in it before it is freed; times mean nothing",
    ),
    Parameter::flag(
        "false-sharing",
        "Count blocks that share a cache line with another thread's; times mean nothing",
    ),
];

/// How long a run took, which is what most harnesses are about.
pub(crate) const ELAPSED: Metric =
    Metric { name: "elapsed time", unit: "seconds", better: Better::Lower };

/// How much was done in a second.
pub(crate) const THROUGHPUT: Metric =
    Metric { name: "throughput", unit: "operations/s", better: Better::Higher };

impl Harness {
    /// All parameters: the threads, its own, and those of every harness.
    pub fn parameters(&self) -> impl Iterator<Item = Parameter> {
        let threads = Parameter {
            name: "threads",
            unit: "threads",
            kind: Kind::Count { least: self.threads.least, most: MOST_THREADS },
            default: self.threads.default,
            help: self.threads.help,
        };
        [threads].into_iter().chain(self.own.iter().copied()).chain(COMMON)
    }

    /// The parameter of this name.
    pub fn parameter(&self, name: &str) -> Option<Parameter> {
        self.parameters().find(|parameter| parameter.name == name)
    }

    /// Runs the harness in this process. `settings` must be made for this harness.
    pub fn run(&self, settings: &Settings) -> Result<Outcome, Error> {
        (self.run)(settings)
    }
}

/// Why a text is no value of a parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct Unfit(Kind);

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Kind::Count { least, most: u64::MAX } => {
                write!(f, "must be a whole number, at least {least}")
            }
            Kind::Count { least, most } => {
                write!(f, "must be a whole number from {least} to {most}")
            }
            Kind::Number { least, most } => write!(f, "must be a number from {least} to {most}"),
            Kind::Flag => f.write_str("must be true or false"),
            Kind::Choice(words) => write!(f, "must be one of: {}", words.join(", ")),
            Kind::Path => f.write_str("must be the path of a file"),
        }
    }
}

impl std::error::Error for Unfit {}

impl Parameter {
    /// A whole number from `least` to `most`.
    pub(crate) const fn count(
        name: &'static str,
        unit: &'static str,
        (least, most): (u64, u64),
        default: &'static str,
        help: &'static str,
    ) -> Self {
        Self { name, unit, kind: Kind::Count { least, most }, default, help }
    }

    /// A size of blocks in bytes, from `least`.
    pub(crate) const fn size(
        name: &'static str,
        least: u64,
        default: &'static str,
        help: &'static str,
    ) -> Self {
        Self::count(name, "bytes", (least, MOST_BYTES), default, help)
    }

    /// A time that is not zero.
    pub(crate) const fn seconds(default: &'static str, help: &'static str) -> Self {
        let kind = Kind::Number { least: 0.001, most: 86_400.0 };
        Self { name: "seconds", unit: "seconds", kind, default, help }
    }

    /// Something that is asked for or not.
    pub(crate) const fn flag(name: &'static str, help: &'static str) -> Self {
        Self { name, unit: "", kind: Kind::Flag, default: "false", help }
    }

    /// One of several words.
    pub(crate) const fn choice(
        name: &'static str,
        words: &'static [&'static str],
        default: &'static str,
        help: &'static str,
    ) -> Self {
        Self { name, unit: "", kind: Kind::Choice(words), default, help }
    }

    /// Reads a value.
    pub fn parse(&self, text: &str) -> Result<Value, Unfit> {
        let value = match self.kind {
            Kind::Count { least, most } => {
                let number = text.parse().ok().filter(|number| (least..=most).contains(number));
                number.map(Value::Count)
            }
            Kind::Number { least, most } => {
                let number = text.parse().ok().filter(|number| (least..=most).contains(number));
                number.map(Value::Number)
            }
            Kind::Flag => text.parse().ok().map(Value::Flag),
            Kind::Choice(words) => words.contains(&text).then(|| Value::Text(text.to_owned())),
            Kind::Path => Some(Value::Text(text.to_owned())),
        };
        value.ok_or(Unfit(self.kind))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::harnesses;

    #[test]
    fn every_description_is_consistent() {
        let mut names = HashSet::new();
        for harness in harnesses::all() {
            assert!(names.insert(harness.name), "{} is there twice", harness.name);
            let mut parameters = HashSet::new();
            for parameter in harness.parameters() {
                let name = format!("{} --{}", harness.name, parameter.name);
                assert!(parameters.insert(parameter.name), "{name} is there twice");
                assert!(parameter.parse(parameter.default).is_ok(), "the default of {name}");
                assert!(!parameter.help.ends_with('.'), "the help of {name} is a phrase");
            }
            if let Some(size) = harness.size {
                let unit = harness.parameter(size).map(|parameter| parameter.unit);
                assert_eq!(unit, Some("bytes"), "the size of {}", harness.name);
            }
        }
    }

    /// How a parameter stands in the documentation.
    fn documented(parameter: &Parameter) -> String {
        match parameter.kind {
            Kind::Flag => format!("--{}", parameter.name),
            Kind::Path => format!("--{} FILE", parameter.name),
            _ => format!("--{} {}", parameter.name, parameter.default),
        }
    }

    #[test]
    fn the_documentation_shows_every_harness_with_its_defaults() {
        let page = include_str!("../../../docs/harnesses.md");
        for harness in harnesses::all() {
            let name = format!("| `{}`", harness.name);
            let row = page.lines().find(|line| line.starts_with(&name));
            let row = row.unwrap_or_else(|| panic!("no row of {}", harness.name));
            let own = harness.parameters().take(1 + harness.own.len());
            let cell = row.split('`').find(|part| part.starts_with("--")).unwrap_or_default();
            let mut shown: HashSet<_> = cell.split("--").map(str::trim_end).collect();
            shown.remove("");
            for parameter in own {
                let wanted = documented(&parameter);
                assert!(shown.remove(&wanted[2..]), "{}: {wanted}", harness.name);
            }
            assert!(shown.is_empty(), "{} has no {shown:?}", harness.name);
        }
    }

    #[test]
    fn a_value_out_of_range_is_answered_by_the_range() {
        let threads = harnesses::find("larson").and_then(|larson| larson.parameter("threads"));
        let threads = threads.expect("a harness with threads");
        assert_eq!(threads.parse("256"), Ok(Value::Count(256)));
        for text in ["0", "257", "-1", "many", ""] {
            let error = threads.parse(text).expect_err(text);
            assert_eq!(error.to_string(), "must be a whole number from 1 to 256");
        }
    }
}
