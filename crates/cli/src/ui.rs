//! Speaking to the user: results to standard output, everything else to standard error. It must
//! not know what is said.

use std::fs;
use std::io::{self, IsTerminal, Write};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use freehold_model::{Document, to_json, to_json_line};

use crate::args::{Global, When};
use crate::exit::{Exit, Failure};

const ERROR: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const HINT: Style = AnsiColor::Green.on_default();

/// The name that a file has when standard output is meant.
pub(crate) const STANDARD_OUTPUT: &str = "-";

/// How to speak to the user.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ui {
    is_quiet: bool,
    progress: When,
}

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProgressStyle {
    /// Not at all.
    None,
    /// As a bar that is redrawn.
    Bar,
    /// As a line for each step.
    Lines,
}

impl Ui {
    pub(crate) fn new(global: &Global) -> Self {
        match global.color {
            When::Always => ColorChoice::Always.write_global(),
            When::Never => ColorChoice::Never.write_global(),
            // Decides by NO_COLOR, CLICOLOR_FORCE and whether it writes to a terminal.
            When::Auto => ColorChoice::Auto.write_global(),
        }
        Self { is_quiet: global.quiet, progress: global.progress }
    }

    pub(crate) fn progress_style(self) -> ProgressStyle {
        let is_terminal = io::stderr().is_terminal();
        match self.progress {
            When::Auto | When::Always if self.is_quiet => ProgressStyle::None,
            When::Auto | When::Always if is_terminal => ProgressStyle::Bar,
            When::Always => ProgressStyle::Lines,
            When::Auto | When::Never => ProgressStyle::None,
        }
    }

    /// Says what a command's own output must not be mixed with, on several lines.
    pub(crate) fn tell(self, text: &str) {
        if !self.is_quiet {
            say(text.trim_end());
        }
    }

    /// Says something that matters only to a person watching.
    pub(crate) fn note(self, text: &str) {
        if !self.is_quiet {
            say(&format!("freehold: {text}"));
        }
    }
}

/// Prints a result.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = AutoStream::auto(io::stdout().lock());
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Prints a result for machines, which no choice of colours may change.
pub(crate) fn print_raw(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Prints a document as JSON.
pub(crate) fn print_json(document: &impl Document) -> Result<(), Failure> {
    save_json(STANDARD_OUTPUT, document)
}

/// Prints a document that is one of many as a line of JSON.
pub(crate) fn print_json_line(document: &impl Document) -> Result<(), Failure> {
    let line = to_json_line(document);
    print_raw(&line.map_err(|error| Failure::error("cannot write JSON", &error))?)
}

/// Writes a result to a file, or to standard output for `-`.
pub(crate) fn save(path: &str, text: &str) -> Result<(), Failure> {
    if path == STANDARD_OUTPUT {
        return print_raw(text);
    }
    fs::write(path, text).map_err(|error| Failure::error(format!("cannot write {path}"), &error))
}

/// Writes a document as JSON to a file, or to standard output for `-`.
pub(crate) fn save_json(path: &str, document: &impl Document) -> Result<(), Failure> {
    let json = to_json(document);
    save(path, &json.map_err(|error| Failure::error("cannot write JSON", &error))?)
}

/// Makes sure that a file can be written, before the work whose result goes there is done.
pub(crate) fn check_writable(path: &str) -> Result<(), Failure> {
    if path == STANDARD_OUTPUT {
        return Ok(());
    }
    let opened = fs::OpenOptions::new().append(true).create(true).open(path);
    opened.map(drop).map_err(|error| Failure::error(format!("cannot write {path}"), &error))
}

/// Words as a line that a shell reads.
pub(crate) fn shell_words(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// A word as a shell reads it.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Makes sure that all results will find their place, before the work is done.
pub(crate) fn check_places(places: &[&str]) -> Result<(), Failure> {
    if places.iter().filter(|place| **place == STANDARD_OUTPUT).count() > 1 {
        let message = "only one result can go to standard output";
        return Err(Failure::new(Exit::Usage, message));
    }
    places.iter().try_for_each(|place| check_writable(place))
}

/// Says something that may change what a result means. Not silenced by `--quiet`.
pub(crate) fn warn(text: &str) {
    say(&format!("{WARNING}warning:{WARNING:#} {text}"));
}

/// Says something to do.
pub(crate) fn hint(text: &str) {
    say(&format!("{HINT}hint:{HINT:#} {text}"));
}

/// Says why the command failed, and returns what to exit with.
pub(crate) fn explain(failure: &Failure) -> Exit {
    if !failure.is_silent {
        say(&format!("{ERROR}error:{ERROR:#} {}", failure.message));
        if let Some(text) = &failure.hint {
            hint(text);
        }
    }
    failure.exit
}

/// Nobody can be told when standard error is gone, so a failure to write there is let pass.
fn say(line: &str) {
    let _ = writeln!(AutoStream::auto(io::stderr().lock()), "{line}");
}
