//! Evaluates conditions on a comparison.

use crate::cause::Direction;
use crate::compare::{Comparison, SideFacts, StatementComparison, TimesComparison, Verdict};
use crate::error_count::ErrorDirection;
use crate::judgement::Finding;
use crate::rows_change::RowsChange;

use super::outcome::{ConditionOutcome, ConditionStatement, MeasuredQuantity};
use super::quantity::{Flag, IntervalEnd, Kind, Name, Quantity, RunSide, Subject, TextName};
use super::{Condition, Test, Tree};

/// True, false or not known.
type Truth = Option<bool>;

impl Condition {
    /// Evaluates the condition on a comparison.
    pub fn check(&self, comparison: &Comparison) -> ConditionOutcome {
        // Without a statement, tests of statements are unknown. If the condition still holds, it
        // holds for any statement.
        let of_whole = truth(&self.tree, comparison, None);
        let of_statements = self.is_of_statements();
        let holds = of_whole == Some(true);
        let mut outcome = ConditionOutcome {
            condition: self.given.clone(),
            holds,
            quantities: self.quantities(),
            statements_checked: of_statements.then_some(comparison.statements.len()),
            unknown: usize::from(!of_statements && of_whole.is_none()),
            measured: match holds {
                true => measured(&self.tree, comparison, None),
                false => Vec::new(),
            },
            statements: Vec::new(),
        };
        if holds || !of_statements {
            return outcome;
        }
        for statement in &comparison.statements {
            match truth(&self.tree, comparison, Some(statement)) {
                Some(true) => outcome.statements.push(ConditionStatement {
                    fingerprint: statement.fingerprint,
                    sql: statement.sql.clone(),
                    measured: measured(&self.tree, comparison, Some(statement)),
                }),
                Some(false) => {}
                None => outcome.unknown += 1,
            }
        }
        outcome.holds = !outcome.statements.is_empty();
        outcome
    }
}

fn truth(tree: &Tree, comparison: &Comparison, statement: Option<&StatementComparison>) -> Truth {
    let parts = |parts: &[Tree], decides: bool| {
        let mut all = Some(!decides);
        for part in parts {
            match truth(part, comparison, statement) {
                Some(found) if found == decides => return Some(decides),
                Some(_) => {}
                None => all = None,
            }
        }
        all
    };
    match tree {
        Tree::Any(any) => parts(any, true),
        Tree::Every(every) => parts(every, false),
        Tree::Not(part) => truth(part, comparison, statement).map(|found| !found),
        Tree::Test(test) => of_test(test, comparison, statement),
    }
}

fn of_test(test: &Test, comparison: &Comparison, statement: Option<&StatementComparison>) -> Truth {
    match test {
        Test::Flag(Flag::Regression) => match comparison.verdict {
            Verdict::Regression { .. } => Some(true),
            Verdict::NoRegression { .. } => Some(false),
            Verdict::Inconclusive { .. } => None,
        },
        Test::Flag(Flag::Inconclusive) => {
            Some(matches!(comparison.verdict, Verdict::Inconclusive { .. }))
        }
        Test::Flag(Flag::Regressed) => match statement? {
            regressed if regressed.change.is_cause(Direction::Slower) => Some(true),
            unknown if matches!(unknown.service.finding, Finding::InsufficientData { .. }) => None,
            _ => Some(false),
        },
        Test::IsThere(quantity) => {
            Some(value(*quantity, Kind::Count, comparison, statement)? > 0.0)
        }
        Test::Number(quantity, operator, wanted) => {
            let kind = wanted.kind(quantity.name)?;
            let found = value(*quantity, kind, comparison, statement)?;
            Some(operator.holds(found, wanted.measured(kind)))
        }
        Test::Sql { matches, pattern } => {
            Some(pattern.matches_statement(statement?.sql.as_deref()?) == *matches)
        }
        Test::Is { name, equal, text } => {
            let is = match name {
                TextName::Fingerprint => statement?.fingerprint.to_string() == *text,
                TextName::Class | TextName::Sql => statement?.class?.name() == text,
            };
            Some(is == *equal)
        }
    }
}

/// Returns every quantity that a condition refers to with its value, without repetition, in order.
fn measured(
    tree: &Tree,
    comparison: &Comparison,
    statement: Option<&StatementComparison>,
) -> Vec<MeasuredQuantity> {
    fn of(tree: &Tree, asked: &mut Vec<(Quantity, Kind)>) {
        match tree {
            Tree::Any(parts) | Tree::Every(parts) => {
                parts.iter().for_each(|part| of(part, asked));
            }
            Tree::Not(part) => of(part, asked),
            Tree::Test(Test::IsThere(quantity)) => asked.push((*quantity, Kind::Count)),
            Tree::Test(Test::Number(quantity, _, value)) => {
                asked.extend(value.kind(quantity.name).map(|kind| (*quantity, kind)));
            }
            Tree::Test(_) => {}
        }
    }
    let mut asked = Vec::new();
    of(tree, &mut asked);
    let mut found: Vec<MeasuredQuantity> = Vec::new();
    for (quantity, kind) in asked {
        let measured = MeasuredQuantity {
            quantity: quantity.to_string(),
            unit: kind,
            value: value(quantity, kind, comparison, statement),
        };
        // A quantity of statements has no value without a statement.
        let of_none = statement.is_none() && quantity.subject == Subject::Statement;
        if !of_none && !found.contains(&measured) {
            found.push(measured);
        }
    }
    found
}

fn value(
    quantity: Quantity,
    kind: Kind,
    comparison: &Comparison,
    statement: Option<&StatementComparison>,
) -> Option<f64> {
    use Name::*;
    match quantity.name {
        Median | Mean | P95 | P99 | Max | Total | Added => {
            let times = match quantity.subject {
                Subject::Statement => &statement?.service,
                Subject::All => &comparison.all,
                Subject::Response => &comparison.response,
                Subject::Connects => &comparison.connects,
            };
            match kind {
                Kind::Ratio => ratio(quantity, times),
                _ => time(quantity, times),
            }
        }
        Calls | Failures | FailureRate | Skipped => {
            let [calls, failures, skipped] = counts(quantity, comparison, statement)?;
            match quantity.name {
                Calls => Some(calls),
                Failures => Some(failures),
                Skipped => Some(skipped),
                _ => (calls > 0.0).then(|| failures / calls),
            }
        }
        _ => whole(quantity, kind, comparison),
    }
}

/// Returns the ratio after / before, if there is enough data: that is, if its interval is known.
fn ratio(quantity: Quantity, times: &TimesComparison) -> Option<f64> {
    let measured = match quantity.name {
        Name::Median | Name::P95 => times.median_ratio?,
        Name::Mean => times.mean_ratio?,
        _ => times.p99_ratio?,
    };
    let interval = measured.interval?;
    match (quantity.end, quantity.name) {
        (Some(IntervalEnd::Low), _) => Some(interval.low),
        (Some(IntervalEnd::High), _) => Some(interval.high),
        (None, Name::P95) => {
            let (before, after) = (times.before?.p95_ns, times.after?.p95_ns);
            (before > 0).then(|| after as f64 / before as f64)
        }
        (None, _) => Some(measured.value),
    }
}

fn time(quantity: Quantity, times: &TimesComparison) -> Option<f64> {
    if quantity.name == Name::Added {
        return times.added_ns;
    }
    let latency = match side(quantity) {
        RunSide::Before => times.before?,
        RunSide::After => times.after?,
    };
    Some(match quantity.name {
        Name::Median => latency.p50_ns as f64,
        Name::P95 => latency.p95_ns as f64,
        Name::P99 => latency.p99_ns as f64,
        Name::Max => latency.max_ns as f64,
        Name::Total => latency.total_ns,
        _ => latency.mean_ns,
    })
}

fn side(quantity: Quantity) -> RunSide {
    quantity.side.unwrap_or(RunSide::After)
}

/// Returns counts of calls, failures and skipped executions.
fn counts(
    quantity: Quantity,
    comparison: &Comparison,
    statement: Option<&StatementComparison>,
) -> Option<[f64; 3]> {
    let counts = match (quantity.subject, side(quantity)) {
        (Subject::Statement, RunSide::Before) => {
            let one = statement?;
            [one.calls_before, one.errors_before, one.skipped_before]
        }
        (Subject::Statement, RunSide::After) => {
            let one = statement?;
            [one.calls_after, one.errors_after, one.skipped_after]
        }
        (_, side) => {
            let run = facts(comparison, side);
            [run.done + run.failed, run.failed, run.skipped]
        }
    };
    Some(counts.map(|count| count as f64))
}

/// Returns quantities of the whole comparison.
fn whole(quantity: Quantity, kind: Kind, comparison: &Comparison) -> Option<f64> {
    let errors = |direction: ErrorDirection| {
        let is = comparison
            .errors
            .iter()
            .filter(|change| change.direction == direction);
        is.count() as f64
    };
    let of = |of: fn(&Comparison, RunSide) -> Option<f64>| {
        if kind != Kind::Ratio {
            return of(comparison, side(quantity));
        }
        let (before, after) = (
            of(comparison, RunSide::Before)?,
            of(comparison, RunSide::After)?,
        );
        (before > 0.0).then(|| after / before)
    };
    // Rows that also differ between runs of one side are not caused by the change.
    let rows = |is: &dyn Fn(&RowsChange) -> bool| {
        let changes = comparison.rows.changes.iter();
        changes
            .filter(|change| !change.unsteady && is(change))
            .count() as f64
    };
    match quantity.name {
        Name::Throughput => of(throughput),
        Name::Elapsed => of(elapsed),
        Name::Errors => Some(facts(comparison, side(quantity)).failed as f64),
        Name::Divergence => {
            let facts = facts(comparison, side(quantity));
            let diverged = facts.diverged as f64;
            let sent = (facts.done + facts.failed) as f64;
            match kind {
                Kind::Share => (sent > 0.0).then(|| diverged / sent),
                _ => Some(diverged),
            }
        }
        Name::NewErrors => Some(errors(ErrorDirection::New)),
        Name::MoreErrors => Some(errors(ErrorDirection::More)),
        Name::GoneErrors => Some(errors(ErrorDirection::Gone)),
        Name::Slower => Some(comparison.causes(Direction::Slower).count() as f64),
        Name::Faster => Some(comparison.causes(Direction::Faster).count() as f64),
        // If no rows could be compared, it is unknown whether they differ.
        Name::RowsDiffer => (comparison.rows.compared > 0).then(|| rows(&|_| true)),
        Name::DigestsDiffer => {
            (comparison.rows.digests > 0).then(|| rows(&|change| change.only_values))
        }
        _ => None,
    }
}

/// Returns the statements answered per second.
fn throughput(comparison: &Comparison, side: RunSide) -> Option<f64> {
    facts(comparison, side).throughput_per_s
}

/// Returns the mean elapsed time of the side's runs, in nanoseconds.
fn elapsed(comparison: &Comparison, side: RunSide) -> Option<f64> {
    let runs = &facts(comparison, side).runs;
    let whole_ns: i64 = runs.iter().map(|run| run.elapsed_ns).sum();
    (whole_ns > 0).then(|| whole_ns as f64 / runs.len() as f64)
}

fn facts(comparison: &Comparison, side: RunSide) -> &SideFacts {
    match side {
        RunSide::Before => &comparison.before,
        RunSide::After => &comparison.after,
    }
}
