//! What other suites ask of the usual mode, asked of hardened mode (`FREEHOLD_HARDEN=1`). Where it
//! has bounds of its own, they are stated there, and in `docs/hardening.md`.

use crate::support::child::Child;
use crate::support::compile;
use crate::{blowup, differential, limits};

#[test]
fn in_hardened_mode_memory_is_bounded_in_every_pattern() {
    blowup::is_bounded_in_hardened_mode();
}

#[test]
fn in_hardened_mode_random_calls_have_the_same_outcome_as_under_glibcs_malloc() {
    differential::have_the_same_outcome_in_hardened_mode();
}

#[test]
fn in_hardened_mode_memory_ends_with_enomem_at_a_limit_and_can_be_had_again() {
    limits::are_kept_in_hardened_mode();
}

#[test]
fn in_hardened_mode_objects_go_back_when_memory_is_trimmed_and_the_largest_before() {
    let program = Child::new(compile::c("extensions.c")).arg("trim_lowers_rss");
    program.env("FREEHOLD_HARDEN", "1").freehold().run().succeeded();
}
