//! Observed numbers of the targets before and after.

use compare::Comparison;

use crate::text::units::count;

/// Maximum number of rows.
const ROWS_MAX: usize = 60;
/// Minimum relative change of a counter.
const SHARE_MIN: f64 = 0.1;

pub(super) struct Observed {
    pub(super) rows: Vec<NumberRow>,
    pub(super) more: usize,
}

pub(super) struct NumberRow {
    pub(super) name: String,
    pub(super) before: String,
    pub(super) after: String,
}

fn number(value: Option<f64>) -> String {
    match value {
        None => "–".to_owned(),
        Some(value) if value.abs() >= 1_000.0 => count(value.abs().round() as u64),
        Some(value) if value.fract() == 0.0 => format!("{value:.0}"),
        Some(value) => format!("{value:.2}"),
    }
}

pub(super) fn observed(view: &Comparison) -> Option<Observed> {
    let observed = view.observed.as_ref()?;
    let all = observed.numbers.iter();
    let told: Vec<_> = all
        .filter(|one| {
            !one.source.starts_with("pg_stat_")
                || one.source == "pg_stat_statements"
                || one.share() >= SHARE_MIN
        })
        .filter(|one| one.before.unwrap_or(0.0) != 0.0 || one.after.unwrap_or(0.0) != 0.0)
        .collect();
    let rows = told.iter().take(ROWS_MAX).map(|one| NumberRow {
        name: [&one.source, &one.object, &one.name]
            .into_iter()
            .filter(|word| !word.is_empty())
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(" · "),
        before: number(one.before),
        after: number(one.after),
    });
    let rows: Vec<NumberRow> = rows.collect();
    (!rows.is_empty()).then(|| Observed {
        more: told.len() - rows.len(),
        rows,
    })
}
