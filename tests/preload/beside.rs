//! H9, H18, H19, H25, H26: what is in the process beside Freehold: a malloc of the program's own,
//! tools that replace malloc to watch it, other preloaded libraries, and other kinds of programs.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::support::child::{Child, Ended};
use crate::support::{compile, tools};

#[test]
fn a_program_with_a_malloc_of_its_own_keeps_to_it() {
    Child::new(compile::c_with("own_malloc.c", &["-rdynamic"])).freehold().run().succeeded();
}

#[test]
fn a_static_program_that_a_preloaded_shell_starts_is_left_alone() {
    let program = compile::c_with("watched.c", &["-static"]);
    let ended = Child::new("sh").args(["-c", "\"$0\"; exit $?"]).arg(program).freehold().run();
    let ended = ended.succeeded();
    ended.check(ended.err().is_empty(), "nothing was to be said");
}

/// A copy of a program that gets root's rights from whoever starts it; `None` where that cannot be
/// made.
fn set_user_id(program: &Path) -> Option<(tempfile::TempDir, PathBuf)> {
    let directory = tempfile::tempdir().expect("a directory");
    let copy = directory.path().join("program");
    let everybody = Permissions::from_mode(0o755);
    fs::set_permissions(directory.path(), everybody).expect("it is this user's");
    fs::copy(program, &copy).expect("there is room");
    fs::set_permissions(&copy, Permissions::from_mode(0o4755)).expect("it is this user's");
    let is_roots = fs::metadata(&copy).expect("it is there").uid() == 0;
    is_roots.then_some((directory, copy))
}

#[test]
fn a_set_user_id_program_is_left_alone() {
    let program = compile::c("set_user_id.c");
    let Some(setpriv) = tools::find("setpriv") else { return };
    let Some((_directory, copy)) = set_user_id(&program) else {
        return tools::skip("only root can make programs that give root's rights");
    };
    let ended = Child::new(setpriv)
        .args(["--reuid=65534", "--clear-groups"])
        .arg(copy)
        .env("FREEHOLD_HARDEN", "1")
        .freehold()
        .run()
        .succeeded();
    if ended.number("gained") == 0 {
        return tools::skip("no rights are given where temporary files are (nosuid)");
    }
    ended.check(ended.number("secure") == 1, "it was to be started with care");
    ended.check(ended.number("served") == 0, "it was to have the C library's malloc");
    let plain = Child::new(program).freehold().run().succeeded();
    plain.check(plain.number("served") == 1, "the same program without rights was to be served");
}

/// A program in which a sanitizer stands, which replaces malloc within the program itself: its
/// own, not a shared library's, comes before any preloaded one.
fn sanitized(sanitizer: &str, argument: &str) -> Option<Ended> {
    let (library, option) = match sanitizer {
        "address" => ("libasan.a", "-static-libasan"),
        "thread" => ("libtsan.a", "-static-libtsan"),
        _ => ("libubsan.a", "-static-libubsan"),
    };
    of_the_compiler(library)?;
    let flag = format!("-fsanitize={sanitizer}");
    let program = compile::c_with("watched.c", &[&flag, option]);
    Some(Child::new(program).arg(argument).freehold().run())
}

/// A library of the compiler's own, if it is installed.
fn of_the_compiler(name: &str) -> Option<PathBuf> {
    let option = format!("-print-file-name={name}");
    let said = Child::new("cc").arg(option).run().succeeded().out();
    let path = Path::new(said.trim()).canonicalize().ok();
    if path.is_none() {
        tools::skip(&format!("the compiler has no {name}"));
    }
    path
}

#[test]
fn a_program_with_a_sanitizer_inside_runs_as_without_freehold() {
    for sanitizer in ["address", "thread", "undefined"] {
        let Some(ended) = sanitized(sanitizer, "") else { return };
        let ended = ended.succeeded();
        ended.check(ended.out() == "done\n" && ended.err().is_empty(), "nothing was to be found");
    }
}

#[test]
fn a_sanitizer_inside_a_program_finds_what_it_finds_without_freehold() {
    for sanitizer in ["address", "thread"] {
        let Some(ended) = sanitized(sanitizer, "wrong") else { return };
        ended.check(ended.err().contains("heap-use-after-free"), "it was to be found");
    }
}

#[test]
fn a_sanitizers_library_may_be_preloaded_first() {
    let Some(sanitizer) = of_the_compiler("libasan.so") else { return };
    let program = compile::c_with("watched.c", &["-fsanitize=address"]);
    let run = |argument| Child::new(&program).arg(argument).preload(&sanitizer).freehold().run();
    run("").succeeded();
    let found = run("wrong");
    found.check(found.err().contains("heap-use-after-free"), "it was to be found");
}

#[test]
fn valgrind_watches_a_program_under_freehold_as_without_it() {
    let Some(valgrind) = tools::find("valgrind") else { return };
    let watched = |argument: &str| {
        Child::new(&valgrind)
            .args(["--error-exitcode=9", "--leak-check=full", "--show-mismatched-frees=no"])
            .arg(compile::c("watched.c"))
            .arg(argument)
            .freehold()
            .run()
    };
    let ended = watched("").succeeded();
    ended.check(ended.err().contains("All heap blocks were freed"), "it was to know all blocks");
    let wrong = watched("wrong");
    wrong.check(wrong.status.code() == Some(9), "the error was to be found");
    wrong.check(wrong.err().contains("inside a block of size 10 free'd"), "and to be explained");
}

/// Libraries that people preload, as packages of Debian have them.
const COMPANIONS: [&str; 3] =
    ["libeatmydata.so", "faketime/libfaketime.so.1", "torsocks/libtorsocks.so"];

/// Other allocators: behind Freehold they have nothing to do. Before it they leave it the functions
/// that they lack, which must then work on their blocks.
const ALLOCATORS: [&str; 4] =
    ["libjemalloc.so.2", "libmimalloc.so.2", "libtbbmalloc_proxy.so.2", "libtcmalloc_minimal.so.4"];

/// Where a companion is, if it is installed.
fn companion(name: &str) -> Option<PathBuf> {
    let directories = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib"];
    let found = directories.map(|own| Path::new(own).join(name)).into_iter().find(|it| it.exists());
    if found.is_none() {
        tools::skip(&format!("{name} is not installed"));
    }
    found
}

/// The program writes the same with other libraries before Freehold and behind it as with none.
fn same_with_companions(make: impl Fn() -> Child) {
    let alone = make().run().succeeded();
    let same = |companion: &Path, ended: Ended| {
        let wanted = format!("with {} it was to be the same", companion.display());
        ended.check(ended.status.success() && ended.stdout == alone.stdout, &wanted);
    };
    for companion in COMPANIONS.into_iter().filter_map(companion) {
        same(&companion, make().preload(&companion).freehold().run());
        same(&companion, make().freehold().preload(&companion).run());
    }
    for allocator in ALLOCATORS.into_iter().filter_map(companion) {
        same(&allocator, make().freehold().preload(&allocator).run());
        same(&allocator, make().preload(&allocator).freehold().run());
    }
}

#[test]
fn other_preloaded_libraries_may_come_before_or_after() {
    let Some(bash) = tools::find("bash") else { return };
    // No forked shells: libfaketime removes its semaphore when one exits, and fails now and then
    // when another process starts at that moment (also by itself, without Freehold).
    let script = "for i in 1 2 3; do sort <<< $i; x=$(seq 1000); echo ${#x}; done";
    same_with_companions(|| Child::new(&bash).args(["-c", script]));
}

#[test]
fn other_preloaded_libraries_may_come_before_or_after_in_programs_with_threads() {
    let Some(python) = tools::find("python3") else { return };
    let script = "import threading, json\n\
                  def work(): json.loads(json.dumps(list(range(20000))))\n\
                  all = [threading.Thread(target=work) for _ in range(4)]\n\
                  [it.start() for it in all]; [it.join() for it in all]; print('done')";
    same_with_companions(|| Child::new(&python).args(["-c", script]));
}
