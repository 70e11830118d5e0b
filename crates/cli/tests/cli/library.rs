//! `freehold lib`: the one file that is copied carries the library.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::{Waiting, directory, freehold, run};

#[test]
fn the_path_is_printed_alone_and_preloading_it_makes_freehold_live() {
    let out = run(&["lib"]).with(0).out;
    let path = out.strip_suffix('\n').expect("one line");
    assert!(!path.contains('\n'));
    let process = Waiting::preloaded(path);
    let seen = run(&["which", &process.pid(), "--expect", "freehold"]).with(0);
    assert!(seen.out.starts_with("freehold "), "{}", seen.out);
    assert!(seen.out.contains(", preloaded\n"), "{}", seen.out);
}

#[test]
fn the_library_is_laid_out_in_the_cache_directory_under_a_name_with_its_version() {
    let cache = directory();
    let output = freehold().arg("lib").env("XDG_CACHE_HOME", cache.path()).output();
    let output = String::from_utf8(output.expect("started").stdout).expect("a path");
    let file = output.trim_end().rsplit('/').next().expect("a name");
    let version = env!("CARGO_PKG_VERSION");
    assert!(file.starts_with(&format!("libfreehold-{version}-")), "{file}");
    let laid_out: Vec<_> = fs::read_dir(cache.path().join("freehold")).expect("made").collect();
    assert_eq!(laid_out.len(), 1);
}

#[test]
fn an_output_file_is_the_same_library() {
    let directory = directory();
    let copy = directory.path().join("libfreehold.so");
    let printed = run(&["lib", "--output", &copy.to_string_lossy()]).with(0).out;
    assert_eq!(printed.trim_end(), copy.to_string_lossy());
    let original = run(&["lib"]).with(0).out;
    assert_eq!(fs::read(&copy).expect("written"), fs::read(original.trim_end()).expect("there"));
    let mode = fs::metadata(&copy).expect("written").permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
}

#[test]
fn a_place_that_cannot_be_written_is_an_error_with_its_path() {
    let ended = run(&["lib", "--output", "/nowhere/at/all.so"]).with(1);
    assert!(ended.err.contains("/nowhere/at/all.so"), "{}", ended.err);
}
