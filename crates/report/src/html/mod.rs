//! Views as pages: one file that needs nothing else.
//!
//! A page is the frame (`templates/frame.html` with its style and its scripts) around sections of
//! its own. Style and scripts stand in the page; nothing is fetched, so that a page can be mailed
//! and opened anywhere, and its policy forbids to fetch. Everything that comes from outside is
//! escaped: by the template where it is text, by [`data::script_json`] where it is data for a
//! script, which puts it on the page as text alone.
//!
//! A second page gives its own sections, and its table's rows as data: `templates/table.js` shows,
//! sorts, searches and opens them.

pub mod case_page;
mod chart;
pub mod compare_page;
mod data;
pub mod flame_page;
mod frame;
pub mod inspect_page;
pub mod live_page;
pub mod proof_page;
pub mod sweep_page;
