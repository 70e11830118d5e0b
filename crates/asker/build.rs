//! How `libfreehold_asker.so` is linked.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for argument in [
        // No start files: they would bring in code that runs at load time.
        "-nostartfiles",
        // A thread of the library runs for as long as the process.
        "-Wl,-z,nodelete",
        // All calls bound at load time: no resolver runs while something is asked.
        "-Wl,-z,now",
        "-Wl,--no-undefined",
        "-Wl,-soname,libfreehold_asker.so",
    ] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
}
