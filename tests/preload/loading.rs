//! H4, H6: the library is loaded into a process that runs already, where there is little room for
//! thread-local storage, and closed; alone, and as a part of a plugin.

use std::path::{Path, PathBuf};

use crate::support::child::{Child, Ended};
use crate::support::{compile, library};

const ONE_TOO_MANY: usize = 40;

#[test]
fn a_library_that_is_opened_late_serves_old_and_new_threads_and_stays_when_closed() {
    Child::new(compile::c("dlopen.c")).arg(library::shared()).arg("50").run().succeeded();
}

/// Libraries with thread-local storage of the kind that takes room from the same place as ours.
fn crowd(bytes: u32) -> Vec<PathBuf> {
    let size = format!("-DTLS_BYTES={bytes}");
    // Each must be a file of its own, or it would be opened once only.
    let member = |n| compile::c_library_with("tls_crowd.c", &[&size, &format!("-DMEMBER={n}")]);
    (0..ONE_TOO_MANY).map(member).collect()
}

fn open(libraries: &[PathBuf]) -> Child {
    Child::new(compile::c("dlopen_crowd.c")).args(libraries)
}

fn is_opened(ended: &Ended) -> bool {
    ended.out().contains("freehold: opened\n")
}

#[test]
fn the_library_finds_room_after_40_others_with_a_little_storage() {
    let libraries = [crowd(16), vec![library::shared().into()]].concat();
    let ended = open(&libraries).run().succeeded();
    ended.check(is_opened(&ended), "it was to be opened");
}

#[test]
fn the_library_finds_room_where_the_c_library_sets_nothing_aside() {
    let ended = open(&[library::shared().into()])
        .env("GLIBC_TUNABLES", "glibc.rtld.optional_static_tls=0")
        .run()
        .succeeded();
    ended.check(is_opened(&ended), "it was to be opened");
}

#[test]
fn the_library_leaves_room_for_others() {
    let libraries = [vec![library::shared().into()], crowd(16)].concat();
    let ended = open(&libraries).run().succeeded();
    ended.check(is_opened(&ended), "it was to be opened");
    ended.check(ended.number("opened") as usize == 1 + ONE_TOO_MANY, "so were all others");
}

#[test]
fn where_others_have_taken_all_room_opening_fails_with_the_reason() {
    let libraries = [crowd(64), vec![library::shared().into()]].concat();
    let ended = open(&libraries).run().succeeded();
    ended.check((ended.number("opened") as usize) < ONE_TOO_MANY, "there was to be no room left");
    let reason = ended.value("reason");
    let name = library::shared().to_string_lossy().into_owned();
    ended.check(!is_opened(&ended) && reason.contains(&name), "it was to be refused");
    ended.check(reason.contains("static TLS"), "the reason was to be the lack of room");
}

/// Closes a plugin that has Freehold in it, while what that has arranged is still to come.
fn is_closed_and_stays(plugin: &Path) {
    for case in ["thread_exit", "fork", "idle"] {
        let ended = Child::new(compile::c("unload.c")).arg(case).arg(plugin).run().succeeded();
        ended.check(ended.out() == "done\n", "it was to come to its end");
    }
}

#[test]
fn a_plugin_in_rust_with_freehold_in_it_stays_when_closed() {
    is_closed_and_stays(&library::plugin());
}

#[test]
fn a_plugin_in_c_with_the_archive_in_it_stays_when_closed() {
    let archive = library::archive();
    let archive = archive.to_str().expect("a path in UTF-8");
    let arguments = [archive, "-Wl,--exclude-libs,ALL"];
    is_closed_and_stays(&compile::c_library_with("plugin_with_freehold.c", &arguments));
}
