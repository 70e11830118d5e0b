//! redis-server under its own benchmark.

use std::fs;
use std::path::Path;

use super::{Scratch, script};
use crate::support::child::Child;
use crate::support::tools;
use crate::support::witness::same_with_and_without;

#[test]
fn redis_serves_its_benchmark() {
    let Some(bash) = tools::find("bash") else { return };
    let programs = ["redis-server", "redis-cli", "redis-benchmark"].map(tools::find);
    let [Some(server), Some(cli), Some(benchmark)] = programs else { return };
    // Some of them are one program with several names.
    let names = [server, cli, benchmark].map(|it| own_name(&it));
    let scratch = Scratch::new();
    same_with_and_without(&names.each_ref().map(String::as_str), || {
        scratch.dir_of(Child::new(&bash).arg(script("redis.sh")), &[])
    });
}

/// The name of a program's file.
fn own_name(program: &Path) -> String {
    let file = fs::canonicalize(program).expect("it was found");
    file.file_name().expect("files have names").to_string_lossy().into_owned()
}
