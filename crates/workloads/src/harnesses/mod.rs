//! The harnesses, one file each.

mod bins;
mod larson;
mod t_test1;
mod threadtest;

use crate::harness::Harness;

const ALL: &[&Harness] = &[&t_test1::HARNESS, &threadtest::HARNESS, &larson::HARNESS];

/// All harnesses with a description.
pub fn all() -> impl Iterator<Item = &'static Harness> {
    ALL.iter().copied()
}

/// The harness of this name.
pub fn find(name: &str) -> Option<&'static Harness> {
    all().find(|harness| harness.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Outcome;
    use crate::settings::Settings;

    /// Runs a harness with these settings and defaults otherwise, contents checked.
    pub(super) fn run(harness: &Harness, settings: &[(&str, &str)]) -> Outcome {
        let mut values = Settings::new(harness);
        for (name, value) in settings.iter().chain(&[("verify", "true")]) {
            values.set(harness, name, value).unwrap_or_else(|error| panic!("{error}"));
        }
        harness.run(&values).unwrap_or_else(|error| panic!("{}: {error}", harness.name))
    }
}
