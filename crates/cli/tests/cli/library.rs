//! `freehold lib`: the one file that is copied carries the library.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};

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
fn what_is_no_file_is_not_replaced_by_one() {
    let directory = directory();
    let pipe = directory.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("started");
    assert!(made.success());
    run(&["lib", "--output", &pipe.to_string_lossy()]).with(1);
    assert!(fs::metadata(&pipe).expect("it is there").file_type().is_fifo());
}

#[test]
fn a_directory_whose_name_is_no_text_is_left_alone() {
    let directory = directory();
    let odd = directory.path().join(OsStr::from_bytes(b"odd\xff"));
    let output = freehold().arg("lib").env("XDG_CACHE_HOME", &odd).output().expect("started");
    let path = String::from_utf8(output.stdout).expect("text");
    assert!(fs::metadata(path.trim_end()).is_ok(), "{path}");
}

#[test]
fn a_place_that_cannot_be_written_is_an_error_with_its_path() {
    let ended = run(&["lib", "--output", "/nowhere/at/all.so"]).with(1);
    assert!(ended.err.contains("/nowhere/at/all.so"), "{}", ended.err);
}
