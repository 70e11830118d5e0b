/tmp/w/me/target2/preload/deps/freehold_rt-db7cec1c81daf5be.d: crates/rt/src/lib.rs crates/rt/src/background.rs crates/rt/src/chunk.rs crates/rt/src/emergency.rs crates/rt/src/exit.rs crates/rt/src/foreign.rs crates/rt/src/fork.rs crates/rt/src/libc.rs crates/rt/src/maps.rs crates/rt/src/note.rs crates/rt/src/process.rs crates/rt/src/report.rs crates/rt/src/slow.rs crates/rt/src/tls.rs

/tmp/w/me/target2/preload/deps/libfreehold_rt-db7cec1c81daf5be.rlib: crates/rt/src/lib.rs crates/rt/src/background.rs crates/rt/src/chunk.rs crates/rt/src/emergency.rs crates/rt/src/exit.rs crates/rt/src/foreign.rs crates/rt/src/fork.rs crates/rt/src/libc.rs crates/rt/src/maps.rs crates/rt/src/note.rs crates/rt/src/process.rs crates/rt/src/report.rs crates/rt/src/slow.rs crates/rt/src/tls.rs

/tmp/w/me/target2/preload/deps/libfreehold_rt-db7cec1c81daf5be.rmeta: crates/rt/src/lib.rs crates/rt/src/background.rs crates/rt/src/chunk.rs crates/rt/src/emergency.rs crates/rt/src/exit.rs crates/rt/src/foreign.rs crates/rt/src/fork.rs crates/rt/src/libc.rs crates/rt/src/maps.rs crates/rt/src/note.rs crates/rt/src/process.rs crates/rt/src/report.rs crates/rt/src/slow.rs crates/rt/src/tls.rs

crates/rt/src/lib.rs:
crates/rt/src/background.rs:
crates/rt/src/chunk.rs:
crates/rt/src/emergency.rs:
crates/rt/src/exit.rs:
crates/rt/src/foreign.rs:
crates/rt/src/fork.rs:
crates/rt/src/libc.rs:
crates/rt/src/maps.rs:
crates/rt/src/note.rs:
crates/rt/src/process.rs:
crates/rt/src/report.rs:
crates/rt/src/slow.rs:
crates/rt/src/tls.rs:

# env-dep:CARGO_PKG_VERSION=0.1.0
# env-dep:CARGO_PKG_VERSION_MAJOR=0
# env-dep:CARGO_PKG_VERSION_MINOR=1
# env-dep:CARGO_PKG_VERSION_PATCH=0
