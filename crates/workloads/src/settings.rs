//! The values that the parameters of a harness have in one run. It must not know where they were
//! read.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::error::Error;
use crate::harness::{Harness, Unfit};

/// The value of a parameter.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A whole number.
    Count(u64),
    /// A number.
    Number(f64),
    /// Whether something was asked for.
    Flag(bool),
    /// A word or a path.
    Text(String),
}

/// A value for every parameter of a harness.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    values: BTreeMap<&'static str, Value>,
}

/// Why a parameter could not be set.
#[derive(Debug, Clone, PartialEq)]
pub enum SettingError {
    /// The harness has no parameter of this name.
    Unknown {
        /// The name that was given.
        name: String,
        /// The names that there are.
        known: Vec<&'static str>,
    },
    /// The value is not one that the parameter takes.
    Unfit {
        /// The parameter.
        name: &'static str,
        /// The value that was given.
        value: String,
        /// What would fit.
        reason: Unfit,
    },
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name, known } => {
                write!(f, "no parameter \"{name}\"; there are {}", known.join(", "))
            }
            Self::Unfit { name, value, reason } => write!(f, "{name} {value:?}: {reason}"),
        }
    }
}

impl std::error::Error for SettingError {}

impl Settings {
    /// The defaults of a harness.
    pub fn new(harness: &Harness) -> Self {
        let default = |parameter: crate::harness::Parameter| {
            let value = parameter.parse(parameter.default);
            (parameter.name, value.expect("a test parses every default"))
        };
        Self { values: harness.parameters().map(default).collect() }
    }

    /// Sets a parameter of `harness` to the value that `text` means.
    pub fn set(&mut self, harness: &Harness, name: &str, text: &str) -> Result<(), SettingError> {
        let Some(parameter) = harness.parameter(name) else {
            let known = harness.parameters().map(|parameter| parameter.name).collect();
            return Err(SettingError::Unknown { name: name.to_owned(), known });
        };
        let value = parameter.parse(text).map_err(|reason| SettingError::Unfit {
            name: parameter.name,
            value: text.to_owned(),
            reason,
        })?;
        self.values.insert(parameter.name, value);
        Ok(())
    }

    /// All values, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.values.iter().map(|(name, value)| (*name, value))
    }

    fn value(&self, name: &str) -> &Value {
        self.values.get(name).unwrap_or_else(|| panic!("the harness describes no \"{name}\""))
    }

    pub(crate) fn count(&self, name: &str) -> u64 {
        match self.value(name) {
            Value::Count(count) => *count,
            other => panic!("\"{name}\" is no count but {other:?}"),
        }
    }

    pub(crate) fn size(&self, name: &str) -> usize {
        self.count(name) as usize
    }

    /// The least and the largest size, which have to be in that order.
    pub(crate) fn range(&self) -> Result<(usize, usize), Error> {
        let (min, max) = (self.size("min"), self.size("max"));
        if max < min {
            return Err(Error::Unsuitable(format!("max, {max}, is less than min, {min}")));
        }
        Ok((min, max))
    }

    pub(crate) fn duration(&self, name: &str) -> Duration {
        match self.value(name) {
            Value::Number(seconds) => Duration::from_secs_f64(*seconds),
            other => panic!("\"{name}\" is no number but {other:?}"),
        }
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        matches!(self.value(name), Value::Flag(true))
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        match self.value(name) {
            Value::Text(text) => text,
            other => panic!("\"{name}\" is no text but {other:?}"),
        }
    }

    pub(crate) fn threads(&self) -> u32 {
        self.count("threads") as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harnesses;

    #[test]
    fn settings_start_with_the_defaults_and_take_what_fits() {
        let larson = harnesses::find("larson").expect("there");
        let mut settings = Settings::new(larson);
        assert_eq!(settings.count("seed"), 1);
        settings.set(larson, "threads", "7").expect("fits");
        settings.set(larson, "verify", "true").expect("fits");
        assert_eq!(settings.threads(), 7);
        assert!(settings.flag("verify"));
    }

    #[test]
    fn an_unknown_parameter_is_answered_by_those_that_there_are() {
        let larson = harnesses::find("larson").expect("there");
        let error = Settings::new(larson).set(larson, "colour", "1").expect_err("refused");
        let text = error.to_string();
        assert!(text.starts_with("no parameter \"colour\"; there are threads, "), "{text}");
        let error = Settings::new(larson).set(larson, "threads", "0").expect_err("refused");
        assert_eq!(error.to_string(), "threads \"0\": must be a whole number from 1 to 256");
    }
}
