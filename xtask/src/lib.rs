//! Chores of the project: the rules that sources keep (`tidy`), and the commands of `cargo xtask`.
//!
//! No crate uses this one.

pub mod dist;
pub mod tasks;
pub mod tidy;
