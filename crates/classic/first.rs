//! The build script of each library in `libraries`: how it is linked.

fn main() {
    println!("cargo:rerun-if-changed=../../first.rs");
    // The loader has it begin before other libraries: what those have called before a fork may
    // allocate, and is called before the locks are taken only if it was registered later.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,initfirst");
}
