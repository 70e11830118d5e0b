/tmp/w/me/target2/preload/deps/freehold_heap-c6755f6f2cf5f83f.d: crates/heap/src/lib.rs crates/heap/src/arena.rs crates/heap/src/blocks.rs crates/heap/src/cache.rs crates/heap/src/check.rs crates/heap/src/class.rs crates/heap/src/depot.rs crates/heap/src/direct.rs crates/heap/src/free.rs crates/heap/src/heap.rs crates/heap/src/invalid.rs crates/heap/src/layout.rs crates/heap/src/lease.rs crates/heap/src/magazine.rs crates/heap/src/medium.rs crates/heap/src/outbox.rs crates/heap/src/parcel.rs crates/heap/src/policy/mod.rs crates/heap/src/policy/grow.rs crates/heap/src/policy/populate.rs crates/heap/src/policy/purge.rs crates/heap/src/policy/retain.rs crates/heap/src/policy/scavenge.rs crates/heap/src/pool.rs crates/heap/src/populate.rs crates/heap/src/purge.rs crates/heap/src/resize.rs crates/heap/src/runs.rs crates/heap/src/scavenge.rs crates/heap/src/slab.rs crates/heap/src/stock.rs crates/heap/src/tables.rs crates/heap/src/take.rs crates/heap/src/tally.rs crates/heap/src/usage.rs

/tmp/w/me/target2/preload/deps/libfreehold_heap-c6755f6f2cf5f83f.rlib: crates/heap/src/lib.rs crates/heap/src/arena.rs crates/heap/src/blocks.rs crates/heap/src/cache.rs crates/heap/src/check.rs crates/heap/src/class.rs crates/heap/src/depot.rs crates/heap/src/direct.rs crates/heap/src/free.rs crates/heap/src/heap.rs crates/heap/src/invalid.rs crates/heap/src/layout.rs crates/heap/src/lease.rs crates/heap/src/magazine.rs crates/heap/src/medium.rs crates/heap/src/outbox.rs crates/heap/src/parcel.rs crates/heap/src/policy/mod.rs crates/heap/src/policy/grow.rs crates/heap/src/policy/populate.rs crates/heap/src/policy/purge.rs crates/heap/src/policy/retain.rs crates/heap/src/policy/scavenge.rs crates/heap/src/pool.rs crates/heap/src/populate.rs crates/heap/src/purge.rs crates/heap/src/resize.rs crates/heap/src/runs.rs crates/heap/src/scavenge.rs crates/heap/src/slab.rs crates/heap/src/stock.rs crates/heap/src/tables.rs crates/heap/src/take.rs crates/heap/src/tally.rs crates/heap/src/usage.rs

/tmp/w/me/target2/preload/deps/libfreehold_heap-c6755f6f2cf5f83f.rmeta: crates/heap/src/lib.rs crates/heap/src/arena.rs crates/heap/src/blocks.rs crates/heap/src/cache.rs crates/heap/src/check.rs crates/heap/src/class.rs crates/heap/src/depot.rs crates/heap/src/direct.rs crates/heap/src/free.rs crates/heap/src/heap.rs crates/heap/src/invalid.rs crates/heap/src/layout.rs crates/heap/src/lease.rs crates/heap/src/magazine.rs crates/heap/src/medium.rs crates/heap/src/outbox.rs crates/heap/src/parcel.rs crates/heap/src/policy/mod.rs crates/heap/src/policy/grow.rs crates/heap/src/policy/populate.rs crates/heap/src/policy/purge.rs crates/heap/src/policy/retain.rs crates/heap/src/policy/scavenge.rs crates/heap/src/pool.rs crates/heap/src/populate.rs crates/heap/src/purge.rs crates/heap/src/resize.rs crates/heap/src/runs.rs crates/heap/src/scavenge.rs crates/heap/src/slab.rs crates/heap/src/stock.rs crates/heap/src/tables.rs crates/heap/src/take.rs crates/heap/src/tally.rs crates/heap/src/usage.rs

crates/heap/src/lib.rs:
crates/heap/src/arena.rs:
crates/heap/src/blocks.rs:
crates/heap/src/cache.rs:
crates/heap/src/check.rs:
crates/heap/src/class.rs:
crates/heap/src/depot.rs:
crates/heap/src/direct.rs:
crates/heap/src/free.rs:
crates/heap/src/heap.rs:
crates/heap/src/invalid.rs:
crates/heap/src/layout.rs:
crates/heap/src/lease.rs:
crates/heap/src/magazine.rs:
crates/heap/src/medium.rs:
crates/heap/src/outbox.rs:
crates/heap/src/parcel.rs:
crates/heap/src/policy/mod.rs:
crates/heap/src/policy/grow.rs:
crates/heap/src/policy/populate.rs:
crates/heap/src/policy/purge.rs:
crates/heap/src/policy/retain.rs:
crates/heap/src/policy/scavenge.rs:
crates/heap/src/pool.rs:
crates/heap/src/populate.rs:
crates/heap/src/purge.rs:
crates/heap/src/resize.rs:
crates/heap/src/runs.rs:
crates/heap/src/scavenge.rs:
crates/heap/src/slab.rs:
crates/heap/src/stock.rs:
crates/heap/src/tables.rs:
crates/heap/src/take.rs:
crates/heap/src/tally.rs:
crates/heap/src/usage.rs:
