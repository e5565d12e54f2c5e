//! Parts that the reports of all cases have.

use diagnose::Finding;
use report::{CaseCheck, CaseFile, CaseNumber, CaseReport};
use study::proof::ProofSideReport;

use crate::case::{Case, Scale};

/// Returns the report of a case without measurements.
pub(crate) fn new_report(case: &Case, scale: Scale, server_version: &str) -> CaseReport {
    CaseReport {
        schema: "rehearse/lab/1",
        name: case.name,
        title: case.title,
        source: case.source,
        scale: match scale {
            Scale::Small => "small",
            Scale::Full => "full",
        },
        server_version: server_version.to_owned(),
        processors: processors(),
        ..CaseReport::default()
    }
}

/// Returns the number of processors of this machine.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

pub(crate) fn check(what: &str, holds: bool, measured: String) -> CaseCheck {
    CaseCheck {
        what: what.to_owned(),
        holds,
        measured,
    }
}

pub(crate) fn number(
    what: &str,
    published: Option<&str>,
    measured: String,
    why: &str,
) -> CaseNumber {
    CaseNumber {
        what: what.to_owned(),
        published: published.map(str::to_owned),
        measured,
        why: why.to_owned(),
    }
}

pub(crate) fn file(name: impl Into<String>, what: impl Into<String>) -> CaseFile {
    CaseFile {
        name: name.into(),
        what: what.into(),
    }
}

/// Builds a list of files from their names and descriptions.
pub(crate) fn files<const N: usize>(named: [(&str, &str); N]) -> Vec<CaseFile> {
    named.map(|(name, what)| file(name, what)).into()
}

pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Describes the verdict on a side of a proof by processor time.
pub(crate) fn verdict_text(side: Option<&ProofSideReport>) -> String {
    match side.map(|side| (side.verdict, &side.effect)) {
        None => "was not proved".to_owned(),
        Some((verdict, None)) => verdict.name().to_owned(),
        Some((verdict, Some(effect))) => format!(
            "{}: the server's processor time × {:.2} ({:.2} to {:.2})",
            verdict.name(),
            effect.ratio,
            effect.low,
            effect.high
        ),
    }
}

/// Describes a finding by its rule and title, followed by `detail`.
pub(crate) fn finding_text(
    finding: Option<&Finding>,
    detail: impl FnOnce(&Finding) -> String,
) -> String {
    match finding {
        Some(finding) => format!("{}: {}{}", finding.rule, finding.title, detail(finding)),
        None => "nothing was found".to_owned(),
    }
}
