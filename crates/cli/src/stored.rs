//! Results from files: which kind of document each holds, and grids made one. It must not know what
//! becomes of them.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use freehold_lab::grid::{doubts, merge};
use freehold_model::{Document, GridDocument, SchemaError, Stored, Timeline, from_json, kind_of};
use freehold_report::Shown;

use crate::advice;
use crate::exit::{Exit, Failure};
use crate::ui::STANDARD_OUTPUT;

/// The documents in these files, in their order. All grids together are one document, in the
/// place of the first.
pub(crate) fn documents(files: &[PathBuf]) -> Result<Vec<Shown>, Failure> {
    let mut documents = Vec::new();
    let mut grids: Vec<GridDocument> = Vec::new();
    let mut place = 0;
    for file in files {
        match document(file)? {
            Shown::Results(Stored::Grid(grid)) => {
                if grids.is_empty() {
                    place = documents.len();
                }
                grids.push(*grid);
            }
            other => documents.push(other),
        }
    }
    if !grids.is_empty() {
        documents.insert(place, Shown::Results(Stored::Grid(Box::new(one(grids)?))));
    }
    Ok(documents)
}

/// One grid of several.
fn one(mut grids: Vec<GridDocument>) -> Result<GridDocument, Failure> {
    if grids.len() == 1 {
        return Ok(grids.remove(0));
    }
    let whole = merge(grids);
    let mut whole =
        whole.map_err(|error| Failure::error("these results cannot be made one", &error))?;
    let found = doubts(&whole);
    let found: Vec<_> = found.iter().map(|doubt| advice::grid_doubt(doubt, &whole)).collect();
    for warning in found {
        if !whole.warnings.contains(&warning) {
            whole.warnings.push(warning);
        }
    }
    Ok(whole)
}

fn document(file: &Path) -> Result<Shown, Failure> {
    let name = file.display();
    let text = read(file).map_err(|error| Failure::error(format!("cannot read {name}"), &error))?;
    shown(&text).map_err(|error| {
        let failure = Failure::error(name.to_string(), &error);
        match error {
            SchemaError::WrongKind { .. } => failure.hint(
                "report shows what bench, compare, replay, reproduce and timeline have written",
            ),
            _ => failure,
        }
    })
}

/// What a page can be made of this text.
fn shown(text: &str) -> Result<Shown, SchemaError> {
    if kind_of(text)? == Timeline::KIND {
        return from_json(text).map(|own| Shown::Timeline(Box::new(own)));
    }
    Stored::from_json(text).map(Shown::Results)
}

fn read(file: &Path) -> io::Result<String> {
    if file.as_os_str() != STANDARD_OUTPUT {
        return fs::read_to_string(file);
    }
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    Ok(text)
}

/// The only document; a failure where there are several, which a file of this kind cannot hold.
pub(crate) fn only<'a>(documents: &'a [Shown], kind: &str) -> Result<&'a Shown, Failure> {
    if let [only] = documents {
        return Ok(only);
    }
    let message = format!("a {kind} file holds results of one kind");
    Err(Failure::new(Exit::Usage, message).hint("name a file that ends in .html instead"))
}
