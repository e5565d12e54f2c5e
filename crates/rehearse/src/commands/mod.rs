//! One command a file: what was typed becomes what the engines take, and what they give is shown.

pub mod asking;
pub mod bundle;
pub mod capture;
pub mod compare;
pub mod diagnose;
mod drawing;

pub mod flame;
pub mod inspect;
pub mod key;
pub mod known;
pub mod lab;
pub mod mask;
mod narration;
pub mod observe;
pub mod outputs;
mod part;
pub mod phases;
pub mod processor_time;
pub mod profile;
pub mod profiled;
pub mod recover;
pub mod replay;
pub mod sandbox;
pub mod schema;
pub mod settings;
pub mod slice;
pub mod sources;
pub mod summary;
pub mod sweep;
pub mod symptoms;
pub mod target_watch;
pub mod where_time_went;
