//! Text on the shards of a run that several workers wrote.

use clock::duration_text;
use run::{PartState, ShardDivision, ShardState};

use crate::text::line::wrapped;
use crate::text::style::TextStyle;
use crate::text::units::{count, counted};
use study::run_summary::RunReport;

/// Most sessions of a shard that are named.
const NAMED_MAX: usize = 12;

/// Returns the division, and what is missing of each shard; none for a run of one worker.
pub(super) fn lines(view: &RunReport, style: TextStyle) -> Vec<String> {
    let Some(account) = &view.shards else {
        return Vec::new();
    };
    let by = match account.division {
        ShardDivision::Sessions => "sessions divided by a hash of their numbers".to_owned(),
        ShardDivision::Dependencies {
            groups,
            largest_group_statements,
        } => format!(
            "sessions divided in {} that do not depend on each other, the largest with {}",
            counted(groups, "group"),
            counted(largest_group_statements, "statement")
        ),
    };
    let text = format!(
        "{} workers, {by}; started together to ± {}",
        count(account.shards.len() as u64),
        duration_text((account.clock_uncertainty_max_us * 1e3) as i64)
    );
    let mut lines = wrapped(&text, "  shards       ", "               ", style.columns());
    for shard in account.incomplete() {
        let text = describe(shard, &view.run, account.shards.len());
        lines.extend(wrapped(
            &text,
            "  incomplete   ",
            "               ",
            style.columns(),
        ));
    }
    lines
}

fn describe(shard: &ShardState, run: &str, shards: usize) -> String {
    let number = shard.number;
    let missing = format!(
        "shard {number} {}: {} of {} are missing, of {}",
        shard.state.explanation(),
        count(shard.missing_statements),
        counted(shard.statements, "statement"),
        sessions(shard)
    );
    match shard.state {
        PartState::BeingWritten => missing,
        _ => format!(
            "{missing}. `rehearse replay … --shard {number}/{shards} --resume {run} -o {run}`, with the options of the others, completes it"
        ),
    }
}

/// Names the sessions that are incomplete.
fn sessions(shard: &ShardState) -> String {
    let all = counted(shard.incomplete_sessions, "session");
    let named: Vec<String> = (shard.first_incomplete_sessions.iter())
        .take(NAMED_MAX)
        .map(u64::to_string)
        .collect();
    let more = shard.incomplete_sessions.saturating_sub(named.len() as u64);
    match (named.is_empty(), more) {
        (true, _) => all,
        (false, 0) => format!("{all} ({})", named.join(", ")),
        (false, more) => format!("{all} ({} and {} more)", named.join(", "), count(more)),
    }
}
