//! Message about a verdict for a chat: the verdict, the names of the runs, and the first findings.
//!
//! It has names, counts, times and normalised statements. Values of the user's data, messages of servers and plans are
//! left out whatever the command's options are, because a chat keeps and shows the message to others.

mod slack;
mod teams;

use compare::{Comparison, Direction, ErrorChange, RunFacts, StatementComparison, Verdict};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use sql::Fingerprint;
use statistics::Measure;
use study::proof::{ProofEnd, ProofReport, ProofSideReport};

use crate::text::change_text::{change_word, evidence_text, verdict_words};
use crate::text::compare_text::error_subject;
use crate::text::condition_text;
use crate::text::first_text::first_texts;
use crate::text::line::one_line;
use crate::text::proof_text::{first_of_sides, verdict_text};
use crate::text::times_text::{measured_change, name_of};
use crate::text::units::{count, ratio};

/// Maximum number of findings.
const FINDINGS_MAX: usize = 10;
/// Maximum number of characters of a statement.
const STATEMENT_MAX: usize = 200;
/// Maximum number of characters of a name: of a run, a change or a condition.
const NAME_MAX: usize = 120;
/// Maximum number of characters of a caution.
const CAUTION_MAX: usize = 400;
/// Maximum number of runs, conditions, verdicts and cautions.
const LISTED_MAX: usize = 8;

/// Form of the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotificationForm {
    /// Blocks of Slack, with the same as text for receivers that know no blocks.
    Slack,
    /// Adaptive card of Microsoft Teams.
    Teams,
    /// The message as `rehearse schema notification` describes it.
    Json,
}

/// Command whose verdict is posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NotifyingCommand {
    /// `rehearse compare`, or `rehearse replay --against`.
    Compare,
    /// `rehearse prove`.
    Prove,
}

/// Summary of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Something got worse, or a condition of `--fail-on` holds.
    Worse,
    /// Nothing got worse, and the verdict is clear.
    Fine,
    /// The data suffices for no conclusion, or the proof was stopped.
    Unclear,
}

/// Message about the verdict of a comparison or a proof.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Notification {
    /// `rehearse/notification/1`.
    #[schemars(extend("const" = "rehearse/notification/1"))]
    pub schema: &'static str,
    /// Command.
    pub command: NotifyingCommand,
    /// Summary of all verdicts.
    pub outcome: Outcome,
    /// Verdict in one line.
    pub title: String,
    /// The verdict of a comparison, or that of each change of a proof; at most 8.
    pub verdicts: Vec<NotifiedVerdict>,
    /// Runs of a comparison, or workload and server of a proof; at most 8.
    pub sources: Vec<NotifiedSource>,
    /// Conditions of `--fail-on` that hold; at most 8.
    pub conditions: Vec<String>,
    /// Reasons not to rely on the verdict, as sentences without full stops; at most 8.
    pub cautions: Vec<String>,
    /// Findings, the most important first; at most 10.
    pub findings: Vec<NotifiedFinding>,
    /// Number of findings that are left out.
    pub findings_left_out: u64,
    /// Numbers of other entries that are left out.
    pub left_out: NotifiedRest,
}

/// Numbers of entries beyond the limits of a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NotifiedRest {
    /// Verdicts.
    pub verdicts: u64,
    /// Runs.
    pub sources: u64,
    /// Conditions that hold.
    pub conditions: u64,
    /// Cautions.
    pub cautions: u64,
}

/// A verdict.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct NotifiedVerdict {
    /// Name of the change; `null` for a comparison.
    pub change: Option<String>,
    /// The word that the JSON output of the command has for it, such as `regression` or `won`.
    pub verdict: String,
    /// Its reasons, as a sentence without a full stop; may be empty.
    pub message: String,
}

/// Source of the measurements.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NotifiedSource {
    /// `before`, `after`, `workload` or `server`.
    pub label: &'static str,
    /// Name, as the user gave it.
    pub name: String,
    /// Version that the server reports; empty if it is unknown or the source is no run.
    pub server_version: String,
}

/// A finding.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct NotifiedFinding {
    /// Name of the change; `null` for a comparison.
    pub change: Option<String>,
    /// The finding in words, such as `slower` or `new error 42P01`.
    pub finding: String,
    /// Fingerprint of the statement; `null` for an error of connecting.
    pub fingerprint: Option<Fingerprint>,
    /// Normalised statement, or `connecting`.
    pub statement: String,
    /// Factor after / before of the measure; `null` for errors, or if it is unknown.
    pub factor: Option<f64>,
    /// Measure of the factor: `median`, `mean` or `p99`; `null` without a factor.
    pub measure: Option<&'static str>,
    /// Times, counts and evidence in words.
    pub detail: String,
}

impl Notification {
    /// Schema of the message.
    const SCHEMA: &'static str = "rehearse/notification/1";

    /// Describes a comparison.
    pub fn of_comparison(view: &Comparison) -> Self {
        let (head, why) = verdict_words(view);
        let holding = view.conditions.iter().filter(|one| one.holds);
        let conditions: Vec<String> = holding
            .map(|one| {
                let (head, _) = condition_text::outcome(one);
                format!("{} {head}", one_line(&one.condition, NAME_MAX))
            })
            .collect();
        let outcome = match view.verdict {
            _ if !conditions.is_empty() => Outcome::Worse,
            Verdict::Regression { .. } => Outcome::Worse,
            Verdict::NoRegression { .. } => Outcome::Fine,
            Verdict::Inconclusive { .. } => Outcome::Unclear,
        };
        let named: Vec<Fingerprint> = view
            .conditions
            .iter()
            .filter(|one| one.holds)
            .flat_map(|one| &one.statements)
            .map(|one| one.fingerprint)
            .collect();
        let is_change = |one: &StatementComparison| {
            let change = &one.change;
            change.is_cause(Direction::Slower)
                || change.is_suspected()
                || change.is_cause(Direction::Faster)
        };
        let slower = view.causes(Direction::Slower);
        let suspected = view
            .statements
            .iter()
            .filter(|one| one.change.is_suspected());
        let conditional = view
            .statements
            .iter()
            .filter(|one| named.contains(&one.fingerprint) && !is_change(one));
        let faster = view.causes(Direction::Faster);
        let errors = view.errors.iter().filter(|one| one.regression);
        let findings = slower
            .map(|one| of_statement(None, one))
            .chain(errors.map(|one| of_error(None, one)))
            .chain(suspected.map(|one| of_statement(None, one)))
            .chain(conditional.map(|one| of_statement(None, one)))
            .chain(faster.map(|one| of_statement(None, one)));
        Notification {
            schema: Self::SCHEMA,
            command: NotifyingCommand::Compare,
            outcome,
            title: format!("rehearse compare: {head}"),
            verdicts: vec![NotifiedVerdict {
                change: None,
                verdict: view.verdict.name().to_owned(),
                message: why,
            }],
            sources: [("before", &view.before), ("after", &view.after)]
                .into_iter()
                .flat_map(|(label, side)| side.runs.iter().map(move |run| source(label, run)))
                .collect(),
            conditions,
            cautions: first_texts(&view.warnings),
            findings: findings.collect(),
            findings_left_out: 0,
            left_out: NotifiedRest::default(),
        }
        .limited()
    }

    /// Describes a proof.
    pub fn of_proof(view: &ProofReport) -> Self {
        let several = view.sides.len() > 1;
        let name = |side: &ProofSideReport| one_line(&side.name, NAME_MAX);
        let findings = view.sides.iter().flat_map(|side| {
            let change = several.then(|| name(side));
            let statements = |list: &[StatementComparison]| {
                let of = |one| of_statement(change.clone(), one);
                list.iter().map(of).collect::<Vec<_>>()
            };
            let errors = side.errors.iter().filter(|one| one.regression);
            let errors: Vec<_> = errors.map(|one| of_error(change.clone(), one)).collect();
            [
                statements(&side.slower),
                errors,
                statements(&side.suspected),
                statements(&side.faster),
            ]
            .concat()
        });
        let is_stopped = view.ended == ProofEnd::Stopped;
        let outcome = match () {
            () if view.sides.iter().any(|side| side.worse) => Outcome::Worse,
            () if is_stopped => Outcome::Unclear,
            () if view.sides.iter().all(|side| side.verdict.is_clear()) => Outcome::Fine,
            () => Outcome::Unclear,
        };
        let title = view.sides.iter().take(LISTED_MAX).map(|side| {
            let verdict = side.verdict.name();
            format!("{}: {verdict}", name(side))
        });
        let title: Vec<String> = title.collect();
        let mut cautions = first_of_sides(view);
        if is_stopped {
            cautions.insert(0, "the proof was stopped before its end".to_owned());
        }
        let server = |label, name: &str| NotifiedSource {
            label,
            name: one_line(name, NAME_MAX),
            server_version: String::new(),
        };
        Notification {
            schema: Self::SCHEMA,
            command: NotifyingCommand::Prove,
            outcome,
            title: format!("rehearse prove: {}", title.join("; ")),
            verdicts: view
                .sides
                .iter()
                .map(|side| NotifiedVerdict {
                    change: Some(name(side)),
                    verdict: side.verdict.name().replace(' ', "_"),
                    message: verdict_text(view, side),
                })
                .collect(),
            sources: vec![
                server("workload", &view.workload),
                server("server", &view.place),
            ],
            conditions: Vec::new(),
            cautions,
            findings: findings.collect(),
            findings_left_out: 0,
            left_out: NotifiedRest::default(),
        }
        .limited()
    }

    /// Renders the message in a form, as JSON on one line.
    pub fn render(&self, form: NotificationForm) -> String {
        let value = match form {
            NotificationForm::Slack => slack::render(self),
            NotificationForm::Teams => teams::render(self),
            NotificationForm::Json => json!(self),
        };
        crate::json::to_json_line(&value)
    }

    /// Cuts the lists to their limits, and counts what is left out.
    fn limited(mut self) -> Self {
        self.findings_left_out = cut(&mut self.findings, FINDINGS_MAX);
        self.left_out = NotifiedRest {
            verdicts: cut(&mut self.verdicts, LISTED_MAX),
            sources: cut(&mut self.sources, LISTED_MAX),
            conditions: cut(&mut self.conditions, LISTED_MAX),
            cautions: cut(&mut self.cautions, LISTED_MAX),
        };
        for caution in &mut self.cautions {
            *caution = one_line(caution, CAUTION_MAX);
        }
        self
    }

    /// Returns what a chat shows below the title, as paragraphs.
    fn paragraphs(&self) -> Vec<Paragraph> {
        let cautions = self.cautions.iter().map(|one| format!("Caution: {one}"));
        let verdicts = self.verdicts.iter().map(|one| one.message.clone());
        let conditions = self.conditions.iter();
        let conditions = conditions.map(|one| format!("Condition {one}"));
        let texts = cautions.chain(verdicts).chain(conditions);
        let texts = texts.filter(|text| !text.is_empty());
        let mut paragraphs: Vec<Paragraph> = texts.map(|text| vec![Span::plain(text)]).collect();
        paragraphs.extend(self.sources.iter().map(NotifiedSource::paragraph));
        paragraphs.extend(self.findings.iter().map(NotifiedFinding::paragraph));
        if self.findings_left_out > 0 {
            let rest = count(self.findings_left_out);
            let text = format!("and {rest} more, which the command's output has");
            paragraphs.push(vec![Span::plain(text)]);
        }
        paragraphs.extend(self.left_out.paragraph());
        paragraphs
    }
}

/// Paragraph of a message.
type Paragraph = Vec<Span>;

/// Text that is shown as it is, in one style.
struct Span {
    text: String,
    style: SpanStyle,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SpanStyle {
    Plain,
    Bold,
    Code,
}

impl Span {
    fn plain(text: impl Into<String>) -> Self {
        let (text, style) = (text.into(), SpanStyle::Plain);
        Span { text, style }
    }

    fn bold(text: String) -> Self {
        let style = SpanStyle::Bold;
        Span { text, style }
    }

    fn code(text: &str) -> Self {
        let (text, style) = (text.to_owned(), SpanStyle::Code);
        Span { text, style }
    }
}

impl NotifiedFinding {
    /// Shows the finding with its factor and the change that it belongs to, then its statement and times.
    fn paragraph(&self) -> Paragraph {
        let mut head = match &self.change {
            Some(change) => format!("{change}: {}", self.finding),
            None => self.finding.clone(),
        };
        if let Some((factor, measure)) = self.factor.zip(self.measure) {
            head.push_str(&format!(" × {} ({measure})", ratio(factor)));
        }
        vec![
            Span::bold(head),
            Span::plain("\n"),
            Span::code(&self.statement),
            Span::plain(format!("\n{}", self.detail)),
        ]
    }
}

impl NotifiedSource {
    fn paragraph(&self) -> Paragraph {
        let mut spans = vec![
            Span::plain(format!("{}: ", self.label)),
            Span::code(&self.name),
        ];
        if !self.server_version.is_empty() {
            spans.push(Span::plain(format!(
                " (PostgreSQL {})",
                self.server_version
            )));
        }
        spans
    }
}

impl NotifiedRest {
    /// Names the numbers that are not zero.
    fn paragraph(self) -> Option<Paragraph> {
        let named = [
            (self.verdicts, "verdict", "verdicts"),
            (self.sources, "run", "runs"),
            (self.conditions, "condition", "conditions"),
            (self.cautions, "caution", "cautions"),
        ];
        let parts = named.into_iter().filter(|(number, _, _)| *number > 0);
        let parts = parts.map(|(number, one, several)| {
            let name = if number == 1 { one } else { several };
            format!("{} {name}", count(number))
        });
        let parts: Vec<String> = parts.collect();
        let text = format!(
            "Left out, and in the command's output: {}",
            parts.join(", ")
        );
        (!parts.is_empty()).then(|| vec![Span::plain(text)])
    }
}

/// Cuts a list, and returns the number of entries that are left out.
fn cut<T>(list: &mut Vec<T>, most: usize) -> u64 {
    let left_out = list.len().saturating_sub(most);
    list.truncate(most);
    left_out as u64
}

fn source(label: &'static str, run: &RunFacts) -> NotifiedSource {
    NotifiedSource {
        label,
        name: one_line(&run.name, NAME_MAX),
        server_version: one_line(&run.server_version, NAME_MAX),
    }
}

fn of_statement(change: Option<String>, one: &StatementComparison) -> NotifiedFinding {
    let measure = one.service.measure();
    let factor = one.service.ratio(measure).map(|found| found.value);
    let factor = factor.filter(|value| value.is_finite());
    let parts = [measured_change(&one.service), evidence_text(&one.change)];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    NotifiedFinding {
        change,
        finding: change_word(one),
        fingerprint: Some(one.fingerprint),
        statement: one_line(&name_of(one), STATEMENT_MAX),
        factor,
        measure: factor.map(|_| match measure {
            Measure::Median => "median",
            other => other.name(),
        }),
        detail: parts.join("; "),
    }
}

fn of_error(change: Option<String>, one: &ErrorChange) -> NotifiedFinding {
    NotifiedFinding {
        change,
        finding: format!("{} error {}", one.direction.name(), one.sqlstate),
        fingerprint: one.fingerprint,
        statement: one_line(&error_subject(one), STATEMENT_MAX),
        factor: None,
        measure: None,
        detail: format!("{} → {} times", count(one.before), count(one.after)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_beyond_a_limit_are_counted_in_one_paragraph() {
        let mut runs: Vec<u32> = (0..10).collect();
        let rest = NotifiedRest {
            sources: cut(&mut runs, LISTED_MAX),
            cautions: 1,
            ..NotifiedRest::default()
        };
        assert_eq!((runs.len(), rest.sources), (LISTED_MAX, 2));
        let text = &rest.paragraph().unwrap()[0].text;
        assert_eq!(
            text,
            "Left out, and in the command's output: 2 runs, 1 caution"
        );
        assert!(NotifiedRest::default().paragraph().is_none());
    }
}
