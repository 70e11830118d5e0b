//! From descriptions of harnesses to the cases of a grid.

use std::fmt::Display;

use freehold_model::{GridCase, ParamValue};
use freehold_workloads::harness::Harness;
use freehold_workloads::settings::Settings;

use super::super::workload::params;
use crate::exit::{Exit, Failure};

/// A value for a parameter, of one harness or of all that have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Assignment {
    harness: Option<String>,
    name: String,
    value: String,
}

impl Assignment {
    /// A value for every harness that has such a parameter.
    pub(super) fn general(name: &str, value: impl Display) -> Self {
        Self { harness: None, name: name.to_owned(), value: format!("{value}") }
    }

    /// Reads `NAME=VALUE` or `HARNESS:NAME=VALUE`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wanted = || "must be NAME=VALUE or HARNESS:NAME=VALUE".to_owned();
        let (place, value) = text.split_once('=').ok_or_else(wanted)?;
        let (harness, name) = match place.split_once(':') {
            Some((harness, name)) => (Some(harness.to_owned()), name),
            None => (None, place),
        };
        if name.is_empty() {
            return Err(wanted());
        }
        Ok(Self { harness, name: name.to_owned(), value: value.to_owned() })
    }

    fn concerns(&self, harness: &Harness) -> bool {
        let is_named = self.harness.as_deref().is_none_or(|name| name == harness.name);
        is_named && harness.parameter(&self.name).is_some()
    }
}

/// What is varied, and what is not.
#[derive(Debug)]
pub(super) struct Axes {
    /// Numbers of threads.
    pub(super) threads: Vec<u64>,
    /// Sizes, for harnesses that have such a parameter; empty for its default.
    pub(super) sizes: Vec<u64>,
    /// What is usual for other parameters of those harnesses that have them.
    pub(super) usual: Vec<Assignment>,
    /// What was asked for, which some harness must have.
    pub(super) asked: Vec<Assignment>,
}

impl Axes {
    /// All cases, threads varying slowest within a harness, and what is left out of them.
    pub(super) fn cases(
        &self,
        harnesses: &[&'static Harness],
    ) -> Result<(Vec<GridCase>, Vec<String>), Failure> {
        self.check(harnesses)?;
        let (mut cases, mut left_out) = (Vec::new(), Vec::new());
        for harness in harnesses {
            let settings = self.settings(harness)?;
            for &threads in &self.threads {
                if threads < harness.threads.least {
                    let least = harness.threads.least;
                    let name = harness.name;
                    left_out.push(format!("{name} threads={threads}: it takes {least} or more"));
                    continue;
                }
                for size in self.sizes_of(harness) {
                    cases.push(case(harness, settings.clone(), threads, size)?);
                }
            }
        }
        Ok((cases, left_out))
    }

    fn sizes_of(&self, harness: &Harness) -> Vec<Option<&u64>> {
        if harness.size.is_none() || self.sizes.is_empty() {
            return vec![None];
        }
        self.sizes.iter().map(Some).collect()
    }

    fn settings(&self, harness: &Harness) -> Result<Settings, Failure> {
        let mut settings = Settings::new(harness);
        for Assignment { name, value, .. } in
            self.usual.iter().chain(&self.asked).filter(|own| own.concerns(harness))
        {
            set(harness, &mut settings, name, value)?;
        }
        Ok(settings)
    }

    /// Makes sure that what was asked for concerns something, and that nothing else decides it.
    fn check(&self, harnesses: &[&'static Harness]) -> Result<(), Failure> {
        for own in &self.asked {
            let is_size = |harness: &&&Harness| {
                !self.sizes.is_empty() && own.concerns(harness) && harness.size == Some(&own.name)
            };
            let option = match harnesses.iter().any(|harness| is_size(&harness)) {
                _ if own.name == "threads" => "--threads",
                true => "--sizes",
                false => continue,
            };
            let message = format!("--set {}: that is what {option} sets", own.name);
            return Err(Failure::new(Exit::Usage, message));
        }
        let is_idle = |own: &&Assignment| !harnesses.iter().any(|harness| own.concerns(harness));
        let Some(idle) = self.asked.iter().find(is_idle) else { return Ok(()) };
        let whose = match &idle.harness {
            Some(harness) => format!("{harness} has no parameter"),
            None => "none of the harnesses has a parameter".to_owned(),
        };
        let message = format!("{whose} \"{}\"", idle.name);
        let help = "freehold workload HARNESS --help lists the parameters of a harness";
        Err(Failure::new(Exit::Usage, message).hint(help))
    }
}

fn case(
    harness: &Harness,
    mut settings: Settings,
    threads: u64,
    size: Option<&u64>,
) -> Result<GridCase, Failure> {
    set(harness, &mut settings, "threads", &threads.to_string())?;
    if let (Some(name), Some(size)) = (harness.size, size) {
        set(harness, &mut settings, name, &size.to_string())?;
    }
    let params = params(&settings);
    let size = harness.size.and_then(|name| params.get(name)).and_then(|value| match value {
        ParamValue::Count(size) => Some(*size),
        _ => None,
    });
    Ok(GridCase { harness: harness.name.to_owned(), threads, size, params })
}

fn set(harness: &Harness, settings: &mut Settings, name: &str, value: &str) -> Result<(), Failure> {
    let set = settings.set(harness, name, value);
    set.map_err(|error| Failure::new(Exit::Usage, format!("{}: {error}", harness.name)))
}

#[cfg(test)]
mod tests {
    use freehold_workloads::harnesses;

    use super::*;

    fn larson() -> [&'static Harness; 1] {
        [harnesses::find("larson").expect("there")]
    }

    fn axes(assignments: &[&str]) -> Axes {
        let asked = assignments.iter().map(|text| Assignment::parse(text).expect("reads"));
        Axes {
            threads: vec![0, 1, 4],
            sizes: vec![100, 1000],
            usual: vec![Assignment::general("rounds", 5)],
            asked: asked.collect(),
        }
    }

    #[test]
    fn threads_and_sizes_are_crossed_and_everything_else_is_set() {
        let (cases, left_out) = axes(&["seconds=0.5", "larson:seconds=0.25"])
            .cases(&larson())
            .unwrap_or_else(|failure| panic!("{failure:?}"));
        let name = |case: &GridCase| {
            let size = case.size.expect("it has one");
            format!("{} threads={} size={size}", case.harness, case.threads)
        };
        let names: Vec<_> = cases.iter().map(name).collect();
        let expected = [(1, 100), (1, 1000), (4, 100), (4, 1000)]
            .map(|(threads, size)| format!("larson threads={threads} size={size}"));
        assert_eq!(names, expected);
        assert_eq!(left_out, ["larson threads=0: it takes 1 or more"]);
        assert_eq!(cases[0].params["rounds"], ParamValue::Count(5));
        assert_eq!(cases[3].params["threads"], ParamValue::Count(4));
        assert_eq!(cases[3].params["max"], ParamValue::Count(1000));
        assert_eq!(cases[3].params["seconds"], ParamValue::Number(0.25));
    }

    #[test]
    fn what_concerns_no_harness_or_fits_none_is_refused() {
        let refused = |text| axes(&[text]).cases(&larson()).map(|_| ()).expect_err("refused");
        let nobodys = "none of the harnesses has a parameter \"colour\"";
        assert_eq!(refused("colour=red").message, nobodys);
        assert!(refused("threads=3").message.contains("--threads"));
        assert!(refused("larson:max=3").message.contains("--sizes"));
        assert!(refused("threadtest:objects=1").message.contains("threadtest has no"));
        assert!(refused("seconds=soon").message.contains("must be a number"));
        assert!(Assignment::parse("seconds").is_err());
        assert!(Assignment::parse("=1").is_err());
    }

    #[test]
    fn without_sizes_the_default_of_the_harness_is_used() {
        let axes = Axes { sizes: Vec::new(), ..axes(&[]) };
        let (cases, _) = axes.cases(&larson()).unwrap_or_else(|failure| panic!("{failure:?}"));
        assert_eq!(cases.len(), 2);
        assert!(cases.iter().all(|case| case.size.is_some()));
    }
}
