//! Results as text for a terminal, as Markdown and as pages for a browser. Pure functions of the
//! model: they read nothing, write nothing, and must not know where a result goes.
//!
//! Text may be painted with ANSI codes; whoever prints it strips them where they are not wanted.
#![forbid(unsafe_code)]

mod allocators;
mod bench;
mod compare;
mod csv;
mod diagnosis;
mod diff;
mod explain;
mod failure;
mod grid;
mod histogram;
mod html;
mod locks;
mod numbers;
mod origin;
mod page;
mod process;
mod replay;
mod reproduce;
mod syscalls;
mod table;
mod tables;
mod timeline;
mod top;
mod trace;

pub use allocators::allocators;
pub use bench::{Detail, failures, markdown, text};
pub use compare::{compare_failures, compare_markdown, compare_text, in_unit};
pub use csv::csv;
pub use diagnosis::diagnosis;
pub use diff::{DiffDetail, diff_markdown, diff_text};
pub use explain::explain;
pub use grid::{grid_failures, grid_markdown, grid_text};
pub use html::{Shown, html};
pub use locks::{LocksDetail, locks};
pub use process::{process, verdict};
pub use replay::{replay_failures, replay_markdown, replay_text};
pub use reproduce::{reproduction_markdown, reproduction_text};
pub use syscalls::syscalls;
pub use timeline::{timeline_markdown, timeline_svg, timeline_text};
pub use top::{TopColumn, provenance, sort_top, top};
pub use trace::{recording, sizes, weights};
