//! Checks of a target before anything is sent: what would make statements fail or find other data than in the capture.
//!
//! The target itself resolves the names of the workload: each statement is parsed there, once for each login, and nothing
//! is executed.

mod data;
mod logins;
mod server;
mod statements;

use std::sync::Once;

use connect::login::Dialer;
use replay::{Options, Target};
use schemars::JsonSchema;
use serde::Serialize;
use workload::{ArchiveError, StartingPoint, WorkloadReader};

use crate::notes::note;
use logins::{LoginUse, NoConnection};
use statements::{NameCheck, ReadPart, StatementUse};

/// Most findings that are noted, so that they fit on a screen.
const NOTED_MAX: usize = 12;

/// Consequence of a finding. The worst comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Statements will fail that did not fail in the capture.
    Fails,
    /// The data are not those that the capture began with.
    OtherData,
    /// Results or times may differ.
    MayDiffer,
}

impl Severity {
    fn name(self) -> &'static str {
        match self {
            Severity::Fails => "fails",
            Severity::OtherData => "other data",
            Severity::MayDiffer => "may differ",
        }
    }
}

/// Something of the target that is not as in the capture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PreflightFinding {
    /// Consequence.
    pub severity: Severity,
    /// Number of statements that it affects; 0 if unknown.
    pub statements: u64,
    /// Description.
    pub message: String,
    /// Remedy.
    pub remedy: String,
}

/// Result of the checks of a target.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Preflight {
    /// Findings, the worst first.
    pub findings: Vec<PreflightFinding>,
    /// Number of logins that were tried.
    pub logins: u64,
    /// Number of different statements that the target parsed.
    pub parsed: u64,
    /// Number of different statements that were not parsed for lack of time.
    pub unparsed: u64,
    /// Number of executions of the statements that were read.
    #[serde(skip)]
    pub executions: u64,
    /// The part of the workload that was read; `None` if all of it was.
    #[serde(skip)]
    read: Option<ReadPart>,
}

impl Preflight {
    fn add(&mut self, severity: Severity, statements: u64, message: String, remedy: String) {
        self.findings.push(PreflightFinding {
            severity,
            statements,
            message,
            remedy,
        });
    }

    /// Notes the findings, the worst first, and what was not checked.
    fn note(&self) {
        self.note_findings();
        if let Some(read) = self.read {
            note(&format!(
                "The checks read the first {} of {} events, with {} of {} different statements, so that the replay starts at once; `--dry-run` reads all.",
                read.events, read.events_in_all, read.statements, read.statements_in_all
            ));
        }
    }

    fn note_findings(&self) {
        if self.findings.is_empty() {
            let left = match self.unparsed {
                0 => String::new(),
                left => format!(" ({left} more were not, for lack of time)"),
            };
            return note(&format!(
                "Checks of the target: nothing found. Logins tried: {}. Statements parsed: {}{left}.",
                self.logins, self.parsed
            ));
        }
        note(&format!(
            "Checks of the target: {}, the worst first.",
            match self.findings.len() {
                1 => "1 finding".to_owned(),
                number => format!("{number} findings"),
            }
        ));
        for finding in self.findings.iter().take(NOTED_MAX) {
            let statements = match finding.statements {
                0 => String::new(),
                1 => " 1 statement:".to_owned(),
                number => format!(" {number} statements:"),
            };
            note(&format!(
                "  [{}]{statements} {}",
                finding.severity.name(),
                finding.message
            ));
            note(&format!("      {}", finding.remedy));
        }
        if self.findings.len() > NOTED_MAX {
            let more = self.findings.len() - NOTED_MAX;
            note(&format!("  {more} more; `--dry-run --json` has all."));
        }
    }
}

/// Part of a workload whose statements are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckedPart {
    /// The beginning: until each statement was found once, or half a second has passed. What begins later is not checked.
    Beginning,
    /// All events.
    Whole,
}

/// Facts about the workload that several checks use.
struct Context<'c> {
    reader: &'c WorkloadReader,
    target: &'c Target,
    options: &'c Options,
    part: CheckedPart,
    point: Option<&'c StartingPoint>,
}

/// Checks a target for the statements of a part of the workload, and notes what was found. A target that does not answer is
/// checked no further.
///
/// # Errors
/// If the workload cannot be read.
pub fn check(
    reader: &WorkloadReader,
    target: &Target,
    options: &Options,
    part: CheckedPart,
) -> Result<Preflight, ArchiveError> {
    let target = &options.target_with_settings(target);
    let context = Context {
        reader,
        target,
        options,
        part,
        point: reader.info().provenance.starting_point.as_ref(),
    };
    let mut result = Preflight::default();
    let Ok(dialer) = Dialer::new(target) else {
        return Ok(result);
    };
    let used = StatementUse::of_workload(&context)?;
    result.executions = used.executions();
    result.read = Some(used.read).filter(|read| read.events < read.events_in_all);
    let mut names = NameCheck::new(used);
    let mut accepted: Vec<LoginUse> = Vec::new();
    for used in LoginUse::of_workload(&context)? {
        // One connection at a time: the target may have few.
        match used.connect(&context, &dialer, &mut result) {
            Ok(mut questions) => {
                if accepted.is_empty() {
                    server::check(&context, &mut questions, &mut result);
                }
                names.check(&used.login, &mut questions, &mut result);
                accepted.push(used);
            }
            Err(NoConnection::Refused) => {}
            Err(NoConnection::Unreachable) => break,
        }
    }
    if accepted.is_empty() && result.findings.is_empty() {
        // It does not answer, which the replay reports itself.
        return Ok(result);
    }
    names.finish(&mut result);
    data::check(&context, &dialer, &accepted, &mut result);
    result
        .findings
        .sort_by_key(|one| (one.severity, std::cmp::Reverse(one.statements)));
    result.note();
    Ok(result)
}

/// Marks that the target of the first of several replays was checked.
static FIRST: Once = Once::new();

/// Checks a target as [`check`] does, before several replays. [`check_once`] does not check it again.
///
/// # Errors
/// As [`check`].
pub(crate) fn check_first(
    reader: &WorkloadReader,
    target: &Target,
    options: &Options,
) -> Result<Preflight, ArchiveError> {
    let result = check(reader, target, options, CheckedPart::Beginning)?;
    FIRST.call_once(|| ());
    Ok(result)
}

/// Checks the target of the first of several replays, as [`check`] does.
///
/// # Errors
/// As [`check`].
pub(crate) fn check_once(
    reader: &WorkloadReader,
    target: &Target,
    options: &Options,
) -> Result<(), ArchiveError> {
    let mut result = Ok(());
    FIRST.call_once(|| result = check(reader, target, options, CheckedPart::Beginning).map(drop));
    result
}
