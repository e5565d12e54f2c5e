//! Commands, one per file. Each converts its options to those of the libraries, and shows their
//! results.

pub mod capture;
pub mod compare;
pub mod compare_follow;
pub mod cpu;
pub mod diagnose;
pub mod doctor;
pub mod export_evidence;
pub mod flame;
pub mod history;
pub mod indexes;
pub mod inspect;
pub mod key;
pub mod lab;
pub mod mask;
pub mod mcp;
pub mod observe;
pub mod packaging;
pub mod plans;
pub mod profile;
pub mod prove;
pub mod recover;
pub mod replay;
mod replay_pairs;
pub mod rewrite;
pub mod sandbox;
pub mod schema;
pub mod settings;
pub mod shards;
pub mod show;
pub mod slice;
pub mod sources;
pub mod sweep;
pub mod upgrade;
