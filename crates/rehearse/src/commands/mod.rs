//! One command a file: what was typed becomes what the engines take, and what they give is shown.

pub mod capture;
pub mod compare;
pub mod cpu;
pub mod diagnose;
pub mod experiments;
pub mod export_evidence;
pub mod flame;
pub mod indexes;
pub mod inspect;
pub mod key;
pub mod lab;
pub mod mask;
pub mod observe;
pub mod outputs;
pub mod profile;
pub mod prove;
pub mod recover;
pub mod replay;
pub mod rewrite;
pub mod sandbox;
pub mod schema;
pub mod settings;
pub mod show;
pub mod slice;
pub mod sources;
pub mod sweep;
