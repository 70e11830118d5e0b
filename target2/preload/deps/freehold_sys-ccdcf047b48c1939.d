/tmp/w/me/target2/preload/deps/freehold_sys-ccdcf047b48c1939.d: crates/sys/src/lib.rs crates/sys/src/environment.rs crates/sys/src/exceptions.rs crates/sys/src/futex.rs crates/sys/src/linux.rs crates/sys/src/process.rs crates/sys/src/shared.rs crates/sys/src/stderr.rs crates/sys/src/syscall.rs crates/sys/src/system.rs crates/sys/src/thread.rs crates/sys/src/tls.rs crates/sys/src/weak.rs

/tmp/w/me/target2/preload/deps/libfreehold_sys-ccdcf047b48c1939.rlib: crates/sys/src/lib.rs crates/sys/src/environment.rs crates/sys/src/exceptions.rs crates/sys/src/futex.rs crates/sys/src/linux.rs crates/sys/src/process.rs crates/sys/src/shared.rs crates/sys/src/stderr.rs crates/sys/src/syscall.rs crates/sys/src/system.rs crates/sys/src/thread.rs crates/sys/src/tls.rs crates/sys/src/weak.rs

/tmp/w/me/target2/preload/deps/libfreehold_sys-ccdcf047b48c1939.rmeta: crates/sys/src/lib.rs crates/sys/src/environment.rs crates/sys/src/exceptions.rs crates/sys/src/futex.rs crates/sys/src/linux.rs crates/sys/src/process.rs crates/sys/src/shared.rs crates/sys/src/stderr.rs crates/sys/src/syscall.rs crates/sys/src/system.rs crates/sys/src/thread.rs crates/sys/src/tls.rs crates/sys/src/weak.rs

crates/sys/src/lib.rs:
crates/sys/src/environment.rs:
crates/sys/src/exceptions.rs:
crates/sys/src/futex.rs:
crates/sys/src/linux.rs:
crates/sys/src/process.rs:
crates/sys/src/shared.rs:
crates/sys/src/stderr.rs:
crates/sys/src/syscall.rs:
crates/sys/src/system.rs:
crates/sys/src/thread.rs:
crates/sys/src/tls.rs:
crates/sys/src/weak.rs:
