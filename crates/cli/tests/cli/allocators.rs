//! `freehold allocators`: what is on this machine.

use std::process::Command;

use crate::support::{compiled, directory, family, freehold, json, other_libraries, run, skipped};

#[test]
fn freehold_and_the_c_library_are_always_found_with_version_path_and_hash() {
    let list = json(&run(&["allocators", "--json"]).with(0).out);
    assert_eq!(list["schema_version"], 1);
    assert_eq!(list["kind"], "allocators");
    for (index, name, origin) in [(0, "freehold", "embedded"), (1, "system", "c_library")] {
        let allocator = &list["found"][index];
        assert_eq!(allocator["name"], name);
        assert_eq!(allocator["origin"], origin);
        assert!(allocator["version"].is_string(), "{allocator}");
        assert_eq!(allocator["library"]["sha256"].as_str().map(str::len), Some(64));
    }
    assert_eq!(list["found"][0]["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn hashes_are_those_that_other_tools_compute() {
    let list = json(&run(&["allocators", "--json"]).with(0).out);
    for allocator in list["found"].as_array().expect("a list") {
        let path = allocator["library"]["path"].as_str().expect("a path");
        let Ok(output) = Command::new("sha256sum").arg(path).output() else {
            return skipped("no sha256sum");
        };
        let sum = String::from_utf8_lossy(&output.stdout);
        assert_eq!(sum.split(' ').next(), allocator["library"]["sha256"].as_str());
    }
}

#[test]
fn every_known_allocator_is_either_found_or_comes_with_a_way_to_get_it() {
    let list = json(&run(&["allocators", "--json"]).with(0).out);
    let names = |key: &str| -> Vec<String> {
        let list = list[key].as_array().expect("a list").iter();
        list.map(|own| own["name"].as_str().expect("a name").to_owned()).collect()
    };
    let (found, missing) = (names("found"), names("missing"));
    for known in [
        "freehold",
        "system",
        "jemalloc",
        "tcmalloc",
        "mimalloc",
        "scudo",
        "tbbmalloc",
        "hoard",
        "snmalloc",
        "rpmalloc",
        "llalloc",
    ] {
        let times =
            [&found, &missing].map(|names| names.iter().filter(|own| *own == known).count());
        assert_eq!(times.iter().sum::<usize>(), 1, "{known}: {times:?}");
    }
    for missing in list["missing"].as_array().expect("a list") {
        assert!(missing["install"].as_str().is_some_and(|advice| advice.len() > 10), "{missing}");
    }
}

#[test]
fn a_library_given_by_its_path_is_recognised() {
    for (name, path) in other_libraries() {
        let list = json(&run(&["allocators", "--json", &path]).with(0).out);
        let given = list["found"].as_array().and_then(|found| found.last()).expect("one more");
        assert_eq!(given["origin"], "given");
        assert_eq!(given["family"], family(&name));
        assert_eq!(given["library"]["path"], path.as_str());
    }
}

#[test]
fn every_version_is_listed_the_newest_first_and_can_be_asked_for() {
    let directory = directory();
    let source = "#include <stddef.h>\nvoid *malloc(size_t size) { return NULL; }\n";
    // A library whose name says what it is and which version: the peers' directory has two.
    for name in ["libhoard.so.990.2", "libhoard.so.990.10"] {
        let flags = ["-x", "c", "-shared", "-fPIC"];
        if compiled(&directory, name, source, &flags).is_none() {
            return;
        }
    }
    let list = |words: &[&str]| {
        let mut command = freehold();
        let output = command.args(words).env("FREEHOLD_PEERS", directory.path()).output();
        json(&String::from_utf8_lossy(&output.expect("started").stdout))
    };
    let all = list(&["allocators", "--json"]);
    let found = all["found"].as_array().expect("a list").iter();
    let hoards: Vec<_> = found.filter(|own| own["family"] == "hoard").collect();
    assert_eq!(hoards[0]["name"], "hoard");
    assert_eq!(hoards[0]["version"], "990.10");
    assert_eq!(hoards[1]["name"], "hoard@990.2");
    let asked = list(&["allocators", "--json", "hoard@990.2"]);
    let last = asked["found"].as_array().and_then(|found| found.last()).expect("one more");
    assert_eq!(last["version"], "990.2");
    let output = freehold()
        .args(["allocators", "hoard@7"])
        .env("FREEHOLD_PEERS", directory.path())
        .output()
        .expect("started");
    assert_eq!(output.status.code(), Some(5));
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(err.contains("hoard 7 was not found"), "{err}");
    assert!(err.contains("there is hoard 990.10, 990.2"), "{err}");
}

#[test]
fn what_is_listed_under_a_number_can_be_asked_for_by_it() {
    let directory = directory();
    let source = "#include <stddef.h>\nvoid *malloc(size_t size) { return NULL; }\n";
    // One says which version it is, and the other does not.
    for name in ["libhoard.so.990.2", "libhoard.so"] {
        let flags = ["-x", "c", "-shared", "-fPIC"];
        if compiled(&directory, name, source, &flags).is_none() {
            return;
        }
    }
    let list = |words: &[&str]| {
        let output = freehold().args(words).env("FREEHOLD_PEERS", directory.path()).output();
        json(&String::from_utf8_lossy(&output.expect("started").stdout))
    };
    let all = list(&["allocators", "--json"]);
    let found = all["found"].as_array().expect("a list");
    let second = found.iter().find(|own| own["name"] == "hoard-2").expect("a second one");
    assert_eq!(second["version"], serde_json::Value::Null);
    let asked = list(&["allocators", "--json", "hoard-2"]);
    let last = asked["found"].as_array().and_then(|found| found.last()).expect("one more");
    assert_eq!(last["library"]["path"], second["library"]["path"]);
    assert_eq!(last["family"], "hoard");
    let missing = freehold().args(["allocators", "hoard-9"]).output().expect("started");
    assert_eq!(missing.status.code(), Some(2));
}

#[test]
fn a_file_that_is_not_an_allocator_is_refused_with_the_reason() {
    let own = std::env::current_exe().expect("a path");
    let ended = run(&["allocators", &own.to_string_lossy()]).with(5);
    assert!(ended.err.contains("exports no malloc"), "{}", ended.err);
    let text = run(&["allocators", "/etc/passwd"]).with(5);
    assert!(text.err.contains("not an ELF file"), "{}", text.err);
    let missing = run(&["allocators", "./no-such-library.so"]).with(5);
    assert!(missing.err.contains("No such file"), "{}", missing.err);
}
