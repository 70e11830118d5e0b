//! The subcommands of the harnesses that describe themselves: options, their help and their checks
//! are made from the descriptions.

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Command};
use freehold_workloads::Error;
use freehold_workloads::harness::{Better, Harness, Kind, Parameter};
use freehold_workloads::settings::Settings;

use super::record;
use crate::exit::{Exit, Failure};
use crate::ui;

/// The subcommand of a harness.
pub(super) fn command(harness: &'static Harness) -> Command {
    let arguments = harness.parameters().map(argument);
    Command::new(harness.name)
        .about(harness.summary)
        .after_help(source(harness))
        .args(arguments)
        .arg(super::die_with_parent())
}

fn source(harness: &Harness) -> String {
    let better = match harness.metric.better {
        Better::Higher => "higher",
        Better::Lower => "lower",
    };
    format!(
        "Measures: {} in {}; {better} is better.\nSource: {}\n\nExample:\n  \
         freehold run -- freehold workload {} --threads 8",
        harness.metric.name, harness.metric.unit, harness.source, harness.name
    )
}

fn argument(parameter: Parameter) -> Arg {
    let argument = Arg::new(parameter.name).long(parameter.name).help(parameter.help);
    match parameter.kind {
        Kind::Flag => argument.action(ArgAction::SetTrue),
        Kind::Path => argument.value_name("FILE"),
        Kind::Choice(words) => argument
            .value_name("HOW")
            .default_value(parameter.default)
            .value_parser(PossibleValuesParser::new(words)),
        Kind::Count { .. } | Kind::Number { .. } => argument
            .value_name(placeholder(&parameter))
            .default_value(parameter.default)
            .value_parser(move |text: &str| parameter.parse(text).map(|_| text.to_owned())),
    }
}

fn placeholder(parameter: &Parameter) -> &'static str {
    match parameter.unit {
        "bytes" => "BYTES",
        "seconds" => "SECONDS",
        _ => "N",
    }
}

/// What the options of a harness's subcommand mean.
pub(super) fn settings(harness: &'static Harness, matches: &ArgMatches) -> Settings {
    let mut settings = Settings::new(harness);
    for parameter in harness.parameters() {
        let text = match parameter.kind {
            Kind::Flag => Some(matches.get_flag(parameter.name).to_string()),
            _ => matches.get_one::<String>(parameter.name).cloned(),
        };
        if let Some(text) = text {
            settings.set(harness, parameter.name, &text).expect("checked when it was read");
        }
    }
    settings
}

/// Runs the harness, and prints the record.
pub(super) fn execute(harness: &'static Harness, settings: &Settings) -> Result<Exit, Failure> {
    let outcome = harness.run(settings).map_err(|error| {
        let failure = Failure::error(format!("workload {}", harness.name), &error);
        match error {
            Error::Unsuitable(_) => Failure { exit: Exit::Usage, ..failure },
            _ => failure,
        }
    })?;
    ui::print_json(&record::run(harness, settings, &outcome)?)?;
    Ok(Exit::Success)
}
