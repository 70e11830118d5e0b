//! Runs a program and makes system calls of a library in it fail: those that are made at one place
//! in the library's code, or all, the first time, the n-th, or every time.
//!
//! The program runs under a filter that stops it at every system call (`filter.rs`), and is traced
//! (`trace.rs`): a call that is made from within the library and is to fail is not made, and
//! returns the error instead. The library is as it was built, and so is everything else. The
//! program says by a system call of its own, [`plan::FAULTS_END`], when faults are to end.
//!
//! Usage: `freehold-faults LIBRARY PLACE WHICH ERRORS LIMIT PROGRAM [ARGUMENT]…`, where PLACE is
//! `none`, `any`, or a place in the form in which it says them; WHICH is `all` or a number; ERRORS
//! are numbers, separated by commas, that calls fail with in turn; LIMIT is the bytes of address
//! space that the program may have, or 0. Says where the library made which calls how often, and
//! how many failed, and ends as the program did.

#[cfg(target_arch = "x86_64")]
mod filter;
#[cfg(target_arch = "x86_64")]
mod library;
#[cfg(target_arch = "x86_64")]
mod plan;
#[cfg(target_arch = "x86_64")]
mod trace;

use std::process::ExitCode;

/// The status for what is wrong with the arguments or the machine.
const UNABLE: u8 = 2;

#[cfg(target_arch = "x86_64")]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [library, place, which, errors, limit, program, rest @ ..] = &arguments[..] else {
        eprintln!("usage: freehold-faults LIBRARY PLACE WHICH ERRORS LIMIT PROGRAM [ARGUMENT]...");
        return ExitCode::from(UNABLE);
    };
    let (Some(plan), Ok(limit)) = (plan::Plan::parse(place, which, errors), limit.parse()) else {
        eprintln!("freehold-faults: cannot make sense of {place} {which} {errors} {limit}");
        return ExitCode::from(UNABLE);
    };
    let mut command = std::process::Command::new(program);
    command.args(rest).env("LD_PRELOAD", library);
    filter::install_before(&mut command, limit);
    match trace::run(command, library, plan) {
        Ok((plan, status)) => {
            plan.say();
            status
        }
        Err(error) => {
            eprintln!("freehold-faults: {program}: {error}");
            ExitCode::from(UNABLE)
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn main() -> ExitCode {
    eprintln!("freehold-faults: system calls can be made to fail on x86-64 only");
    ExitCode::from(UNABLE)
}
