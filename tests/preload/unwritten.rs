//! What a program allocates and never writes to takes no memory.

use crate::support::child::Child;
use crate::support::{compile, tools};

fn program(case: &str) -> Child {
    Child::new(compile::c("unwritten.c")).arg(case).freehold()
}

#[test]
fn a_program_of_several_threads_that_writes_to_nothing_is_not_made_resident_ahead() {
    // Where the thread that looks is forbidden, blocks are populated as if all were written to:
    // how many depends on how long the system takes for a huge page.
    let forbidden = program("by threads").env("FREEHOLD_BACKGROUND", "0").run().succeeded();
    let populated = forbidden.number("resident");
    if populated < 16 << 20 {
        return tools::skip("hardly a block is populated on this system");
    }
    // The thread may come late where others want the processors: one run in which it does not will
    // do.
    let mut ended = program("by threads").run().succeeded();
    for _ in 0..9 {
        if ended.number("resident") < populated / 2 {
            break;
        }
        ended = program("by threads").run().succeeded();
    }
    let resident = ended.number("resident");
    tools::say(&format!("{resident} bytes resident, {populated} if nobody looks"));
    ended.check(resident < populated / 2, "what is not written to was not to be resident");
}

#[test]
fn nobody_asks_what_is_resident_where_a_filter_ends_the_process_for_it() {
    program("where asking kills").run().succeeded();
}
