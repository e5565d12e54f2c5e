//! Options of `rehearse schema`.

use clap::{Args, ValueEnum};

/// Options of `rehearse schema`.
#[derive(Debug, Args)]
pub struct Schema {
    /// Print the schema of this output.
    #[arg(value_enum, value_name = "OUTPUT")]
    pub of: SchemaOf,
}

/// Outputs that have a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SchemaOf {
    /// Output of `capture log --json`.
    CaptureLog,
    /// Output of `capture attach --json`.
    CaptureAttach,
    /// Output of `capture pcap --json`.
    CapturePcap,
    /// Output of `capture proxy --json`.
    CaptureProxy,
    /// Output of `inspect --json`.
    Inspect,
    /// Output of `show --json` and `replay --json`.
    Show,
    /// Output of `replay --dry-run --json`.
    DryRun,
    /// Output of `replay --calibrate --json`.
    Calibrate,
    /// Output of `compare --json`.
    Compare,
    /// Lines of `compare --follow --json`.
    CompareFollow,
    /// Output of `cpu --json` and `profile --json`.
    Cpu,
    /// Output of `sweep --json`.
    Sweep,
    /// Output of `observe --json`, and `observed` of `show --json`.
    Observe,
    /// Output of `export-evidence --json`, and `evidence.json` in the archive.
    ExportEvidence,
    /// Output of `lab NAME --json`.
    Lab,
    /// Output of `diagnose --json`.
    Diagnose,
    /// Output of `prove --json` and `indexes --json`.
    Prove,
    /// Output of `history show --json`.
    History,
    /// Output of `plans check --json`.
    PlansCheck,
    /// Output of `upgrade inspect --json`.
    UpgradeInspect,
    /// Output of `upgrade verify --json`.
    UpgradeVerify,
    /// Output of `upgrade WORKLOAD --json`, and `report.json` in its directory.
    Upgrade,
    /// Message of `compare --notify` and `prove --notify` in the format json.
    Notification,
}

impl SchemaOf {
    /// Converts the option to the renderer's type.
    pub fn described(self) -> report::schema::SchemaCommand {
        use report::schema::SchemaCommand;
        match self {
            SchemaOf::CaptureLog => SchemaCommand::CaptureLog,
            SchemaOf::CaptureAttach => SchemaCommand::CaptureAttach,
            SchemaOf::CapturePcap => SchemaCommand::CapturePcap,
            SchemaOf::CaptureProxy => SchemaCommand::CaptureProxy,
            SchemaOf::Inspect => SchemaCommand::Inspect,
            SchemaOf::Show => SchemaCommand::Show,
            SchemaOf::DryRun => SchemaCommand::DryRun,
            SchemaOf::Calibrate => SchemaCommand::Calibrate,
            SchemaOf::Compare => SchemaCommand::Compare,
            SchemaOf::CompareFollow => SchemaCommand::CompareFollow,
            SchemaOf::Cpu => SchemaCommand::Cpu,
            SchemaOf::Sweep => SchemaCommand::Sweep,
            SchemaOf::Observe => SchemaCommand::Observe,
            SchemaOf::ExportEvidence => SchemaCommand::ExportEvidence,
            SchemaOf::Lab => SchemaCommand::Lab,
            SchemaOf::Diagnose => SchemaCommand::Diagnose,
            SchemaOf::Prove => SchemaCommand::Prove,
            SchemaOf::History => SchemaCommand::History,
            SchemaOf::PlansCheck => SchemaCommand::PlansCheck,
            SchemaOf::UpgradeInspect => SchemaCommand::UpgradeInspect,
            SchemaOf::UpgradeVerify => SchemaCommand::UpgradeVerify,
            SchemaOf::Upgrade => SchemaCommand::Upgrade,
            SchemaOf::Notification => SchemaCommand::Notification,
        }
    }
}
