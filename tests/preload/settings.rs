//! Whatever stands in the variables of the environment that Freehold reads, programs run.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use freehold_shadow::Random;

use crate::support::child::Child;
use crate::support::{compile, tools};

const PREFIX: &[u8] = b"FREEHOLD_";

/// What values are often made of.
const WORDS: [&[u8]; 14] = [
    b"",
    b"0",
    b"1",
    b"-1",
    b"on",
    b"off",
    b"true",
    b"=",
    b",",
    b":",
    b" ",
    b"FREEHOLD_",
    b"18446744073709551616",
    b"4096k",
];

/// The longest value in words: much longer than any buffer.
const MOST_WORDS: usize = 2000;

const RUNS: u32 = 60;

/// The variables whose names stand in the library.
fn variables() -> BTreeSet<String> {
    let bytes = freehold_embed::FREEHOLD.bytes;
    let starts = (0..bytes.len()).filter(|&at| bytes[at..].starts_with(PREFIX));
    let name = |at: usize| {
        let rest = bytes[at..].iter().take_while(|it| it.is_ascii_uppercase() || **it == b'_');
        String::from_utf8(rest.copied().collect()).expect("ASCII")
    };
    starts.map(name).filter(|name| name.len() > PREFIX.len()).collect()
}

/// Words that follow each other, or bytes of any kind but the one that ends it.
fn any_value(random: &mut Random) -> OsString {
    let most = if random.below(4) == 0 { MOST_WORDS } else { 4 };
    let words = random.below(most);
    let of_words = random.below(4) != 0;
    let mut value = Vec::new();
    for _ in 0..words {
        if of_words {
            value.extend_from_slice(WORDS[random.below(WORDS.len())]);
        } else {
            value.push(random.below(255) as u8 + 1);
        }
    }
    OsString::from_vec(value)
}

#[test]
fn no_value_of_a_variable_keeps_a_program_from_running() {
    let variables = variables();
    for known in ["FREEHOLD_BACKGROUND", "FREEHOLD_HARDEN"] {
        assert!(variables.contains(known), "{variables:?}");
    }
    let mut random = Random::new();
    for _ in 0..RUNS {
        let program = Child::new(compile::c("libc_results.c")).freehold();
        let with_values = variables
            .iter()
            .fold(program, |program, name| program.env(name, any_value(&mut random)));
        with_values.run().succeeded();
    }
}

#[test]
fn a_switch_that_is_neither_on_nor_off_is_named() {
    for (value, is_named) in [("0x1", true), ("never", true), ("1", false), ("on", false)] {
        let program = Child::new(compile::c("libc_results.c")).freehold();
        let ended = program.env("FREEHOLD_BACKGROUND", value).run().succeeded();
        let named = "freehold: FREEHOLD_BACKGROUND is neither 0 nor 1, and is ignored\n";
        ended.check(ended.err().starts_with(named) == is_named, value);
    }
}

#[test]
fn the_environment_is_read_only_where_it_has_a_setting() {
    let program = || Child::new(compile::c("first_malloc.c")).freehold();
    let without = program().run().succeeded();
    if without.out() == "not counted\n" {
        return tools::skip("the kernel does not count calls of read(2)");
    }
    // One is of the setting for huge pages.
    let reads = without.number("reads");
    without.check(reads <= 1, "the environment has no setting, and was read");
    for setting in ["FREEHOLD_BACKGROUND", "FREEHOLD_", "FREEHOLD_NONE_SUCH"] {
        let with = program().env(setting, "1").run().succeeded();
        with.check(with.number("reads") >= reads + 2, &format!("{setting} was not looked for"));
    }
}
