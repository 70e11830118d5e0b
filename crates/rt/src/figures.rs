//! The signpost to the figures of this process, for those who look at it from outside. It is
//! written once and never read here.

use freehold_heap::arena::Arena;
use freehold_stats::SIGNPOST_BYTES;
use freehold_sync::atomic::{AtomicU64, Ordering};
use freehold_sys::Linux;

/// Its words; all zero before there is an arena. With the version of the library in its name, two
/// versions can be linked into one program.
#[unsafe(export_name = concat!(
    "freehold_figures_3_",
    env!("CARGO_PKG_VERSION_MAJOR"),
    "_",
    env!("CARGO_PKG_VERSION_MINOR"),
    "_",
    env!("CARGO_PKG_VERSION_PATCH")
))]
static FIGURES: [AtomicU64; SIGNPOST_BYTES / size_of::<u64>()] =
    [const { AtomicU64::new(0) }; SIGNPOST_BYTES / size_of::<u64>()];

/// Says where the tables of the arena are.
pub(crate) fn announce(arena: &Arena<Linux>) {
    for (place, word) in FIGURES.iter().zip(arena.signpost().words()) {
        // Relaxed: nobody in this process reads it.
        place.store(word, Ordering::Relaxed);
    }
}
