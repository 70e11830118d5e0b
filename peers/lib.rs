//! Nothing: this package is its list of dependencies, which are never compiled either. What they
//! carry is built by `cargo xtask peers`.
