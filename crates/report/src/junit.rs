//! Renders a comparison as JUnit XML in the form that GitLab, Jenkins and others read.
//!
//! A test case fails if it is a reason for the exit code 1: if a condition of `--fail-on` holds for
//! it. Without a condition, `regression` is used.

use std::collections::HashMap;

use compare::condition::{ConditionOutcome, ConditionStatement};
use compare::{
    Comparison, ContextsComparison, Direction, ErrorChange, RowsChange, StatementComparison,
};
use sql::Fingerprint;

use crate::json::Document;
use crate::text::change_text::{change_word, evidence_text, plan_line, verdict_words};
use crate::text::compare_text::{
    caveats, context_cells, error_notes, error_subject, slow_trace, warning_text,
};
use crate::text::condition_text;
use crate::text::first_text::{first_texts, later_warnings};
use crate::text::line::{one_line, statement_name};
use crate::text::rows_text::{
    rows_change_text, rows_columns_text, rows_reason_text, uncompared_rows_text,
};
use crate::text::times_text::{change, name_of, p50, p99, ratio_text};
use crate::text::units::{count, counted};
use crate::text::{TextStyle, targets_text};

/// Maximum number of characters of a statement in a case's name.
const NAME_MAX: usize = 160;
/// Maximum number of statements with a case each; the rest share one case.
const CASES_MAX: usize = 500;
/// Maximum number of statements, errors or rows in a message.
const LISTED_MAX: usize = 50;
/// Quantities that make the case of an error fail.
const OF_ERRORS: [&str; 7] = [
    "regression",
    "errors",
    "new_errors",
    "more_errors",
    "gone_errors",
    "failures",
    "failure_rate",
];
/// Quantities that make the case of rows fail.
const OF_ROWS: [&str; 2] = ["rows_differ", "digests_differ"];

/// Test case.
struct Case {
    name: String,
    /// Time in seconds.
    time: Option<f64>,
    /// Message in one line, and the full text.
    failure: Option<(String, String)>,
    said: String,
}

/// Renders the comparison as JUnit XML, ending with a line feed.
pub fn render_junit(view: &Comparison) -> String {
    let mut suites = vec![
        ("conditions", conditions(view)),
        ("statements", statements(view)),
        ("errors", vec![errors(view)]),
        ("rows", vec![rows(view)]),
    ];
    suites.extend(
        view.contexts
            .as_ref()
            .map(|one| ("contexts", contexts(one))),
    );
    let failed = |cases: &[Case]| cases.iter().filter(|case| case.failure.is_some()).count();
    let (mut all, mut all_failed) = (0, 0);
    for (_, cases) in &suites {
        all += cases.len();
        all_failed += failed(cases);
    }
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    out.push_str(&format!(
        "<testsuites name=\"rehearse compare\" tests=\"{all}\" failures=\"{all_failed}\" errors=\"0\" skipped=\"0\">\n"
    ));
    for (name, cases) in &suites {
        out.push_str(&format!(
            "  <testsuite name=\"{name}\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"0\">\n",
            cases.len(),
            failed(cases)
        ));
        if *name == "conditions" {
            properties(view, &mut out);
        }
        for case in cases {
            case.write(name, &mut out);
        }
        out.push_str("  </testsuite>\n");
    }
    out.push_str("</testsuites>\n");
    out
}

/// Escapes a text for an attribute or an element. XML 1.0 cannot represent most control characters.
fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            // Attributes would normalise these to blanks.
            '\n' | '\t' | '\r' => out.push_str(&format!("&#{};", u32::from(character))),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            control if control.is_control() => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

fn properties(view: &Comparison, out: &mut String) {
    let (head, why) = verdict_words(view);
    let first = first_texts(&view.warnings).into_iter().enumerate();
    let mut found: Vec<_> = first
        .map(|(at, text)| (format!("read_first.{}", at + 1), text))
        .collect();
    found.extend([
        ("rehearse".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ("schema".to_owned(), Comparison::SCHEMA.to_owned()),
        ("verdict".to_owned(), view.verdict.name().to_owned()),
        (
            "message".to_owned(),
            match why.as_str() {
                "" => head.to_owned(),
                why => format!("{head}: {why}"),
            },
        ),
        ("margin".to_owned(), format!("{:.0} %", view.margin * 100.0)),
    ]);
    for (label, side) in [("before", &view.before), ("after", &view.after)] {
        for (at, run) in side.runs.iter().enumerate() {
            let number = match side.runs.len() {
                1 => String::new(),
                _ => format!(".{}", at + 1),
            };
            for (what, value) in [
                ("run", run.name.clone()),
                ("workload", run.workload.clone()),
                ("server_version", run.server_version.clone()),
                ("target", run.target.clone()),
                ("speed", run.speed.clone()),
                ("statements", (run.done + run.failed).to_string()),
                ("failed", run.failed.to_string()),
                ("skipped", run.skipped.to_string()),
            ] {
                found.push((format!("{label}{number}.{what}"), value));
            }
        }
    }
    for (at, warning) in later_warnings(&view.warnings).enumerate() {
        found.push((format!("warning.{}", at + 1), warning_text(warning)));
    }
    if let Some(targets) = &view.targets {
        for (label, version) in [
            ("before", &targets.version_before),
            ("after", &targets.version_after),
        ] {
            if let Some(version) = version {
                found.push((format!("target.{label}.version"), version.clone()));
            }
        }
        let lines = targets_text::lines(targets, TextStyle::default());
        if !lines.is_empty() {
            // The first two lines are a blank line and a title.
            found.push(("target.differences".to_owned(), lines[2..].join("\n")));
        }
    }
    out.push_str("    <properties>\n");
    for (name, value) in found {
        let (name, value) = (xml(&name), xml(&value));
        out.push_str(&format!(
            "      <property name=\"{name}\" value=\"{value}\"/>\n"
        ));
    }
    out.push_str("    </properties>\n");
}

impl Case {
    fn write(&self, suite: &str, out: &mut String) {
        out.push_str(&format!(
            "    <testcase classname=\"rehearse.{suite}\" name=\"{}\"",
            xml(&self.name)
        ));
        if let Some(time) = self.time {
            out.push_str(&format!(" time=\"{time:.6}\""));
        }
        if self.failure.is_none() && self.said.is_empty() {
            out.push_str("/>\n");
            return;
        }
        out.push_str(">\n");
        if let Some((message, text)) = &self.failure {
            let (message, text) = (xml(message), xml(text));
            out.push_str(&format!(
                "      <failure message=\"{message}\" type=\"{suite}\">{text}</failure>\n"
            ));
        }
        if !self.said.is_empty() {
            out.push_str(&format!(
                "      <system-out>{}</system-out>\n",
                xml(&self.said)
            ));
        }
        out.push_str("    </testcase>\n");
    }
}

/// Whether a reason for the exit code 1 is one of these quantities.
fn is_requested(view: &Comparison, names: &[&str]) -> bool {
    let asks = |condition: &ConditionOutcome| {
        let mut words = condition.quantities.iter();
        condition.holds && words.any(|word| names.contains(word))
    };
    match view.conditions.is_empty() {
        true => names.contains(&"regression"),
        false => view.conditions.iter().any(asks),
    }
}

fn conditions(view: &Comparison) -> Vec<Case> {
    let (head, why) = verdict_words(view);
    let verdict = match why.as_str() {
        "" => format!("{head}."),
        why => format!("{head}: {why}."),
    };
    let said = format!("{verdict}\n{}", caveats(view).join(" "));
    if view.conditions.is_empty() {
        let regression = view.has_regression();
        return vec![Case {
            name: "regression".to_owned(),
            time: None,
            failure: regression.then(|| (verdict, said.clone())),
            said: if regression { String::new() } else { said },
        }];
    }
    let case = |condition: &ConditionOutcome| {
        let (head, tail) = condition_text::outcome(condition);
        let mut said: Vec<String> = vec![said.clone()];
        let measured = condition_text::measured(&condition.measured);
        said.extend([measured, tail].into_iter().filter(|part| !part.is_empty()));
        for statement in condition.statements.iter().take(LISTED_MAX) {
            let measured = condition_text::measured(&statement.measured);
            let name = statement_name(statement.sql.as_deref(), statement.fingerprint);
            said.push(format!("{measured}: {name}"));
        }
        let said = said.join("\n");
        let message = format!("{} {head}", condition.condition);
        Case {
            name: condition.condition.clone(),
            time: None,
            failure: condition.holds.then(|| (message, said.clone())),
            said: if condition.holds { String::new() } else { said },
        }
    };
    view.conditions.iter().map(case).collect()
}

/// Returns cases for statements that changed or that a condition names.
fn statements(view: &Comparison) -> Vec<Case> {
    let verdict_asked = is_requested(view, &["regression", "slower"]);
    let mut named: HashMap<Fingerprint, Vec<(&str, &ConditionStatement)>> = HashMap::new();
    for condition in &view.conditions {
        for found in &condition.statements {
            let of = named.entry(found.fingerprint).or_default();
            of.push((&condition.condition, found));
        }
    }
    let named = |one: &StatementComparison| {
        let found = named.get(&one.fingerprint);
        found.map_or(&[][..], Vec::as_slice)
    };
    let is_cause = |one: &StatementComparison| one.change.is_cause(Direction::Slower);
    let fails =
        |one: &StatementComparison| !named(one).is_empty() || is_cause(one) && verdict_asked;
    let told = |one: &&StatementComparison| one.change.importance() > 0;
    let (mut shown, changed): (Vec<_>, Vec<_>) = view
        .statements
        .iter()
        .filter(|one| fails(one) || told(one))
        .partition(|one| fails(one));
    let failed = shown.len();
    shown.extend(changed);
    let all = shown.len();
    shown.truncate(CASES_MAX);
    let caveat = caveats(view).join(" ");
    let mut cases: Vec<Case> = Vec::with_capacity(shown.len() + 1);
    for one in shown {
        let reasons: Vec<String> = named(one)
            .iter()
            .map(|(condition, found)| {
                let measured = condition_text::measured(&found.measured);
                format!("{condition}: {measured}")
            })
            .chain((is_cause(one) && verdict_asked).then(|| "regression".to_owned()))
            .collect();
        let facts = facts(one);
        cases.push(Case {
            name: format!(
                "{} {}",
                one.fingerprint,
                one_line(one.sql.as_deref().unwrap_or_default(), NAME_MAX)
            ),
            time: one.service.after.map(|after| after.mean_ns / 1e9),
            failure: (!reasons.is_empty()).then(|| {
                let message = format!("{}; {}", summary(one), reasons.join("; "));
                (message, format!("{facts}\n{caveat}"))
            }),
            said: if reasons.is_empty() {
                facts
            } else {
                String::new()
            },
        });
    }
    if all > CASES_MAX {
        cases.push(remaining_case(
            all - CASES_MAX,
            failed.saturating_sub(CASES_MAX),
        ));
    }
    cases
}

/// Returns a case for each value of a context that changed. None fails, since contexts are no part of the verdict.
fn contexts(view: &ContextsComparison) -> Vec<Case> {
    let key = view.key.name();
    let changed = view.values.iter();
    let changed = changed.filter(|value| value.change.importance() > 0);
    let mut cases: Vec<Case> = changed
        .clone()
        .take(CASES_MAX)
        .map(|value| {
            let [finding, ratio, added, calls, p50, p99, _] = context_cells(value);
            let mut said = vec![
                format!("{finding}: {ratio}"),
                format!("median {p50}"),
                format!("p99 {p99}"),
                format!("calls {calls}, added in all {added}"),
            ];
            said.extend(value.statements.first().map(|one| {
                let name = statement_name(one.sql.as_deref(), one.fingerprint);
                format!("{} by {name}", crate::text::units::added(one.added_ns))
            }));
            said.extend(slow_trace(value).map(|(id, time)| format!("trace {id}: {time} after")));
            Case {
                name: format!("{key} {}", one_line(&value.value, NAME_MAX)),
                time: value.service.after.map(|after| after.mean_ns / 1e9),
                failure: None,
                said: said.join("\n"),
            }
        })
        .collect();
    let rest = changed.count().saturating_sub(CASES_MAX);
    if rest > 0 {
        cases.push(Case {
            name: format!("{}, together", counted(rest as u64, "more value")),
            time: None,
            failure: None,
            said: "They changed; rehearse compare --json has each.".to_owned(),
        });
    }
    cases
}

/// Returns the case of all statements beyond the limit. It fails if any of them does.
fn remaining_case(statements: usize, failed: usize) -> Case {
    let name = format!("{}, together", counted(statements as u64, "more statement"));
    let said = "Conditions name them or they changed; rehearse compare --json has each.".to_owned();
    let fails = failed > 0;
    Case {
        name,
        time: None,
        failure: fails.then(|| {
            let message = format!("{} that fail", counted(failed as u64, "more statement"));
            (message, said.clone())
        }),
        said: if fails { String::new() } else { said },
    }
}

/// Describes the finding: `slower (p99): 1.34x [1.21 – 1.48]`.
fn summary(one: &StatementComparison) -> String {
    match ratio_text(&one.service, "x") {
        Some(ratio) => format!("{}: {ratio}", change_word(one)),
        None => change_word(one),
    }
}

fn facts(one: &StatementComparison) -> String {
    let mut lines = vec![
        summary(one),
        format!("median {}", change(&one.service, p50)),
        format!("mean {}", change(&one.service, |latency| latency.mean_ns)),
        format!("p99 {}", change(&one.service, p99)),
        format!(
            "calls {} → {}, failed {} → {}",
            count(one.calls_before),
            count(one.calls_after),
            count(one.errors_before),
            count(one.errors_after)
        ),
    ];
    let evidence = evidence_text(&one.change);
    if !evidence.is_empty() {
        lines.push(evidence);
    }
    lines.extend(plan_line(one).map(|plan| format!("plan: {plan}")));
    lines.push(name_of(one).into_owned());
    lines.join("\n")
}

fn errors(view: &Comparison) -> Case {
    let line = |change: &ErrorChange| {
        format!(
            "{} {}: {} → {}: {}: {}{}",
            change.direction.name(),
            change.sqlstate,
            count(change.before),
            count(change.after),
            change.message.as_deref().unwrap_or_default(),
            error_subject(change),
            error_notes(change)
                .iter()
                .map(|note| format!(" ({note})"))
                .collect::<String>()
        )
    };
    let said: Vec<String> = view.errors.iter().take(LISTED_MAX).map(line).collect();
    let said = said.join("\n");
    let worse = view
        .errors
        .iter()
        .filter(|change| change.regression)
        .count();
    let fails = worse > 0 && is_requested(view, &OF_ERRORS);
    Case {
        name: "errors that are new or more frequent".to_owned(),
        time: None,
        failure: fails.then(|| {
            let message = format!("{} new or more frequent", counted(worse as u64, "error"));
            (message, said.clone())
        }),
        said: if fails { String::new() } else { said },
    }
}

fn rows(view: &Comparison) -> Case {
    let line = |change: &RowsChange| {
        let sql = statement_name(change.sql.as_deref(), change.fingerprint);
        let columns = rows_columns_text(change).map(|columns| format!("\n  {columns}"));
        let (change, reason) = (rows_change_text(change), rows_reason_text(change));
        format!("{change}: {sql}{}\n  {reason}", columns.unwrap_or_default())
    };
    let said: Vec<String> = view
        .rows
        .changes
        .iter()
        .take(LISTED_MAX)
        .map(line)
        .collect();
    let ignored = uncompared_rows_text(&view.rows);
    let said: Vec<String> = said.into_iter().chain(ignored).collect();
    let said = said.join("\n");
    let fails = !view.rows.changes.is_empty() && is_requested(view, &OF_ROWS);
    Case {
        name: "rows that differ".to_owned(),
        time: None,
        failure: fails.then(|| {
            let statements = counted(view.rows.changes.len() as u64, "statement");
            (format!("{statements} with other rows"), said.clone())
        }),
        said: if fails { String::new() } else { said },
    }
}
