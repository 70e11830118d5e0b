//! Whether real comparisons keep what the statistics promise: the same allocator twice hardly ever
//! seems to differ, and one that is slower by 5 % is found to be wherever the interval says that it
//! can be. `FREEHOLD_COMPARISONS` says how many comparisons are made; the counts are printed.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::compare::{cell, compared, forwarding, text, work_and};
use crate::support::{compiled, directory};

/// The variable that says how many comparisons of each kind are made.
const COMPARISONS: &str = "FREEHOLD_COMPARISONS";

/// How many are made if it is not set.
const FEW: u64 = 3;

/// The slowdown that is to be found.
const SLOWDOWN: f64 = 0.05;

/// When a comparison that is to find it ends: when it is known well enough, or on a machine that is
/// busy with something else after so many seconds.
const UNTIL: [&str; 6] = ["--until", "2%", "--repeat", "400", "--time-limit", "8"];

/// Turns of a loop in the library by which a turn is measured.
const TURNS_TO_MEASURE: u64 = 2000;

/// A program that does little but allocate, for some milliseconds.
const BUSY: &str = r"
#include <stdlib.h>
int main(void) {
    for (int round = 0; round < 2000; round++) {
        char *blocks[100];
        for (int i = 0; i < 100; i++) *(blocks[i] = malloc(i + 1)) = 1;
        for (int i = 0; i < 100; i++) free(blocks[i]);
    }
    return 0;
}
";

fn comparisons() -> u64 {
    std::env::var(COMPARISONS).ok().and_then(|count| count.parse().ok()).unwrap_or(FEW)
}

/// How many of so many may go wrong where 5 % are to: more than that do in one of a hundred tests
/// at most (the binomial distribution).
fn tolerated(all: u64) -> u64 {
    const WRONG: f64 = 0.05;
    let (mut so_many, mut more) = ((1.0 - WRONG).powf(all as f64), 1.0);
    let is_enough = |&count: &u64| {
        more -= so_many;
        so_many *= (all - count) as f64 / (count + 1) as f64 * WRONG / (1.0 - WRONG);
        more <= 0.01
    };
    (0..all).find(is_enough).unwrap_or(all)
}

#[test]
fn as_many_may_go_wrong_as_chance_has_it() {
    assert_eq!([0, 1, 3, 40, 200].map(tolerated), [0, 1, 1, 6, 18]);
}

#[track_caller]
fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn an_allocator_against_a_copy_of_itself_hardly_ever_seems_to_differ() {
    let directory = directory();
    let Some((program, library)) = work_and(&directory, "") else { return };
    let copy = directory.path().join("libcopy.so");
    fs::copy(&library, &copy).expect("copied");
    let list = format!("{},{}", text(&library), text(&copy));
    let claims = |seed: u64| {
        let seed = seed.to_string();
        let document = compared(&["-a", &list, "--seed", &seed, "--", &text(&program)]);
        let measures = &cell(&document, "copy")["measures"];
        let found = |name: &str| measures[name]["finding"].as_str().expect("found").to_owned();
        let none = ["no_difference_shown", "not_enough_evidence"];
        ["wall", "rss.peak"].into_iter().any(|name| !none.contains(&found(name).as_str()))
    };
    let all = comparisons();
    let wrong = (1..=all).filter(|&seed| claims(seed)).count() as u64;
    println!("the same allocator twice: {wrong} of {all} comparisons claim a difference");
    assert!(wrong <= tolerated(all), "{wrong} of {all}");
}

#[test]
fn an_allocator_that_is_five_percent_slower_is_found_to_be_wherever_that_can_be_found() {
    let directory = directory();
    let Some(program) = compiled(&directory, "busy", BUSY, &["-O1", "-fno-builtin"]) else {
        return;
    };
    let delayed = |turns| delaying(&directory, turns).expect("the compiler is there");
    let quick = delayed(0);
    let wall = |slow: &Path, seed: u64| -> Value {
        let (list, seed) = (format!("{},{}", text(&quick), text(slow)), seed.to_string());
        let what = ["--seed", &seed, "-a", &list, "--", &text(&program)];
        let document = compared(&[&UNTIL[..], &what].concat());
        cell(&document, &name(slow))["measures"]["wall"].clone()
    };
    let measured = wall(&delayed(TURNS_TO_MEASURE), 0);
    let a_turn = (number(&measured["ratio"]["estimate"]) - 1.0) / TURNS_TO_MEASURE as f64;
    let turns = (SLOWDOWN / a_turn).round() as u64;
    let slow = delayed(turns);
    let (mut able, mut found, mut wrong) = (0, 0, 0);
    let all = comparisons();
    for seed in 1..=all {
        let wall = wall(&slow, seed);
        let ratio = &wall["ratio"];
        wrong += u64::from(wall["finding"] == "faster");
        // The rule of `statistics::detectable`. On a busy machine there may be too few rounds
        // within the time for an interval, and then nothing can be found.
        let width = ratio["high"].as_f64().zip(ratio["low"].as_f64());
        if width.is_some_and(|(high, low)| high / low - 1.0 <= SLOWDOWN) {
            able += 1;
            found += u64::from(wall["finding"] == "slower");
        }
    }
    println!(
        "slower by {turns} turns: found in {found} of the {able} of {all} comparisons that could \
         find it; {wrong} claim the contrary"
    );
    assert!(able - found <= tolerated(able), "{found} of {able}");
    assert!(wrong <= tolerated(all), "{wrong} of {all}");
}

/// A library that spends so many turns of a loop in every 64th call of `malloc`, and nothing in the
/// others: a delay that is short enough for a few percent.
fn delaying(directory: &TempDir, turns: u64) -> Option<PathBuf> {
    let before = format!(
        "static unsigned calls; \
         if (++calls % 64 == 0) for (volatile int i = 0; i < {turns}; i++) {{}}"
    );
    let flags = ["-shared", "-fPIC", "-O1", "-fno-builtin-malloc"];
    compiled(directory, &format!("libdelay{turns}.so"), &forwarding(&before), &flags)
}

/// What the command calls a library.
fn name(library: &Path) -> String {
    let stem = library.file_stem().unwrap_or_default().to_string_lossy();
    stem.trim_start_matches("lib").to_owned()
}
