//! The patterns, one file each.

pub(crate) mod burst;
pub(crate) mod handover;
pub(crate) mod lifetimes;
pub(crate) mod phases;
pub(crate) mod producer_consumer;
pub(crate) mod round_robin;
