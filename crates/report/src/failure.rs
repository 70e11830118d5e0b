//! Runs that gave no number, in words.

use freehold_model::FailureKind;

/// What went wrong.
pub(crate) fn kind(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::NotStarted => "not started",
        FailureKind::NotLive => "the allocator was not live",
        FailureKind::Crashed => "crashed",
        FailureKind::Failed => "failed",
        FailureKind::TimedOut => "timed out",
        FailureKind::Unreadable => "printed no result",
    }
}
