//! `cargo xtask startup`: what it costs a program that hardly does anything to have a library
//! preloaded: time from its start to its end, and resident memory. All take turns.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::metadata::{self, root, target};
use crate::security::{built_library, named_library};
use crate::verdicts::compiled;

/// What Freehold may cost: microseconds, and KiB that are resident.
const MOST: (f64, f64) = (100.0, 200.0);

/// Of so many runs one tells what is resident.
const OF_TIME: u32 = 2;

/// Prints what the program takes more with Freehold, an empty library, and those given as
/// `NAME=LIBRARY` than without any, in so many runs of each. Findings: where Freehold takes more
/// than is the aim.
pub(crate) fn check(runs: u32, others: &[&str]) -> Vec<String> {
    let workspace = metadata::read(false);
    match run(&root(&workspace), &target(&workspace), runs, others) {
        Ok(findings) => findings,
        Err(reason) => vec![format!("startup: {reason}")],
    }
}

/// A library, or none, and what was measured with it.
struct Subject {
    name: String,
    library: Option<PathBuf>,
    /// In microseconds.
    times: Vec<f64>,
    /// In KiB: all that was resident, and of that what was the program's own and written to.
    memory: Vec<(f64, f64)>,
}

impl Subject {
    fn new(name: &str, library: Option<PathBuf>) -> Self {
        Self { name: name.to_owned(), library, times: Vec::new(), memory: Vec::new() }
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", "/usr/bin:/bin").stdout(Stdio::null());
        command.envs(self.library.iter().map(|library| ("LD_PRELOAD", library)));
        command
    }

    fn measure(&mut self, program: &Path, with_memory: bool) -> Result<(), String> {
        let failed = |reason: String| format!("{}: {reason}", self.name);
        let mut command = self.command(program);
        let before = Instant::now();
        let status = command.status().map_err(|e| failed(e.to_string()))?;
        let took = before.elapsed();
        if !status.success() {
            return Err(failed(status.to_string()));
        }
        self.times.push(took.as_secs_f64() * 1e6);
        if with_memory {
            let output = self.command(program).arg("memory").stderr(Stdio::piped()).output();
            let output = output.map_err(|e| failed(e.to_string()))?;
            let text = String::from_utf8_lossy(&output.stderr);
            let field = |name| kib(&text, name).ok_or_else(|| failed(format!("no {name}: {text}")));
            self.memory.push((field("Rss:")?, field("Private_Dirty:")?));
        }
        Ok(())
    }

    /// The median of the time, and the means of what was resident and of what was written to: how
    /// many pages of a file the kernel maps at once depends on where it happens to put it, so that
    /// what is resident is one of a few values, some 64 KiB apart.
    fn middles(&self) -> [f64; 3] {
        let resident = mean(self.memory.iter().map(|memory| memory.0));
        [median(self.times.clone()), resident, mean(self.memory.iter().map(|memory| memory.1))]
    }
}

fn run(root: &Path, target: &Path, runs: u32, others: &[&str]) -> Result<Vec<String>, String> {
    let directory = tempfile::tempdir().map_err(|e| e.to_string())?;
    let program = compiled(&root.join("tests/floor/hello.c"), directory.path());
    let mut subjects = vec![
        Subject::new("nothing", None),
        Subject::new("empty library", Some(empty(directory.path())?)),
        Subject::new("Freehold", Some(built_library(root, target)?)),
    ];
    for other in others {
        let (name, library) = named_library(other)?;
        subjects.push(Subject::new(name, Some(library)));
    }
    for library in subjects.iter().filter_map(|subject| subject.library.as_ref()) {
        // Pages of a file that the disk does not have yet count as written to.
        let synced = File::open(library).and_then(|file| file.sync_all());
        synced.map_err(|e| format!("{}: {e}", library.display()))?;
    }
    let count = subjects.len();
    for turn in 0..runs {
        // Each begins as often as the others, and comes after each of two others.
        for n in 0..count {
            let n = if turn % 2 == 0 { n } else { count - 1 - n };
            let subject = &mut subjects[(n + turn as usize / 2) % count];
            subject.measure(&program, turn % OF_TIME == 0)?;
        }
    }
    println!(
        "{:<14} {:>16} {:>14} {:>22}",
        "", "microseconds", "KiB resident", "of them written to"
    );
    let least = subjects[0].middles();
    let more = |subject: &Subject| {
        let middles = subject.middles();
        [0, 1, 2].map(|n| middles[n] - least[n])
    };
    for subject in &subjects[1..] {
        let [time, resident, written] = more(subject);
        println!("{:<14} {time:>16.0} {resident:>14.0} {written:>22.0}", subject.name);
    }
    let [time, resident, _] = more(&subjects[2]);
    let too_much = [(time, MOST.0, "microseconds"), (resident, MOST.1, "KiB resident")];
    Ok(too_much
        .into_iter()
        .filter(|(took, most, _)| took > most)
        .map(|(took, most, unit)| format!("startup: {took:.0} {unit} more, and {most} is the aim"))
        .collect())
}

/// A library with nothing in it.
fn empty(directory: &Path) -> Result<PathBuf, String> {
    let source = directory.join("empty.c");
    fs::write(&source, "").map_err(|e| e.to_string())?;
    let library = directory.join("empty.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source);
    let status = compiler.status().map_err(|e| format!("cc: {e}"))?;
    if status.success() { Ok(library) } else { Err(format!("cc: {status}")) }
}

/// The KiB that a line of the kernel's account gives.
fn kib(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len();
    values.sum::<f64>() / count as f64
}

/// The median; of an even number what lies between the two in the middle.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_account_gives_kib() {
        let text = "5581-7ffc [rollup]\nRss:     1640 kB\nPrivate_Dirty:     172 kB\n";
        assert_eq!(kib(text, "Rss:"), Some(1640.0));
        assert_eq!(kib(text, "Private_Dirty:"), Some(172.0));
        assert_eq!(kib(text, "Swap:"), None);
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_two() {
        assert!((median(vec![4.0, 1.0, 3.0]) - 3.0).abs() < f64::EPSILON);
        assert!((median(vec![4.0, 1.0, 3.0, 2.0]) - 2.5).abs() < f64::EPSILON);
    }
}
