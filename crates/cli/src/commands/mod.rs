//! The subcommands: one file each, with its definition, its help and what it does.

pub(crate) mod allocators;
pub(crate) mod bench;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod diagnose;
pub(crate) mod diff;
pub(crate) mod explain;
pub(crate) mod lib;
pub(crate) mod locks;
pub(crate) mod pairs;
pub(crate) mod record;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod reproduce;
pub(crate) mod run;
pub(crate) mod sizes;
pub(crate) mod syscalls;
pub(crate) mod timeline;
pub(crate) mod top;
pub(crate) mod which;
pub(crate) mod workload;
