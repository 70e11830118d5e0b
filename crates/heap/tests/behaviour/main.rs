//! How the heap behaves, by what its callers can observe. One binary, a file for each subject.

mod draining;
mod exchanging;
mod faulting;
mod going_home;
mod handing_over;
mod hardened;
mod hot_medium;
mod hot_runs;
mod idle;
mod keeping;
mod large_runs;
mod many_threads;
mod one_thread;
mod parcels;
mod populating;
mod reclaiming;
mod releasing;
mod run_batches;
mod scavenging;
mod setting_aside;
mod sharing;
mod slab_purging;
mod sparse_runs;
mod support;
mod whole_slabs;
mod zeroing;
