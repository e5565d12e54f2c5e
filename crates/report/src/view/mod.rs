//! What is shown, apart from how.

pub(crate) mod candidate;
pub(crate) mod capture;
pub(crate) mod case;
pub(crate) mod conversation;
pub(crate) mod diagnose;
pub(crate) mod dry_run;
pub(crate) mod evidence;
pub(crate) mod fitness;
pub(crate) mod live;
pub(crate) mod mask;
pub(crate) mod pcap;
pub(crate) mod proof;
pub(crate) mod proxy;
pub(crate) mod rewrite;
pub(crate) mod run_summary;
pub(crate) mod settings;
pub(crate) mod slice;
pub(crate) mod sources;
pub(crate) mod sweep;
