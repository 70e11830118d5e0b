//! What all tests use: finding the library, compiling the programs, running them, skipping.

pub(crate) mod calls;
pub(crate) mod child;
pub(crate) mod compile;
pub(crate) mod cpio;
pub(crate) mod cross;
pub(crate) mod library;
pub(crate) mod machine;
pub(crate) mod seed;
pub(crate) mod tools;
pub(crate) mod witness;
