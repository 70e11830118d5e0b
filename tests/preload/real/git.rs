//! git: many short processes, and threads that pack.

use super::{Scratch, script};
use crate::support::child::Child;
use crate::support::tools;
use crate::support::witness::same_with_and_without;

#[test]
fn git_clones_packs_and_checks() {
    let (Some(bash), Some(_)) = (tools::find("bash"), tools::find("git")) else { return };
    let scratch = Scratch::new();
    let ended = same_with_and_without(&["git", "bash"], || {
        scratch.dir_of(Child::new(&bash).arg(script("git.sh")), &[])
    });
    ended.check(ended.out().contains("merge"), "it was to show the history");
}
