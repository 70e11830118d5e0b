//! Refuses to be built for machines that Freehold has no code for, before the compiler runs into
//! what is missing.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
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
