//! The models of classic allocators: slow as they may be, programs do under them what they do
//! without.

use std::path::PathBuf;

use super::{Scratch, script};
use crate::support::child::{Child, Ended};
use crate::support::library::workshop;
use crate::support::{compile, tools};

/// Each model, as a file.
fn models() -> impl Iterator<Item = (&'static str, PathBuf)> {
    freehold_embed::MODELS.iter().map(|(name, library)| {
        let path = library.lay_out_in(&workshop().join("library")).expect("it is laid out");
        (*name, path)
    })
}

/// Runs a program without and with every model. A library that could not be preloaded would be
/// named on standard error.
fn same_under_every_model(make: impl Fn() -> Child) {
    let plain = make().run().succeeded();
    for (name, path) in models() {
        let ended = make().preload(&path).run().succeeded();
        let is_same = |of: fn(&Ended) -> &Vec<u8>| of(&plain) == of(&ended);
        ended.check(is_same(|it| &it.stdout), &format!("{name}: another output than without it"));
        ended.check(is_same(|it| &it.stderr), &format!("{name}: other errors than without it"));
    }
}

#[test]
fn bash_forks_under_every_model_as_it_does_without() {
    let Some(bash) = tools::find("bash") else { return };
    same_under_every_model(|| Child::new(&bash).arg(script("forks.sh")));
}

#[test]
fn python_with_threads_runs_under_every_model_as_it_does_without() {
    let Some(python) = tools::find("python3") else { return };
    let scratch = Scratch::new();
    same_under_every_model(|| {
        let python = Child::new(&python).env("PYTHONMALLOC", "malloc").env("PYTHONHASHSEED", "0");
        scratch.dir_of(python.arg("-B").arg(script("threads.py")), &[])
    });
}

#[test]
fn every_model_withstands_the_stress_test() {
    const WORDS: [&str; 3] = ["8", "2", "1"];
    for (name, path) in models() {
        // The program asks for the operators of C++, which the models leave to its library.
        let ended = Child::new(env!("CARGO_BIN_EXE_freehold-stress"))
            .args(WORDS)
            .preload(&path)
            .preload("libstdc++.so.6".as_ref())
            .run()
            .succeeded();
        ended.check(ended.number("operations") > 0, &format!("{name}: it was to do something"));
        ended.check(ended.number("forks") > 0, &format!("{name}: it was to fork"));
    }
}

#[test]
fn fork_handlers_of_other_libraries_may_allocate_under_every_model() {
    let Some(bash) = tools::find("bash") else { return };
    let handlers = compile::c_library("fork_handlers.c");
    for (_, path) in models() {
        let forks = || Child::new(&bash).args(["-c", "echo $(echo forked)"]);
        for [first, second] in [[&path, &handlers], [&handlers, &path]] {
            let ended = forks().preload(first).preload(second).run().succeeded();
            ended.check(ended.out().trim() == "forked", "it was to fork");
        }
    }
}
