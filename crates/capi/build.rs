//! How libfreehold.so is linked.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let version = std::env::var("CARGO_PKG_VERSION_MAJOR").expect("cargo sets it");
    for argument in [
        // No start files: they would bring in code that runs at load time and needs more of libc.
        "-nostartfiles".to_owned(),
        // The C library keeps pointers to the exit and fork handlers.
        "-Wl,-z,nodelete".to_owned(),
        // All calls bound at load time: no resolver runs inside malloc.
        "-Wl,-z,now".to_owned(),
        // Before other libraries' constructors: the fork handlers must be registered first.
        "-Wl,-z,initfirst".to_owned(),
        "-Wl,--no-undefined".to_owned(),
        format!("-Wl,-soname,libfreehold.so.{version}"),
    ] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
    if std::env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|it| it == "gnu") {
        // Older C libraries have these elsewhere, or not at all: `src/older.rs` finds them.
        for symbol in ["pthread_key_create", "pthread_setspecific", "__register_atfork"] {
            println!("cargo:rustc-cdylib-link-arg=-Wl,--wrap={symbol}");
        }
    }
}
