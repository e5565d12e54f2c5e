//! Renders views as plain text that is readable without colours.

pub mod capture_text;
pub mod case_text;
mod chart;
pub mod compare_text;
pub(crate) mod condition_text;
pub mod conversation_text;
pub mod diagnose_text;
mod divergence_text;
pub mod dry_run_text;
pub mod evidence_text;
mod fitness_finding_text;
pub mod fitness_text;
pub mod inspect_text;
pub(crate) mod line;
pub mod live_text;
pub mod mask_text;
pub mod observed_text;
pub mod pcap_text;
pub mod phases_text;
pub(crate) mod plan_text;
pub(crate) mod processor_text;
pub mod proof_text;
pub mod proxy_text;
pub mod rewrite_text;
pub mod run_text;
pub mod settings_text;
pub mod slice_text;
mod sources_text;
mod style;
pub mod sweep_text;
mod table;
pub(crate) mod targets_text;
pub(crate) mod time_text;
pub(crate) mod times_text;
pub(crate) mod units;

pub use style::TextStyle;
