//! A Java machine: a compiler in Java, threads, and memory outside the collected heap.

use std::fs;

use super::{Scratch, script};
use crate::support::child::Child;
use crate::support::tools;
use crate::support::witness::same_with_and_without;

#[test]
fn java_compiles_and_runs() {
    let (Some(bash), Some(_)) = (tools::find("bash"), tools::find("javac")) else { return };
    let source = fs::read_to_string(script("java/Work.java")).expect("sources can be read");
    let scratch = Scratch::new();
    let commands = "set -e; javac -d classes Work.java; java -Xmx300m -cp classes Work; \
        sha256sum classes/*";
    let ended = same_with_and_without(&["java", "javac"], || {
        let bash = Child::new(&bash).args(["-c", commands]);
        scratch.dir_of(bash, &[("Work.java", &source)])
    });
    ended.check(!ended.out().contains("false"), "what was packed was to be unpacked");
}
