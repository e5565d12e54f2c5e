//! Renders views as pages: single files without dependencies.
//!
//! A page is the frame (`templates/frame.html` with its style and scripts) around its own sections.
//! Style and scripts are inlined and nothing is fetched, so a page can be mailed and opened
//! anywhere; its content security policy forbids fetching. Text from outside is escaped by the
//! template, and data for scripts by [`data::script_json`]; the scripts insert it as text only.
//!
//! To add a page, write its sections and its table rows as data: `templates/table.js` displays,
//! sorts, searches and opens them.

pub mod case_page;
mod chart;
pub mod compare_page;
mod data;
pub mod flame_page;
mod frame;
pub mod inspect_page;
mod interval;
pub mod live_page;
mod plan_steps;
pub mod plans_page;
pub mod proof_page;
pub mod shadow_page;
mod status;
pub mod sweep_page;
pub mod upgrade_page;
