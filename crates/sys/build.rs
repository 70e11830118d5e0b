//! Refuses to be built for machines that Freehold has no code for, before the compiler runs into
//! what is missing. The crates that depend on no other have it.

use std::env;

fn main() {
    // It depends on nothing but the target: on a file only so as not to run each time.
    println!("cargo::rerun-if-changed=Cargo.toml");
    let target = |what: &str| env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
    let is_known = matches!(&*target("ARCH"), "x86_64" | "aarch64");
    let is_linux = target("OS") == "linux";
    if !(is_known && is_linux && target("ENDIAN") == "little" && target("POINTER_WIDTH") == "64") {
        println!(
            "cargo::error=Freehold is for Linux on x86-64 and aarch64, with pointers of 64 bits \
             and the lowest byte first; {} is not that",
            env::var("TARGET").unwrap_or_default()
        );
    }
}
