//! How libfreehold.so is linked.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for script in ["near.ld", "together.ld", "apart.ld"] {
        println!("cargo:rerun-if-changed={script}");
    }
    println!("cargo:rerun-if-env-changed=RUSTC_LINKER");
    let version = env::var("CARGO_PKG_VERSION_MAJOR").expect("cargo sets it");
    for argument in [
        // No start files: they would bring in code that runs at load time and needs more of libc.
        "-nostartfiles".to_owned(),
        // The C library keeps pointers to the exit and fork handlers.
        "-Wl,-z,nodelete".to_owned(),
        // So `freehold-rt` has nothing to ask the loader for, and the loader nothing to look for.
        "-Wl,--defsym=dlsym=0".to_owned(),
        // All calls bound at load time: no resolver runs inside malloc.
        "-Wl,-z,now".to_owned(),
        // Before other libraries' constructors: the fork handlers must be registered first.
        "-Wl,-z,initfirst".to_owned(),
        "-Wl,--no-undefined".to_owned(),
        format!("-Wl,-soname,libfreehold.so.{version}"),
    ] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
    if env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|it| it == "gnu") {
        let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
        assert!(
            !flags.contains("fuse-ld=gold"),
            "gold also redirects what `src/older.rs` refers to, to itself, so that the first call \
             of malloc would never end: link with lld, GNU ld or mold (leave -fuse-ld=gold out)"
        );
        // Older C libraries have these elsewhere, or not at all: `src/older.rs` finds them.
        for symbol in ["pthread_key_create", "pthread_setspecific", "__register_atfork"] {
            println!("cargo:rustc-cdylib-link-arg=-Wl,--wrap={symbol}");
        }
        link_without_version("__libc_single_threaded");
    }
    // Not every linker can be told where what stands: mold cannot. Without, the library works as
    // well, and more of it is resident.
    let segments = ["-Wl,--no-rosegment", "-Wl,-z,separate-loadable-segments"];
    let layouts: [(&str, &[&str]); 2] = [("together.ld", &segments), ("apart.ld", &[])];
    let layouts = layouts.map(|(script, others)| {
        let order = format!("-Wl,-T,{}", with_functions(script).display());
        let others = others.iter().map(|&other| other.to_owned());
        others.chain([order]).collect::<Vec<_>>()
    });
    if let Some(arguments) = layouts.iter().find(|arguments| links_with(arguments)) {
        for argument in arguments {
            println!("cargo:rustc-cdylib-link-arg={argument}");
        }
    }
}

/// Makes a script for the linker: one of those beside this file, with the functions of `near.ld` in
/// their place.
fn with_functions(script: &str) -> PathBuf {
    let beside = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let read = |name| fs::read_to_string(beside.join(name)).expect("it stands beside build.rs");
    let place = out_dir().join(script);
    let complete = read(script).replace("@near.ld@", &read("near.ld"));
    fs::write(&place, complete).expect("cargo has made the directory");
    place
}

/// Whether the linker that the library will be linked with takes these arguments: by linking
/// another library with them, of one function.
fn links_with(arguments: &[String]) -> bool {
    links("probe", "#[unsafe(no_mangle)]\npub extern \"C\" fn probe() {}\n", arguments)
}

/// Has the C library's variable of that name linked without its version, which older ones have not:
/// by a library that stands before it, has one without, and is not needed, since the reference is
/// weak. (So no part of this package names the C library: it comes with `freehold-rt`, after this.)
fn link_without_version(variable: &str) {
    let source = format!("#[unsafe(no_mangle)]\npub static {variable}: u8 = 0;\n");
    if links("unversioned", &source, &[]) {
        println!("cargo:rustc-link-search=native={}", out_dir().display());
        println!("cargo:rustc-link-lib=dylib=unversioned");
    }
}

fn out_dir() -> PathBuf {
    PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"))
}

/// Links a shared library of that name, by the linker that this one will be linked with.
fn links(name: &str, items: &str, arguments: &[String]) -> bool {
    let source = out_dir().join(format!("{name}.rs"));
    let complete = format!(
        "#![no_std]\n#![allow(non_upper_case_globals)]\n#[panic_handler]\n\
         fn panic(_: &core::panic::PanicInfo) -> ! {{ loop {{}} }}\n{items}"
    );
    if fs::write(&source, complete).is_err() {
        return false;
    }
    let mut rustc = Command::new(env::var_os("RUSTC").expect("cargo sets it"));
    rustc.args(["--edition", "2024", "--crate-type", "cdylib", "--crate-name", name]);
    rustc.args(["-C", "panic=abort", "-C", "link-arg=-nostartfiles", "--target"]);
    rustc.arg(env::var_os("TARGET").expect("cargo sets it"));
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut option = OsString::from("linker=");
        option.push(linker);
        rustc.arg("-C").arg(option);
    }
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    rustc.args(flags.split('\x1f').filter(|flag| !flag.is_empty()));
    for argument in arguments {
        rustc.arg("-C").arg(format!("link-arg={argument}"));
    }
    rustc.arg("-o").arg(out_dir().join(format!("lib{name}.so"))).arg(source);
    rustc.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    rustc.status().is_ok_and(|status| status.success())
}
