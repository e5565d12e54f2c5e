//! Contents of documents, independent of their rendering.

pub(crate) mod candidate;
pub(crate) mod case;
pub(crate) mod diagnose;
pub(crate) mod dry_run;
pub(crate) mod evidence;
pub(crate) mod live;
pub(crate) mod proof;
pub(crate) mod run_summary;
pub(crate) mod sweep;
pub(crate) mod workload;
