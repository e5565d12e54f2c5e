//! Renders results as text, JSON and pages, with one renderer in each file.
//!
//! Results serialise themselves: their types derive `Serialize` and `JsonSchema`, and their field
//! names carry their units. A type of this crate exists only for a document of several results, or
//! if the displayed form differs from the computed one. Each document names its schema
//! ([`schema`]). [`to_document`] and [`to_json`] render JSON, `render_text` of the modules `*_text`
//! renders text, `render_html` of the modules `*_page` renders a page, and [`settings_text`]
//! renders scripts.
//!
//! The program computes or loads a result, renders it, and prints the text. This crate does not
//! print or compute. [`output_file`] and [`result_files`] write what was rendered, and
//! [`proof_progress`] and [`sweep_progress`] pass notes to [`study::notes`]. The program passes the terminal's width and whether it has
//! colours.
//!
//! SQL is displayed in its normalised form. A server's messages may contain the user's data. They
//! are redacted before a result gets here, unless the user requested them.

pub mod compare_markdown;
pub mod csv;
pub mod flame;
mod html;
mod json;
pub mod junit;
pub mod metric_families;
pub mod notification;
pub mod output_file;
pub mod plans_markdown;
pub mod result_files;
pub mod sarif;
pub mod schema;
mod sqlstate;
mod text;
pub mod upgrade_inspect_markdown;
mod view;

pub use html::{
    case_page, compare_page, inspect_page, live_page, plans_page, proof_page, shadow_page,
    sweep_page, upgrade_page,
};
pub use json::{Document, escape_json, to_document, to_json, to_json_line};
pub use text::line::{message_lines, one_line, safe_text};
pub use text::settings_text::SettingsForm;
pub use text::units::quantity;
pub use text::{
    TextStyle, UNLIMITED, attach_text, calibration_text, capture_text, case_text, compare_text,
    conversation_text, diagnose_text, dry_run_text, evidence_text, export_text, fitness_text,
    history_text, host_text, inspect_text, live_text, mask_text, metrics_text, observed_text,
    pcap_text, phases_text, plans_check_text, proof_progress, proof_text, proxy_text, rewrite_text,
    run_text, settings_text, shadow_text, slice_text, starting_point_text, sweep_progress,
    sweep_text, upgrade_inspect_text, upgrade_text, upgrade_verify_text,
};
pub use view::case::{CaseChart, CaseCheck, CaseFile, CaseFlame, CaseLine, CaseNumber, CaseReport};
pub use view::dry_run::DryRun;
pub use view::live::{
    LiveErrorView, LiveNowView, LiveOthersView, LivePointView, LiveQuantilesView, LiveRates,
    LiveReasonView, LiveReplayView, LiveState, LiveStatementView, LiveStepView, LiveTimesView,
    LiveView, ObservedView,
};
pub use view::shadow::ShadowLine;
pub use view::workload::{CaptureReport, Masking, Rewritings, TransformReport};
