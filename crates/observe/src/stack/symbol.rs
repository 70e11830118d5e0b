//! Names for places: functions with their source lines, and data.

use std::collections::HashMap;

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use freehold_model::Frame;

use super::file::debug_directories;
use super::image::{Files, Place};

/// Gives names to places, each looked up once.
pub(crate) struct Symbols {
    symbolizer: Symbolizer,
    known: HashMap<Place, Vec<Frame>>,
}

impl Symbols {
    pub(crate) fn new() -> Self {
        let builder = Symbolizer::builder().set_debug_dirs(Some(debug_directories()));
        // It would take a function `w` for a type of C++.
        let symbolizer = builder.enable_demangling(false).build();
        Self { symbolizer, known: HashMap::new() }
    }

    /// The function at a place, after those that were inlined there, the innermost first.
    pub(crate) fn frames(&mut self, place: Place, files: &Files) -> &[Frame] {
        let Self { symbolizer, known } = self;
        known.entry(place).or_insert_with(|| look_up(symbolizer, place, files))
    }
}

/// The name of a symbol as its language writes it.
pub(crate) fn demangled(name: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    if !name.starts_with("_Z") {
        // The name of a type, as far as a demangler knows, is any letter.
        return name.to_owned();
    }
    let cpp = cpp_demangle::Symbol::new(name).ok().and_then(|symbol| symbol.demangle().ok());
    cpp.unwrap_or_else(|| name.to_owned())
}

fn look_up(symbolizer: &Symbolizer, place: Place, files: &Files) -> Vec<Frame> {
    let file = files.get(place.file);
    let module = file.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let unnamed = || Frame {
        function: format!("{:#x}", place.address),
        module: module.clone(),
        file: None,
        line: None,
    };
    let source = Source::Elf(Elf::new(&file.symbols));
    let found = symbolizer.symbolize_single(&source, Input::VirtOffset(place.address));
    let Some(symbol) = found.ok().and_then(Symbolized::into_sym) else {
        return vec![unnamed()];
    };
    let frame = |name: &str, code: Option<&blazesym::symbolize::CodeInfo<'_>>| Frame {
        function: demangled(name),
        file: code.map(|code| code.to_path().to_string_lossy().into_owned()),
        line: code.and_then(|code| code.line),
        ..unnamed()
    };
    let outer = frame(&symbol.name, symbol.code_info.as_deref());
    let inlined = symbol.inlined.iter().rev();
    let inlined = inlined.map(|inlined| frame(&inlined.name, inlined.code_info.as_ref()));
    inlined.chain([outer]).collect()
}
