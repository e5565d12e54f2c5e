//! JSON schemas of what is printed as JSON, made of the views' own types.
//!
//! A view says in its field `schema` which version of which shape it has, such as `rehearse/compare/2`.
//! The number grows with a change that breaks a reader: a field that is gone, renamed, of another type
//! or unit, or may be `null` where it was not; a new field, or a new word where words are named as
//! examples, does not (`docs/schemas/README.md`).

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};

use crate::view::capture::CaptureView;
use crate::view::case::CaseView;
use crate::view::compare::CompareView;
use crate::view::diagnose::DiagnosisView;
use crate::view::dry_run::DryRunView;
use crate::view::evidence::EvidenceView;
use crate::view::inspect::InspectView;
use crate::view::observed::WatchedView;
use crate::view::pcap::PcapView;
use crate::view::phases::PhasesView;
use crate::view::proof::ProofView;
use crate::view::proxy::ProxyView;
use crate::view::run_summary::RunSummaryView;
use crate::view::sweep::SweepView;

/// What of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Described {
    /// `rehearse capture log --json`
    CaptureLog,
    /// `rehearse capture pcap --json`
    CapturePcap,
    /// `rehearse capture proxy --json`
    CaptureProxy,
    /// `rehearse inspect --json`
    Inspect,
    /// `rehearse replay --json` and `rehearse summary --json`
    Summary,
    /// `rehearse replay --dry-run --json`
    DryRun,
    /// `rehearse compare --json`
    Compare,
    /// `rehearse phases --json`
    Phases,
    /// `rehearse sweep --json`
    Sweep,
    /// `rehearse observe --json`
    Observe,
    /// `rehearse bundle --json`
    Evidence,
    /// `rehearse lab NAME --json`
    Lab,
    /// `rehearse diagnose --json`
    Diagnose,
    /// `rehearse prove --json`
    Proof,
}

impl Described {
    /// All of them.
    pub const ALL: [Described; 14] = [
        Described::CaptureLog,
        Described::CapturePcap,
        Described::CaptureProxy,
        Described::Inspect,
        Described::Summary,
        Described::DryRun,
        Described::Compare,
        Described::Phases,
        Described::Sweep,
        Described::Observe,
        Described::Evidence,
        Described::Lab,
        Described::Diagnose,
        Described::Proof,
    ];

    /// Its name in `docs/schemas/NAME.schema.json`.
    pub fn name(self) -> &'static str {
        match self {
            Described::CaptureLog => "capture-log",
            Described::CapturePcap => "capture-pcap",
            Described::CaptureProxy => "capture-proxy",
            Described::Inspect => "inspect",
            Described::Summary => "summary",
            Described::DryRun => "dry-run",
            Described::Compare => "compare",
            Described::Phases => "phases",
            Described::Sweep => "sweep",
            Described::Observe => "observe",
            Described::Evidence => "evidence",
            Described::Lab => "lab",
            Described::Diagnose => "diagnose",
            Described::Proof => "proof",
        }
    }

    /// The schema (JSON Schema, draft 2020-12), ending with a line feed.
    pub fn schema(self) -> String {
        let schema = match self {
            Described::CaptureLog => of::<CaptureView>(),
            Described::CapturePcap => of::<PcapView>(),
            Described::CaptureProxy => of::<ProxyView>(),
            Described::Inspect => of::<InspectView>(),
            Described::Summary => of::<RunSummaryView>(),
            Described::DryRun => of::<DryRunView>(),
            Described::Compare => of::<CompareView>(),
            Described::Phases => of::<PhasesView>(),
            Described::Sweep => of::<SweepView>(),
            Described::Observe => of::<WatchedView>(),
            Described::Evidence => of::<EvidenceView>(),
            Described::Lab => of::<CaseView>(),
            Described::Diagnose => of::<DiagnosisView>(),
            Described::Proof => of::<ProofView>(),
        };
        let text = serde_json::to_string_pretty(&schema).expect("plain data");
        text + "\n"
    }
}

fn of<View: JsonSchema>() -> Schema {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    settings.into_generator().into_root_schema_for::<View>()
}
