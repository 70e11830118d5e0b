//! How `libfreehold_recorder.so` is linked.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for argument in [
        // No start files: they would bring in code that runs at load time.
        "-nostartfiles",
        // The C library keeps pointers to the exit handlers of threads.
        "-Wl,-z,nodelete",
        // All calls bound at load time: no resolver runs inside malloc.
        "-Wl,-z,now",
        "-Wl,--no-undefined",
        "-Wl,-soname,libfreehold_recorder.so",
    ] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
}
