//! A comparison as JUnit XML, in the form that GitLab, Jenkins and others read.
//!
//! A case fails where it is a reason for the exit code 1: where a condition of `--fail-on` holds for it.
//! Without one, it is as if `regression` had been asked for.

use std::collections::HashMap;

use analyse::condition::{ConditionOutcome, ConditionStatement};

use crate::text::amount::{count, counted, duration_change, ratio};
use crate::text::compare_text::{caution_text, caveats, plan_line, verdict_words};
use crate::text::condition_text;
use crate::text::line::{one_line, statement_name};
use crate::text::{TextStyle, targets_text};
use crate::view::compare::{CompareView, ErrorChangeView, StatementCompareView};
use crate::view::latency::LatencyView;

/// So much of a statement is a case's name.
const NAME_MAX: usize = 160;
/// So many statements have a case of their own; the rest is one case.
const CASES_MAX: usize = 500;
/// So many statements, errors or rows stand in one message.
const LISTED_MAX: usize = 50;
/// What makes a case of errors fail.
const OF_ERRORS: [&str; 7] = [
    "regression",
    "errors",
    "new_errors",
    "more_errors",
    "gone_errors",
    "failures",
    "failure_rate",
];
/// What makes the case of rows fail.
const OF_ROWS: [&str; 2] = ["rows_differ", "digests_differ"];

/// One case.
struct Case {
    name: String,
    /// In seconds.
    time: Option<f64>,
    /// A line, and all there is to say.
    failure: Option<(String, String)>,
    said: String,
}

/// The comparison as JUnit XML, ending with a line feed.
pub fn render_junit(view: &CompareView) -> String {
    let suites = [
        ("conditions", conditions(view)),
        ("statements", statements(view)),
        ("errors", vec![errors(view)]),
        ("rows", vec![rows(view)]),
    ];
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

/// A text for an attribute or between tags: XML 1.0 has no way to write most control characters.
fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            // In an attribute they would become blanks.
            '\n' | '\t' | '\r' => out.push_str(&format!("&#{};", u32::from(character))),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            control if control.is_control() => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

fn properties(view: &CompareView, out: &mut String) {
    let (head, why) = verdict_words(view);
    let mut found = vec![
        ("rehearse".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ("schema".to_owned(), view.schema.to_owned()),
        (
            "verdict".to_owned(),
            match why.as_str() {
                "" => head.to_owned(),
                why => format!("{head}: {why}"),
            },
        ),
        ("verdict.word".to_owned(), view.verdict.word.to_owned()),
        ("margin".to_owned(), format!("{:.0} %", view.margin * 100.0)),
    ];
    for (label, side) in [("before", &view.before), ("after", &view.after)] {
        for (at, run) in side.runs.iter().enumerate() {
            let number = match side.runs.len() {
                1 => String::new(),
                _ => format!(".{}", at + 1),
            };
            for (what, value) in [
                ("run", run.run.clone()),
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
    for (at, caution) in view.cautions.iter().enumerate() {
        found.push((format!("caution.{}", at + 1), caution_text(caution)));
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
            // The first two are a blank line and a title.
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

/// Whether a reason for the exit code 1 is one of these.
fn is_asked(view: &CompareView, names: &[&str]) -> bool {
    let asks = |condition: &ConditionOutcome| {
        let mut words = condition.quantities.iter();
        condition.holds && words.any(|word| names.contains(word))
    };
    match view.conditions.is_empty() {
        true => names.contains(&"regression"),
        false => view.conditions.iter().any(asks),
    }
}

fn text_of<'a>(sql: &'a str, fingerprint: &'a str) -> &'a str {
    if sql.is_empty() { fingerprint } else { sql }
}

fn conditions(view: &CompareView) -> Vec<Case> {
    let (head, why) = verdict_words(view);
    let verdict = match why.as_str() {
        "" => format!("{head}."),
        why => format!("{head}: {why}."),
    };
    let said = format!("{verdict}\n{}", caveats(view).join(" "));
    if view.conditions.is_empty() {
        let regression = view.verdict.word == "regression";
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

/// Those that changed, or that a condition names.
fn statements(view: &CompareView) -> Vec<Case> {
    let verdict_asked = is_asked(view, &["regression", "slower"]);
    let mut named: HashMap<String, Vec<(&str, &ConditionStatement)>> = HashMap::new();
    for condition in &view.conditions {
        for found in &condition.statements {
            let of = named.entry(found.fingerprint.to_string()).or_default();
            of.push((&condition.condition, found));
        }
    }
    let named = |one: &StatementCompareView| {
        let found = named.get(one.fingerprint.as_str());
        found.map_or(&[][..], Vec::as_slice)
    };
    let fails =
        |one: &StatementCompareView| !named(one).is_empty() || one.regression && verdict_asked;
    let told = |one: &&StatementCompareView| one.regression || one.service.measure.is_some();
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
            .chain((one.regression && verdict_asked).then(|| "regression".to_owned()))
            .collect();
        let facts = facts(one);
        cases.push(Case {
            name: format!("{} {}", one.fingerprint, one_line(&one.sql, NAME_MAX)),
            time: one.service.after.map(|after| after.mean_us / 1e6),
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
        cases.push(the_rest(all - CASES_MAX, failed.saturating_sub(CASES_MAX)));
    }
    cases
}

/// What has no case of its own for there being too many; fails where any of them does.
fn the_rest(statements: usize, failed: usize) -> Case {
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

/// `slower (p99): 1.34x [1.21 – 1.48]`.
fn summary(one: &StatementCompareView) -> String {
    let times = &one.service;
    let (name, shown) = match times.measure {
        Some("mean") => (" (mean)", times.mean_ratio),
        Some("p99") => (" (p99)", times.p99_ratio),
        _ => ("", times.median_ratio),
    };
    match shown.and_then(|shown| Some((shown.ratio, shown.low?, shown.high?))) {
        Some((value, low, high)) => format!(
            "{}{name}: {}x [{} – {}]",
            times.finding,
            ratio(value),
            ratio(low),
            ratio(high)
        ),
        None => times.finding.to_owned(),
    }
}

fn facts(one: &StatementCompareView) -> String {
    let change = |get: fn(&LatencyView) -> f64| {
        duration_change(
            one.service.before.as_ref().map(get),
            one.service.after.as_ref().map(get),
        )
    };
    let mut lines = vec![
        summary(one),
        format!("median {}", change(|latency| latency.p50_us)),
        format!("mean {}", change(|latency| latency.mean_us)),
        format!("p99 {}", change(|latency| latency.p99_us)),
        format!(
            "calls {} → {}, failed {} → {}",
            count(one.calls_before),
            count(one.calls_after),
            count(one.errors_before),
            count(one.errors_after)
        ),
    ];
    lines.extend(plan_line(one).map(|plan| format!("plan: {plan}")));
    lines.push(text_of(&one.sql, &one.fingerprint).to_owned());
    lines.join("\n")
}

fn errors(view: &CompareView) -> Case {
    let line = |change: &ErrorChangeView| {
        let what = match (change.sql.as_str(), &change.fingerprint) {
            ("", None) => "connecting",
            ("", Some(fingerprint)) => fingerprint,
            (sql, _) => sql,
        };
        format!(
            "{} {}: {} → {}: {}: {what}",
            change.direction,
            change.sqlstate,
            count(change.before),
            count(change.after),
            change.message
        )
    };
    let said: Vec<String> = view.errors.iter().take(LISTED_MAX).map(line).collect();
    let said = said.join("\n");
    let worse = view
        .errors
        .iter()
        .filter(|change| change.regression)
        .count();
    let fails = worse > 0 && is_asked(view, &OF_ERRORS);
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

fn rows(view: &CompareView) -> Case {
    let line = |change: &crate::view::compare::RowsChangeView| {
        let sql = text_of(&change.sql, &change.fingerprint);
        match change.only_values {
            true => format!("other values in {}: {sql}", counted(change.after, "row")),
            false => format!(
                "{} → {}: {sql}",
                count(change.before),
                counted(change.after, "row")
            ),
        }
    };
    let said: Vec<String> = view.rows.iter().take(LISTED_MAX).map(line).collect();
    let said = said.join("\n");
    let fails = !view.rows.is_empty() && is_asked(view, &OF_ROWS);
    Case {
        name: "rows that differ".to_owned(),
        time: None,
        failure: fails.then(|| {
            let statements = counted(view.rows.len() as u64, "statement");
            (format!("{statements} with other rows"), said.clone())
        }),
        said: if fails { String::new() } else { said },
    }
}
