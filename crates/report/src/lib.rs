//! Results on a page: one renderer a file.
//!
//! Results of `analyse` serialise themselves: the field names carry their units, and
//! [`to_document`] puts the name of the schema before them. Where what is shown differs from what was
//! computed, a view stands between: plain types of its own, each with its `schema`, of which
//! [`to_json`] makes a text for machines. For people there is `render_text` of
//! [`inspect_text`], [`capture_text`], [`pcap_text`], [`proxy_text`], [`slice_text`], [`mask_text`],
//! [`fitness_text`], [`live_text`], [`run_text`], [`observed_text`], [`phases_text`], [`proof_text`],
//! [`rewrite_text`] and [`compare_text`]; [`settings_text`] makes what one can run.
//!
//! Who drives: the program takes a result, or builds a view, renders it, and prints or
//! writes the text. Deliberately absent: printing, files, knowledge of a terminal (the program
//! says how wide it is and whether it has colours), and any computing of results.
//!
//! SQL is shown in its normal form. Messages of a server may hold values of the user's data; they
//! are redacted when a result is computed ([`analyse::Literals`]), so in texts and in JSON alike, unless the
//! program was asked for them.

pub mod compare_markdown;
pub mod flame;
mod html;
mod json;
pub mod junit;
pub mod schema;
mod sqlstate;
mod text;
mod view;

pub use html::{case_page, compare_page, inspect_page, live_page, proof_page, sweep_page};
pub use json::{Document, to_document, to_json, to_json_line};
pub use text::line::one_line;
pub use text::settings_text::SettingsForm;
pub use text::{
    TextStyle, capture_text, case_text, compare_text, diagnose_text, dry_run_text, evidence_text,
    fitness_text, inspect_text, live_text, mask_text, observed_text, pcap_text, phases_text,
    proof_text, proxy_text, rewrite_text, run_text, settings_text, slice_text, sweep_text,
};
pub use view::candidate::{ExpectedCostView, IndexCandidateView};
pub use view::capture::{CaptureView, SkippedView, UnreadableLineView, UnreadableView};
pub use view::case::{
    CaseChartView, CaseCheckView, CaseFileView, CaseFlameView, CaseLineView, CaseNumberView,
    CaseView,
};
pub use view::conversation::{ConversationView, UnreadableConnectionsView};
pub use view::diagnose::{
    ChangeView, DiagnosisFindingView, DiagnosisView, FactView, FindingChangeView, FindingCostView,
    FindingProofView, RuleView, SubjectView, SuspectShareView, SuspectView, ThresholdView,
    ThresholdsView,
};
pub use view::dry_run::{DryRunSkippedView, DryRunView};
pub use view::evidence::{ArtefactView, EvidenceView};
pub use view::fitness::{AdviceView, FindingView, FitnessUseView, FitnessView};
pub use view::live::{
    LatelyView, LiveErrorView, LiveNowView, LiveOthersView, LivePointView, LiveQuantilesView,
    LiveReasonView, LiveReplayView, LiveState, LiveStatementView, LiveStepView, LiveTimesView,
    LiveView, ObservedView,
};
pub use view::mask::{KeptView, MaskView, MaskedValuesView};
pub use view::pcap::{PacketSourceView, PacketsView, PcapView};
pub use view::proof::{
    ProofEffectView, ProofNumberView, ProofRunView, ProofSideView, ProofSizeView, ProofView,
};
pub use view::proxy::{
    IncompleteView, ProxyStatusView, ProxyView, RecordingStatusView, RecordingView,
};
pub use view::rewrite::{RewriteView, RewritingView};
pub use view::run_summary::{
    ErrorExampleView, ErrorsVersusCaptureView, ReasonCountView, RunSummaryView,
};
pub use view::settings::SettingsView;
pub use view::slice::{SliceReasonView, SliceView};
pub use view::sources::{GapView, LeftOutView, OverlapView, SourceView, SourcesView};
pub use view::sweep::{
    SweepCurveView, SweepEstimateView, SweepKneeView, SweepNumbersView, SweepPointView,
    SweepStepView, SweepTrialNameView, SweepTrialView, SweepVariantView, SweepView,
};
