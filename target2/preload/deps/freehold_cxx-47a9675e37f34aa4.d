/tmp/w/me/target2/preload/deps/freehold_cxx-47a9675e37f34aa4.d: crates/cxx/src/lib.rs

/tmp/w/me/target2/preload/deps/libfreehold_cxx-47a9675e37f34aa4.rlib: crates/cxx/src/lib.rs

/tmp/w/me/target2/preload/deps/libfreehold_cxx-47a9675e37f34aa4.rmeta: crates/cxx/src/lib.rs

crates/cxx/src/lib.rs:
