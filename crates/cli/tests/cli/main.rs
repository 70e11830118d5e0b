//! The command from outside, as users and scripts meet it: arguments in; output, files and exit
//! status out. One file for each subcommand, and `usage` for what they share.
//!
//! A test that needs a tool or an allocator which this machine lacks says so on standard error
//! and passes.

mod allocators;
mod bench;
mod compare;
mod deploy;
mod diagnose;
mod diff;
mod explain;
mod grid;
mod library;
mod locks;
mod page;
mod promises;
mod real_programs;
mod record;
mod recording;
mod replay;
mod report;
mod reproduce;
mod run;
mod sizes;
mod slurm;
mod support;
mod syscalls;
mod timeline;
mod top;
mod usage;
mod which;
mod workload;
