//! The shell and the tools it is used with.

use std::fmt::Write as _;

use super::{Scratch, script};
use crate::support::child::Child;
use crate::support::tools;
use crate::support::witness::same_with_and_without;

#[test]
fn bash_with_pipes_and_a_hundred_forks() {
    let Some(bash) = tools::find("bash") else { return };
    same_with_and_without(&["bash", "sort", "uniq", "tr"], || {
        Child::new(&bash).arg(script("forks.sh"))
    });
}

/// Lines in no order, some of them long, and each key several times.
fn lines(count: u64) -> String {
    let mut lines = String::new();
    for n in 0..count {
        let key = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let width = if n % 1000 == 0 { 5000 } else { key as usize % 40 };
        writeln!(lines, "{key:x} {n} {:.>width$}", "").expect("strings can be written to");
    }
    lines
}

#[test]
fn sort_in_several_threads() {
    let Some(sort) = tools::find("sort") else { return };
    let (scratch, input) = (Scratch::new(), lines(600_000));
    let make = |arguments: &[&str]| {
        let sort = Child::new(&sort).args(arguments).arg("input");
        scratch.dir_of(sort, &[("input", &input)])
    };
    let sorted = same_with_and_without(&["sort"], || make(&["--parallel=8"]));
    sorted.check(
        sorted.stdout.len() == input.len() && sorted.out().lines().is_sorted(),
        "it was to sort",
    );
    // With little memory parts are written to files, and merged in the end.
    same_with_and_without(&["sort"], || {
        make(&["--parallel=4", "--buffer-size=4M", "--temporary-directory=.", "-k2,2n"])
    });
}
