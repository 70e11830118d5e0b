//! What threads share.
//!
//! Each file holds one protocol: what it promises, its states, the reason for every memory
//! ordering. All of them name atomics through [`atomic`] alone, so that building with
//! `--cfg loom` puts the model checker's in their place; `model` then explores the interleavings.
//!
//! Knows nothing of allocation: no addresses, no classes, no policy.

#![no_std]

#[cfg(any(test, loom))]
extern crate std;

pub mod atomic;
pub mod concerned;
pub mod exchange;
pub mod freed;
pub mod frontier;
pub mod gate;
pub mod granules;
pub mod inbox;
mod ledger;
pub mod lock;
#[cfg(all(test, loom))]
mod model;
pub mod open;
pub mod published;
pub mod question;
pub mod rank;
pub mod stack;
pub mod turn;
pub mod word;
