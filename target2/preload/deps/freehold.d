/tmp/w/me/target2/preload/deps/freehold.d: crates/capi/src/lib.rs crates/capi/src/control.rs crates/capi/src/cxx.rs crates/capi/src/errno.rs crates/capi/src/extend.rs crates/capi/src/malloc.rs crates/capi/src/posix.rs

/tmp/w/me/target2/preload/deps/libfreehold.so: crates/capi/src/lib.rs crates/capi/src/control.rs crates/capi/src/cxx.rs crates/capi/src/errno.rs crates/capi/src/extend.rs crates/capi/src/malloc.rs crates/capi/src/posix.rs

/tmp/w/me/target2/preload/deps/libfreehold.a: crates/capi/src/lib.rs crates/capi/src/control.rs crates/capi/src/cxx.rs crates/capi/src/errno.rs crates/capi/src/extend.rs crates/capi/src/malloc.rs crates/capi/src/posix.rs

crates/capi/src/lib.rs:
crates/capi/src/control.rs:
crates/capi/src/cxx.rs:
crates/capi/src/errno.rs:
crates/capi/src/extend.rs:
crates/capi/src/malloc.rs:
crates/capi/src/posix.rs:

# env-dep:CARGO_PKG_VERSION=0.1.0
# env-dep:CARGO_PKG_VERSION_MAJOR=0
# env-dep:CARGO_PKG_VERSION_MINOR=1
# env-dep:CARGO_PKG_VERSION_PATCH=0
