//! What is shown, apart from how.

pub(crate) mod capture;
pub(crate) mod compare;
pub mod condition;
pub(crate) mod conversation;
pub(crate) mod divergence;
pub(crate) mod dry_run;
pub(crate) mod explanation;
pub(crate) mod fitness;
pub(crate) mod inspect;
pub(crate) mod latency;
pub(crate) mod live;
pub(crate) mod mask;
pub(crate) mod message;
pub(crate) mod observed;
pub(crate) mod pcap;
pub(crate) mod phases;
pub(crate) mod plan;
pub(crate) mod proxy;
pub(crate) mod run_summary;
pub(crate) mod settings;
pub(crate) mod slice;
pub(crate) mod sources;
pub(crate) mod sqlstate;
pub(crate) mod sweep;
pub(crate) mod targets;
pub(crate) mod time;
