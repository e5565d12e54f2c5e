//! JSON schemas of the printed documents, generated from the types of the results.
//!
//! The field `schema` of a document has the name and version of its schema, such as
//! `rehearse/compare/3`. The version increases with a change that breaks readers: a field that is
//! removed, renamed, has another type or unit, or may newly be `null`. A new field, or a new value
//! in an open list of values, does not (`docs/schemas/README.md`).

use capture_attach::AttachStatus;
use capture_log::LogReport;
use capture_log::settings::SettingsPlan;
use capture_proxy::ProxyStatus;
use capture_wire::pcap::PcapReport;
use compare::Comparison;
use cpu_profile::phases::PhaseReport;
use history::History;
use inspect::Inspection;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::json;
use time_breakdown::observed::Observation;

use crate::json::Document;
use crate::notification::Notification;
use crate::view::case::CaseReport;
use crate::view::dry_run::DryRun;
use crate::view::shadow::ShadowLine;
use crate::view::workload::CaptureReport;
use study::calibration::Calibration;
use study::diagnosis_report::DiagnosisReport;
use study::export_evidence::EvidenceReport;
use study::plan_check::PlanCheck;
use study::proof::ProofReport;
use study::run_summary::RunReport;
use study::sweep::SweepReport;
use study::upgrade_inspect::UpgradeInspection;
use study::upgrade_rehearsal::UpgradeReport;
use study::upgrade_verify::UpgradeVerification;

impl Document for Comparison {
    const SCHEMA: &'static str = "rehearse/compare/3";
}

impl Document for Calibration {
    const SCHEMA: &'static str = "rehearse/calibrate/1";
}

impl Document for History {
    const SCHEMA: &'static str = "rehearse/history/1";
}

impl Document for PhaseReport {
    const SCHEMA: &'static str = "rehearse/phases/1";
}

impl Document for Inspection {
    const SCHEMA: &'static str = "rehearse/inspect/1";
}

impl Document for Observation {
    const SCHEMA: &'static str = "rehearse/observe/1";
}

impl Document for PlanCheck {
    const SCHEMA: &'static str = "rehearse/plans-check/1";
}

impl Document for UpgradeInspection {
    const SCHEMA: &'static str = "rehearse/upgrade-inspect/1";
}

impl Document for UpgradeReport {
    const SCHEMA: &'static str = "rehearse/upgrade/1";
}

impl Document for UpgradeVerification {
    const SCHEMA: &'static str = "rehearse/upgrade-verify/1";
}

impl Document for ProxyStatus {
    const SCHEMA: &'static str = "rehearse/capture-proxy/1";
}

impl Document for AttachStatus {
    const SCHEMA: &'static str = "rehearse/capture-attach/1";
}

impl Document for SettingsPlan {
    const SCHEMA: &'static str = "rehearse/settings/1";
}

/// Command whose JSON output has a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaCommand {
    /// `rehearse capture log --json`
    CaptureLog,
    /// `rehearse capture pcap --json`
    CapturePcap,
    /// `rehearse capture proxy --json`
    CaptureProxy,
    /// `rehearse capture attach --json`
    CaptureAttach,
    /// `rehearse inspect --json`
    Inspect,
    /// `rehearse replay --json` and `rehearse show --json`
    Show,
    /// `rehearse replay --dry-run --json`
    DryRun,
    /// `rehearse replay --calibrate --json`
    Calibrate,
    /// `rehearse compare --json`
    Compare,
    /// `rehearse compare --follow --json`: one line
    CompareFollow,
    /// `rehearse cpu --json`
    Cpu,
    /// `rehearse sweep --json`
    Sweep,
    /// `rehearse observe --json`
    Observe,
    /// `rehearse export-evidence --json`
    ExportEvidence,
    /// `rehearse lab NAME --json`
    Lab,
    /// `rehearse diagnose --json`
    Diagnose,
    /// `rehearse plans check --json`
    PlansCheck,
    /// `rehearse upgrade inspect --json`
    UpgradeInspect,
    /// `rehearse upgrade verify --json`
    UpgradeVerify,
    /// `rehearse upgrade WORKLOAD --json`
    Upgrade,
    /// `rehearse prove --json`
    Prove,
    /// `rehearse history show --json`
    History,
    /// `rehearse compare --notify URL --notify-format json`, and that of `prove`
    Notification,
}

impl SchemaCommand {
    /// All commands.
    pub const ALL: [SchemaCommand; 23] = [
        SchemaCommand::CaptureLog,
        SchemaCommand::CapturePcap,
        SchemaCommand::CaptureProxy,
        SchemaCommand::CaptureAttach,
        SchemaCommand::Inspect,
        SchemaCommand::Show,
        SchemaCommand::DryRun,
        SchemaCommand::Calibrate,
        SchemaCommand::Compare,
        SchemaCommand::CompareFollow,
        SchemaCommand::Cpu,
        SchemaCommand::Sweep,
        SchemaCommand::Observe,
        SchemaCommand::ExportEvidence,
        SchemaCommand::Lab,
        SchemaCommand::Diagnose,
        SchemaCommand::Prove,
        SchemaCommand::History,
        SchemaCommand::PlansCheck,
        SchemaCommand::UpgradeInspect,
        SchemaCommand::UpgradeVerify,
        SchemaCommand::Upgrade,
        SchemaCommand::Notification,
    ];

    /// Returns its name in `docs/schemas/NAME.schema.json`.
    pub fn name(self) -> &'static str {
        match self {
            SchemaCommand::CaptureLog => "capture-log",
            SchemaCommand::CapturePcap => "capture-pcap",
            SchemaCommand::CaptureProxy => "capture-proxy",
            SchemaCommand::CaptureAttach => "capture-attach",
            SchemaCommand::Inspect => "inspect",
            SchemaCommand::Show => "show",
            SchemaCommand::DryRun => "dry-run",
            SchemaCommand::Calibrate => "calibrate",
            SchemaCommand::Compare => "compare",
            SchemaCommand::CompareFollow => "compare-follow",
            SchemaCommand::Cpu => "cpu",
            SchemaCommand::Sweep => "sweep",
            SchemaCommand::Observe => "observe",
            SchemaCommand::ExportEvidence => "export-evidence",
            SchemaCommand::Lab => "lab",
            SchemaCommand::Diagnose => "diagnose",
            SchemaCommand::Prove => "prove",
            SchemaCommand::History => "history",
            SchemaCommand::PlansCheck => "plans-check",
            SchemaCommand::UpgradeInspect => "upgrade-inspect",
            SchemaCommand::UpgradeVerify => "upgrade-verify",
            SchemaCommand::Upgrade => "upgrade",
            SchemaCommand::Notification => "notification",
        }
    }

    /// Returns the schema (JSON Schema, draft 2020-12), ending with a line feed.
    pub fn schema(self) -> String {
        let schema = match self {
            SchemaCommand::CaptureLog => of::<CaptureReport<LogReport>>(),
            SchemaCommand::CapturePcap => of::<CaptureReport<PcapReport>>(),
            SchemaCommand::CaptureProxy => document::<ProxyStatus>(),
            SchemaCommand::CaptureAttach => document::<AttachStatus>(),
            SchemaCommand::Inspect => document::<Inspection>(),
            SchemaCommand::Show => of::<RunReport>(),
            SchemaCommand::DryRun => of::<DryRun>(),
            SchemaCommand::Calibrate => document::<Calibration>(),
            SchemaCommand::Compare => document::<Comparison>(),
            SchemaCommand::CompareFollow => of::<ShadowLine>(),
            SchemaCommand::Cpu => document::<PhaseReport>(),
            SchemaCommand::Sweep => of::<SweepReport>(),
            SchemaCommand::Observe => document::<Observation>(),
            SchemaCommand::ExportEvidence => of::<EvidenceReport>(),
            SchemaCommand::Lab => of::<CaseReport>(),
            SchemaCommand::Diagnose => of::<DiagnosisReport>(),
            SchemaCommand::Prove => of::<ProofReport>(),
            SchemaCommand::History => document::<History>(),
            SchemaCommand::PlansCheck => document::<PlanCheck>(),
            SchemaCommand::UpgradeInspect => document::<UpgradeInspection>(),
            SchemaCommand::UpgradeVerify => document::<UpgradeVerification>(),
            SchemaCommand::Upgrade => document::<UpgradeReport>(),
            SchemaCommand::Notification => of::<Notification>(),
        };
        let text = serde_json::to_string_pretty(&schema).expect("plain data");
        text + "\n"
    }
}

fn of<Result: JsonSchema>() -> Schema {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let settings = settings.with_transform(RecursiveTransform(remove_rust));
    settings.into_generator().into_root_schema_for::<Result>()
}

/// Removes Rust-specific parts: formats such as `uint64`, and defaults of fields that are always
/// written.
fn remove_rust(schema: &mut Schema) {
    schema.remove("format");
    schema.remove("default");
}

/// Returns the schema of a result with the field that names it.
fn document<T: Document + JsonSchema>() -> Schema {
    let mut schema = of::<T>();
    let object = schema.ensure_object();
    let properties = object.entry("properties").or_insert_with(|| json!({}));
    properties["schema"] = json!({ "type": "string", "const": T::SCHEMA });
    let required = object.entry("required").or_insert_with(|| json!([]));
    if let Some(required) = required.as_array_mut() {
        required.insert(0, json!("schema"));
    }
    schema
}
