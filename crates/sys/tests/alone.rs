//! Whether a thread is the only one of its process: a program of its own, since those of the test
//! harness never are.

use freehold_sys::alone;
use freehold_sys::thread::Room;
use std::process::Command;
use std::{env, thread};

/// Set for the process that makes a thread of the library's own.
const OWN: &str = "FREEHOLD_TEST_OWN_THREAD";

static ROOM: Room = Room::new();

extern "C" fn wait() {
    while !ROOM.sleep(1000) {}
}

fn main() {
    let known = cfg!(target_env = "gnu");
    if known && !alone::is_alone() {
        println!("skipped: this C library does not say how many threads there are");
        return;
    }
    assert_eq!(alone::is_alone(), known, "nowhere else");
    if env::var_os(OWN).is_some() {
        // SAFETY: the body makes system calls only.
        assert!(unsafe { ROOM.start(wait) });
        assert!(!alone::is_alone(), "beside a thread of the library's own");
        ROOM.empty();
        assert!(!alone::is_alone(), "there may be one again at any time");
        return;
    }
    let own = Command::new(env::current_exe().unwrap()).env(OWN, "1").status().unwrap();
    assert!(own.success());
    let of_other = thread::spawn(alone::is_alone).join().unwrap();
    assert!(!of_other && !alone::is_alone(), "of two threads");
    println!("one thread is alone, and of two none");
}
