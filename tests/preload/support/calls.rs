//! Reading the calls that a report names, and the functions that they stand in.

use std::collections::BTreeMap;
use std::fs;

use object::{Object, ObjectSymbol};

use super::child::Ended;

/// A report on standard error: what it says, and the functions on the stacks that it shows.
pub(crate) struct Report<'a> {
    ended: &'a Ended,
    pub(crate) said: String,
    /// For each stack its title, and the functions of the program in it, the innermost first.
    stacks: Vec<(String, Vec<String>)>,
}

impl<'a> Report<'a> {
    /// The report that a program has ended with.
    #[track_caller]
    pub(crate) fn of(ended: &'a Ended) -> Self {
        let errors = ended.err();
        let mut lines = errors.lines().skip_while(|line| !line.starts_with("freehold: "));
        let said = lines.next().unwrap_or_default().to_owned();
        ended.check(!said.is_empty(), "there was to be a report");
        let mut functions = Functions::default();
        let mut stacks = Vec::<(String, Vec<String>)>::new();
        for line in lines {
            if let (Some(call), Some(stack)) = (line.strip_prefix("    "), stacks.last_mut()) {
                stack.1.extend(functions.name(call));
            } else if let Some(title) = line.strip_prefix("  ") {
                stacks.push((title.trim_end_matches(':').to_owned(), Vec::new()));
            }
        }
        Self { ended, said, stacks }
    }

    /// Fails the test unless the report says this.
    #[track_caller]
    pub(crate) fn says(&self, words: &str) -> &Self {
        self.ended.check(self.said.contains(words), &format!("the report was to say {words:?}"));
        self
    }

    /// Fails the test unless there is a stack with this title, and these functions on it one after
    /// the other, the first of them innermost.
    #[track_caller]
    pub(crate) fn shows(&self, title: &str, functions: &[&str]) -> &Self {
        let found = self.stacks.iter().find(|(it, _)| it.starts_with(title));
        let names = found.map(|(_, names)| names.as_slice()).unwrap_or_default();
        self.ended.check(
            names.starts_with(&functions.iter().map(ToString::to_string).collect::<Vec<_>>()),
            &format!("{title:?} was to be by {functions:?}, not {names:?} of {:?}", self.stacks),
        );
        self
    }
}

/// The functions of files, each file read once.
#[derive(Default)]
struct Functions(BTreeMap<String, Vec<(u64, u64, String)>>);

impl Functions {
    /// The function of a call such as "0x5555 /a/program+0x1234".
    fn name(&mut self, call: &str) -> Option<String> {
        let (_, place) = call.split_once(' ')?;
        let (file, offset) = place.rsplit_once("+0x")?;
        let offset = u64::from_str_radix(offset, 16).ok()?;
        let known = self.0.entry(file.to_owned()).or_insert_with(|| read(file));
        let found = known.iter().find(|(start, size, _)| (*start..start + size).contains(&offset));
        found.map(|(.., name)| name.clone())
    }
}

fn read(file: &str) -> Vec<(u64, u64, String)> {
    let Ok(bytes) = fs::read(file) else { return Vec::new() };
    let elf = object::File::parse(bytes.as_slice()).expect("an ELF file");
    let symbols = elf.symbols().filter(|it| it.size() > 0);
    symbols.map(|it| (it.address(), it.size(), it.name().unwrap_or_default().to_owned())).collect()
}
