//! What a program allocates and never writes to takes no memory.

use crate::support::child::Child;
use crate::support::{compile, tools};

fn program(case: &str) -> Child {
    Child::new(compile::c("unwritten.c")).arg(case).freehold()
}

#[test]
fn a_program_of_several_threads_that_writes_to_nothing_is_not_made_resident_ahead() {
    // Where the thread that looks is forbidden, blocks are populated as if all were written to:
    // how many depends on how long the system takes for a huge page, which is longer where others
    // want the processors.
    let forbidden = || program("by threads").env("FREEHOLD_BACKGROUND", "0").run().succeeded();
    let populated = [(); 3].map(|()| forbidden().number("resident")).into_iter().max();
    let populated = populated.expect("there were three");
    if populated < 16 << 20 {
        return tools::skip("hardly a block is populated on this system");
    }
    // The thread may come late where others want the processors.
    let runs = [(); 3].map(|()| program("by threads").run().succeeded());
    let resident = runs.iter().map(|ended| ended.number("resident")).min();
    let resident = resident.expect("there were three");
    tools::say(&format!("{resident} bytes resident, {populated} if nobody looks"));
    let [ended, ..] = runs;
    ended.check(resident < populated / 2, "what is not written to was not to be resident");
}

#[test]
fn nobody_asks_what_is_resident_where_a_filter_ends_the_process_for_it() {
    program("where asking kills").run().succeeded();
    program("where asking kills from the start").run().succeeded();
}
