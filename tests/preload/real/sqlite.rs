//! sqlite3: an allocator's customer that asks how large its objects are.

use std::fs;

use super::{Scratch, script};
use crate::support::child::Child;
use crate::support::tools;
use crate::support::witness::same_with_and_without;

#[test]
fn sqlite_queries_a_database() {
    let Some(sqlite) = tools::find("sqlite3") else { return };
    let statements = fs::read(script("sqlite.sql")).expect("scripts can be read");
    let scratch = Scratch::new();
    let ended = same_with_and_without(&["sqlite3"], || {
        let sqlite = Child::new(&sqlite).args(["-bail", "data"]).input(statements.clone());
        scratch.dir_of(sqlite, &[])
    });
    ended.check(ended.out().lines().any(|line| line == "ok"), "the database was to be sound");
}
