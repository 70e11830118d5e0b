//! perl, whose threads each clone all data.

use super::script;
use crate::support::child::Child;
use crate::support::tools;
use crate::support::witness::same_with_and_without;

#[test]
fn perl_with_forks_and_threads() {
    let Some(perl) = tools::find("perl") else { return };
    // Without a seed of its own for every run, in which keys would come in another order.
    let make = || Child::new(&perl).env("PERL_HASH_SEED", "0").arg(script("perl.pl"));
    same_with_and_without(&["perl"], make);
}
