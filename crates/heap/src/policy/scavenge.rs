//! When to look for dirty granules elsewhere, before clean ones are touched.

/// Clean granules that a heap claims before it looks: so many that the page faults they cost
/// outweigh the search by far.
pub const CLEAN_BETWEEN_LOOKS: u32 = 16;
