/tmp/w/me/target2/preload/deps/freehold_sync-b5653874f1f9ea05.d: crates/sync/src/lib.rs crates/sync/src/atomic.rs crates/sync/src/freed.rs crates/sync/src/granules.rs crates/sync/src/inbox.rs crates/sync/src/lock.rs crates/sync/src/stack.rs crates/sync/src/word.rs

/tmp/w/me/target2/preload/deps/libfreehold_sync-b5653874f1f9ea05.rlib: crates/sync/src/lib.rs crates/sync/src/atomic.rs crates/sync/src/freed.rs crates/sync/src/granules.rs crates/sync/src/inbox.rs crates/sync/src/lock.rs crates/sync/src/stack.rs crates/sync/src/word.rs

/tmp/w/me/target2/preload/deps/libfreehold_sync-b5653874f1f9ea05.rmeta: crates/sync/src/lib.rs crates/sync/src/atomic.rs crates/sync/src/freed.rs crates/sync/src/granules.rs crates/sync/src/inbox.rs crates/sync/src/lock.rs crates/sync/src/stack.rs crates/sync/src/word.rs

crates/sync/src/lib.rs:
crates/sync/src/atomic.rs:
crates/sync/src/freed.rs:
crates/sync/src/granules.rs:
crates/sync/src/inbox.rs:
crates/sync/src/lock.rs:
crates/sync/src/stack.rs:
crates/sync/src/word.rs:
