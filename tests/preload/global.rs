//! The Rust interface: a program whose `#[global_allocator]` is Freehold.

use crate::support::child::Child;

#[test]
fn a_rust_program_with_freehold_linked_in_allocates_from_it() {
    let ended = Child::new(env!("CARGO_BIN_EXE_freehold-global")).run().succeeded();
    ended.check(ended.out() == "done\n", "it was to come to its end");
}

#[test]
fn linked_in_and_preloaded_freehold_can_be_in_one_process() {
    let program = env!("CARGO_BIN_EXE_freehold-global");
    let ended = Child::new(program).freehold().run().succeeded();
    ended.check(ended.out() == "done\n", "it was to come to its end");
}
