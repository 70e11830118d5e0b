//! When to look for dirty granules elsewhere, before clean ones are touched.

/// Claims of nothing but clean granules that a heap makes before it looks: two cost some sixteen
/// page faults, more than most searches.
pub const CLEAN_BETWEEN_LOOKS: u32 = 2;
