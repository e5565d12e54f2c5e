//! Text on an export of what a planner reads, and on a check of plans.

use plans::PlanRisk;
use study::plan_check::{
    CheckedSide, CheckedStatement, Coverage, LimitedSide, PlanCheck, PlanPair, PlanValues,
    PlanVerdict,
};
use study::plan_export::PlanExportReport;

use crate::text::line::{one_line, wrapped};
use crate::text::plan_text;
use crate::text::style::{TextStyle, Tone, readable};
use crate::text::units::{bytes, count, counted, duration, percent, ratio};

/// Largest number of entries of the lists of what is not covered.
const LISTED_MAX: usize = 10;

/// Renders the report on an export, ending with a line feed.
pub fn render_export(export: &PlanExportReport) -> String {
    let (tables, indexes) = export.relations;
    let mut lines = vec![
        format!(
            "{}: what the planner of PostgreSQL {} reads of the database {}, {} in {:.1} s",
            export.path.display(),
            one_line(&export.server_version, 40),
            one_line(&export.database, 60),
            bytes(export.bytes),
            export.elapsed_ns as f64 / 1e9,
        ),
        format!(
            "  {}, {} ({} on the server), statistics of {}",
            counted(tables, "table"),
            match indexes {
                1 => "1 index".to_owned(),
                number => format!("{} indexes", count(number)),
            },
            bytes(export.relation_bytes),
            counted(export.columns, "column"),
        ),
        match &export.mask_key {
            None => "  It has values of columns (most common values, histograms), and no rows."
                .to_owned(),
            Some(key) => format!(
                "  Values of columns are masked with the key {key}. Constants of the schema (checks, defaults, partitions) are not."
            ),
        },
    ];
    if !export.not_exported.is_empty() {
        lines.push("Not exported:".to_owned());
    }
    for (subject, reason) in &export.not_exported {
        let text = one_line(&format!("{subject}: {reason}"), 400);
        lines.extend(wrapped(&text, "  ", "    ", 100));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// Renders a check, ending with a line feed.
pub fn render_text(check: &PlanCheck, style: &TextStyle) -> String {
    let width = readable(style.columns());
    let mut lines = wrapped(
        &style.paint(Tone::Heading, &heading(check)),
        "",
        "  ",
        width,
    );
    lines.extend(wrapped(&coverage(&check.coverage), "  ", "  ", width));
    let differing = check
        .statements
        .iter()
        .filter(|one| one.verdict != PlanVerdict::Same);
    for (number, statement) in (1..).zip(differing) {
        lines.push(String::new());
        lines.extend(changed_statement(
            number,
            statement,
            &check.coverage,
            *style,
        ));
    }
    let mut rest = Vec::new();
    rest.extend(conditions(check));
    rest.extend(unstable(check, width));
    rest.extend(unchecked(check, width));
    rest.extend(limitations(check, width));
    if !rest.is_empty() {
        lines.push(String::new());
        lines.extend(rest);
    }
    lines.push(String::new());
    lines.join("\n")
}

/// Returns what was compared, and the number of changes.
pub(crate) fn heading(check: &PlanCheck) -> String {
    let number = |verdict| {
        let all = check.statements.iter();
        all.filter(|one| one.verdict == verdict).count() as u64
    };
    let coverage = &check.coverage;
    let unchecked = match coverage.unchecked_statements {
        0 => String::new(),
        number => format!(
            "; {} not checked, with {} of the executions",
            counted(number, "statement"),
            percent(
                coverage.unchecked_executions as f64,
                (coverage.executions + coverage.unchecked_executions) as f64
            )
        ),
    };
    let errors = match number(PlanVerdict::Error) {
        0 => String::new(),
        errors => format!(
            ", {} refused by the server after",
            counted(errors, "statement")
        ),
    };
    format!(
        "{} → {}: {} of {} {}{errors}{unchecked}",
        side(&check.before),
        side(&check.after),
        match number(PlanVerdict::Changed) {
            0 => "no plan".to_owned(),
            changed => format!("the plans of {}", count(changed)),
        },
        counted(coverage.statements, "statement"),
        match number(PlanVerdict::Changed) {
            0 => "changes",
            _ => "change",
        },
    )
}

fn side(side: &CheckedSide) -> String {
    let mut text = format!("PostgreSQL {}", one_line(&side.server_version, 40));
    if let Some(change) = &side.change {
        text.push_str(&format!(" with {}", one_line(change, 80)));
    }
    if !side.settings.is_empty() {
        text.push_str(&format!(
            " with {}",
            one_line(&side.settings.join(", "), 160)
        ));
    }
    text
}

/// Returns the share of the workload that was checked.
pub(crate) fn coverage(coverage: &Coverage) -> String {
    let all = coverage.executions + coverage.unchecked_executions;
    let mut text = format!(
        "{} compared; the statements have {} of the executions",
        match coverage.plans {
            1 => "1 plan was".to_owned(),
            number => format!("{} were", counted(number, "plan")),
        },
        percent(coverage.executions as f64, all as f64),
    );
    let time = coverage.all_captured_us();
    if time > 0 {
        let share = percent(coverage.captured_us as f64, time as f64);
        text.push_str(&format!(" and {share} of the captured time"));
    }
    text.push_str(" of those that have a plan.");
    if coverage.without_plan > 0 {
        text.push_str(&format!(
            " Not counted: {} without a plan, such as BEGIN and SET.",
            counted(coverage.without_plan, "statement")
        ));
    }
    text
}

/// Returns the number of executions of a statement, and their share of the captured time of all statements, checked or not.
pub(crate) fn share_text((executions, captured_us): (u64, u64), coverage: &Coverage) -> String {
    let share = match coverage.all_captured_us() {
        0 => String::new(),
        all => format!(
            ", {} ({} of the captured time)",
            duration(captured_us as f64),
            percent(captured_us as f64, all as f64)
        ),
    };
    format!("{}{share}", counted(executions, "execution"))
}

fn changed_statement(
    number: usize,
    statement: &CheckedStatement,
    coverage: &Coverage,
    style: TextStyle,
) -> Vec<String> {
    let width = readable(style.columns());
    let mut lines = vec![format!(
        "{number}. {}",
        one_line(&statement.sql, width.saturating_sub(4))
    )];
    let amount = (statement.executions, statement.captured_us);
    let share = format!("   {}", share_text(amount, coverage));
    lines.push(style.paint(Tone::Aside, &share));
    for change in plan_changes(statement) {
        let text = format!("{}: {}", change.values, change.text);
        lines.extend(wrapped(&text, "   ", "     ", width));
    }
    for risk in statement_risks(statement) {
        lines.push(style.paint(Tone::Bad, &format!("   ! {risk}")));
    }
    lines
}

/// Change of a statement's plan that is the same for some values.
pub(crate) struct ChangeOfPlan<'c> {
    /// Values, in words.
    pub(crate) values: String,
    /// Change, in words.
    pub(crate) text: String,
    /// Plans for the first of the values.
    pub(crate) pair: &'c PlanPair,
}

/// Returns the changes of plans that differ; equal ones once.
pub(crate) fn plan_changes(statement: &CheckedStatement) -> Vec<ChangeOfPlan<'_>> {
    let captured = statement.plans.iter();
    let sets = captured
        .filter(|pair| pair.values != PlanValues::Generic)
        .count();
    let mut changes: Vec<ChangeOfPlan<'_>> = Vec::new();
    for (number, pair) in (1..).zip(&statement.plans) {
        if pair.verdict() == PlanVerdict::Same {
            continue;
        }
        let values = match pair.values {
            PlanValues::Generic => "generic plan".to_owned(),
            PlanValues::Captured { .. } if sets == 1 => "captured values".to_owned(),
            PlanValues::Captured { .. } => format!("values {number} of {sets}"),
        };
        let text = describe(pair);
        match changes.iter_mut().find(|known| known.text == text) {
            Some(known) => known.values.push_str(&format!(", {values}")),
            None => changes.push(ChangeOfPlan { values, text, pair }),
        }
    }
    changes
}

fn describe(pair: &PlanPair) -> String {
    let mut text = one_line(&plan_text::line(&pair.plans), 600);
    if let (Some(before), Some(after), Some(factor)) =
        (pair.cost_before, pair.cost_after, pair.cost_ratio)
    {
        text.push_str(&format!(
            "; estimated cost {before:.0} → {after:.0} (× {})",
            ratio(factor)
        ));
    }
    if let Some(text_of_copies) = perturbed_text(pair) {
        text.push_str("; ");
        text.push_str(&text_of_copies);
    }
    text
}

/// Returns the number of perturbed copies in which a changed plan changes, and the range of the cost ratios.
fn perturbed_text(pair: &PlanPair) -> Option<String> {
    let found = pair
        .perturbed
        .filter(|_| pair.verdict() == PlanVerdict::Changed)?;
    Some(format!(
        "it changes in {} of {} perturbed copies of the statistics (cost × {} to {})",
        count(found.changed),
        count(found.copies),
        ratio(found.cost_ratio_min),
        ratio(found.cost_ratio_max)
    ))
}

/// Returns the risks of a statement in words, once each.
pub(crate) fn statement_risks(statement: &CheckedStatement) -> Vec<String> {
    let mut risks: Vec<String> = Vec::new();
    for risk in statement.plans.iter().flat_map(|pair| &pair.risks) {
        let text = risk_text(risk);
        if !risks.contains(&text) {
            risks.push(text);
        }
    }
    let mut pairs = statement.plans.iter();
    if pairs.any(PlanPair::is_uncertain_nested_loop) {
        risks.push(
            "new nested loop over uncertain estimates: with perturbed statistics it is another join".to_owned(),
        );
    }
    risks
}

/// Returns the statements whose plans are the same, and change with a perturbed copy of the statistics.
pub(crate) fn unstable_statements(check: &PlanCheck) -> Vec<&CheckedStatement> {
    let same = check.statements.iter();
    same.filter(|one| one.verdict == PlanVerdict::Same)
        .filter(|one| one.plans.iter().any(PlanPair::is_unstable_same))
        .collect()
}

fn risk_text(risk: &PlanRisk) -> String {
    match risk {
        PlanRisk::SequentialScan { relation, .. } => {
            format!("new sequential scan of {}", one_line(relation, 80))
        }
        PlanRisk::LostIndex { index } => format!("{} is not used any more", one_line(index, 80)),
        PlanRisk::LostPruning { before, after } => {
            format!("partitions read: {before} → {after}")
        }
        PlanRisk::Jit => "it would be JIT-compiled".to_owned(),
    }
}

/// Returns the reason why the conditions are not decided, as a sentence.
pub(crate) fn undecided_text(check: &PlanCheck) -> Option<String> {
    let reason = check.undecided.as_ref()?;
    Some(format!("Not decided: {reason}. The exit code is 4."))
}

/// Returns whether each condition holds, in words.
pub(crate) fn conditions(check: &PlanCheck) -> Vec<String> {
    let all = check.conditions.iter();
    all.map(|condition| match condition.holds {
        true => format!(
            "Condition '{}' holds for {}.",
            condition.condition,
            counted(condition.statements.len() as u64, "statement")
        ),
        false => format!("Condition '{}' does not hold.", condition.condition),
    })
    .chain(undecided_text(check))
    .collect()
}

/// Title of the statements whose plans are the same, and change with a perturbed copy of the statistics.
pub(crate) const UNSTABLE_TITLE: &str = "The same, but changed with perturbed statistics";

fn unstable(check: &PlanCheck, width: usize) -> Vec<String> {
    let found = unstable_statements(check);
    let lines = found.iter().map(|one| {
        format!(
            "{} ({})",
            one_line(&one.sql, 90),
            counted(one.executions, "execution")
        )
    });
    list(&format!("{UNSTABLE_TITLE}:"), lines, width)
}

fn unchecked(check: &PlanCheck, width: usize) -> Vec<String> {
    let lines = check.unchecked.iter().map(|one| {
        format!(
            "{} ({}): {}",
            one_line(&one.sql, 60),
            share_text((one.executions, one.captured_us), &check.coverage),
            one_line(&one.reason, 800)
        )
    });
    list("Not checked:", lines, width)
}

fn limitations(check: &PlanCheck, width: usize) -> Vec<String> {
    list(
        "Different from the exported server:",
        limitation_texts(check).into_iter(),
        width,
    )
}

/// Returns the limitations in words.
pub(crate) fn limitation_texts(check: &PlanCheck) -> Vec<String> {
    let all = check.limitations.iter();
    all.map(|one| {
        let side = match one.side {
            LimitedSide::Export | LimitedSide::Both => "",
            LimitedSide::Before => "before: ",
            LimitedSide::After => "after: ",
        };
        one_line(&format!("{side}{}: {}", one.subject, one.reason), 400)
    })
    .collect()
}

fn list(title: &str, texts: impl ExactSizeIterator<Item = String>, width: usize) -> Vec<String> {
    let all = texts.len();
    if all == 0 {
        return Vec::new();
    }
    let mut lines = vec![title.to_owned()];
    for text in texts.take(LISTED_MAX) {
        lines.extend(wrapped(&text, "  ", "    ", width));
    }
    if all > LISTED_MAX {
        lines.push(format!(
            "  and {} more (--json lists all)",
            all - LISTED_MAX
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_of_a_statement_is_of_all_captured_time_checked_or_not() {
        let coverage = |captured_us, unchecked_captured_us| Coverage {
            statements: 1,
            plans: 1,
            executions: 7,
            captured_us,
            unchecked_statements: 1,
            unchecked_executions: 3,
            unchecked_captured_us,
            without_plan: 0,
        };
        let expected = "7 executions, 2.00 s (20.0 % of the captured time)";
        for checked in [coverage(10_000_000, 0), coverage(2_000_000, 8_000_000)] {
            assert_eq!(share_text((7, 2_000_000), &checked), expected);
        }
    }
}
