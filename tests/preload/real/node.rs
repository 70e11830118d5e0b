//! node: a program in C++ with allocators of its own, worker threads, and a pool of threads.

use super::script;
use crate::support::child::Child;
use crate::support::tools;
use crate::support::witness::same_with_and_without;

#[test]
fn node_with_worker_threads() {
    let Some(node) = tools::find("node") else { return };
    let ended = same_with_and_without(&["node"], || Child::new(&node).arg(script("threads.js")));
    ended.check(!ended.out().contains("false"), "memory was to arrive as it was sent");
}
