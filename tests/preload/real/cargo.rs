//! cargo: a build script, a macro crate that the compiler loads, a linker, and what was built.

use super::Scratch;
use crate::support::child::Child;
use crate::support::tools;
use crate::support::witness::Testimony;

/// Everything of a small workspace that depends on nothing from elsewhere.
const FILES: &[(&str, &str)] = &[
    (
        "Cargo.toml",
        r#"[workspace]
members = ["macros"]

[package]
name = "small"
version = "0.1.0"
edition = "2021"
build = "build.rs"

[dependencies]
macros = { path = "macros" }
"#,
    ),
    (
        "macros/Cargo.toml",
        r#"[package]
name = "macros"
version = "0.1.0"
edition = "2021"

[lib]
proc-macro = true
"#,
    ),
    (
        "macros/src/lib.rs",
        r#"use proc_macro::TokenStream;

/// A function for each number below the one given.
#[proc_macro]
pub fn functions(input: TokenStream) -> TokenStream {
    let count: usize = input.to_string().parse().unwrap();
    let mut code = String::new();
    for n in 0..count {
        code += &format!("fn f{n}(text: &str) -> String {{ text.repeat({n} % 5 + 1) }}\n");
    }
    let names: Vec<_> = (0..count).map(|n| format!("f{n}")).collect();
    code += &format!("const ALL: [fn(&str) -> String; {count}] = [{}];", names.join(","));
    code.parse().unwrap()
}
"#,
    ),
    (
        "build.rs",
        r#"use std::{env, fs, path::Path};

fn main() {
    let words: Vec<String> = (0..1000).map(|n| format!("{:?}", "word".repeat(n % 7))).collect();
    let out = Path::new(&env::var_os("OUT_DIR").unwrap()).join("words.rs");
    fs::write(out, format!("const WORDS: [&str; 1000] = [{}];", words.join(","))).unwrap();
    println!("cargo:rerun-if-changed=build.rs");
}
"#,
    ),
    (
        "src/main.rs",
        r#"use std::collections::{BTreeMap, HashMap};
use std::thread;

include!(concat!(env!("OUT_DIR"), "/words.rs"));
macros::functions!(100);

fn main() {
    let threads: Vec<_> = (0..8)
        .map(|n| {
            thread::spawn(move || {
                let mut lengths = HashMap::new();
                for (i, word) in WORDS.iter().enumerate() {
                    *lengths.entry(ALL[(i * n) % ALL.len()](word).len()).or_insert(0) += 1;
                }
                lengths
            })
        })
        .collect();
    let mut all = BTreeMap::new();
    for thread in threads {
        for (length, count) in thread.join().unwrap() {
            *all.entry(length).or_insert(0) += count;
        }
    }
    println!("{all:?}");
}
"#,
    ),
];

/// Builds and runs the program; says what the program is and what it wrote.
const COMMANDS: &str = "set -e
    cargo build --quiet --offline --target-dir target
    sha256sum target/debug/small
    cargo run --quiet --offline --target-dir target";

#[test]
fn cargo_builds_and_runs_a_crate() {
    let (Some(bash), Some(_)) = (tools::find("bash"), tools::find("cargo")) else { return };
    let scratch = Scratch::new();
    let make = || scratch.dir_of(Child::new(&bash).args(["-c", COMMANDS]), FILES);
    let without = make().run().succeeded();
    let testimony = Testimony::new();
    let with = testimony.of(make()).run().succeeded();
    // The compiler may bring an allocator of its own, which takes precedence over any preloaded.
    testimony.is_of(&["cargo", "build-script-build", "small"], &["rustc"]);
    with.check(with.stdout == without.stdout, &format!("{} was to be", without.out()));
    with.check(with.stderr.is_empty(), "nothing was to be said");
}
