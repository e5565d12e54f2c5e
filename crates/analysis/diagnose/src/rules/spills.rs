//! Sorts and hashes that exceed `work_mem` and use temporary files.

use super::Rule;
use super::discarded_rows::wasteful_cte;
use crate::evidence::{Evidence, StatementEvidence, Unavailable};
use crate::finding::{Change, Fact, Finding, Subject};
use crate::threshold::{Threshold, Thresholds};
use statistics::Unit;

const BYTES: Threshold = Threshold {
    name: "spill-bytes",
    value: 1_048_576.0,
    unit: "bytes a call",
    decides: "a statement that writes less into temporary files is not told",
    source: "ours: 1 MiB",
};

const MOST: Threshold = Threshold {
    name: "spill-work-mem-most",
    value: 268_435_456.0,
    unit: "bytes",
    decides: "no larger work_mem is suggested",
    source: "ours: 256 MiB, since every sort and hash of every session may take it",
};

/// Ratio of the size in memory to the size in a file.
const IN_MEMORY: f64 = 3.0;
const BLOCK: f64 = 8_192.0;
const MIB: f64 = 1_048_576.0;

pub(super) const RULE: Rule = Rule {
    name: "spills",
    looks_at: "temporary files of each statement",
    thresholds: &[BYTES, MOST],
    evaluate,
};

fn evaluate(evidence: &Evidence, thresholds: &Thresholds) -> Result<Vec<Finding>, Unavailable> {
    if let (Err(missing), Err(_)) = (&evidence.counted, &evidence.log) {
        return Err(missing.clone());
    }
    let all = evidence.statements.iter();
    Ok(all
        .filter_map(|one| spill(evidence, thresholds, one))
        .collect())
}

fn spill(evidence: &Evidence, thresholds: &Thresholds, one: &StatementEvidence) -> Option<Finding> {
    let logged = evidence.log.as_ref().ok().and_then(|log| {
        let (_, bytes) = log.temporary_files.get(&Some(one.fingerprint))?;
        Some((
            *bytes as f64,
            one.calls,
            "the server's log (log_temp_files)",
        ))
    });
    // Data is written and read again, so the sum is twice the size.
    let counted = one.counted.map(|counted| {
        let bytes = counted.temp_blocks as f64 * BLOCK / 2.0;
        (
            bytes,
            counted.calls,
            "temp_blks_written and _read of pg_stat_statements",
        )
    });
    let (bytes, calls, from) = counted.filter(|(bytes, ..)| *bytes > 0.0).or(logged)?;
    let each = bytes / calls.max(1) as f64;
    // The rows of a WITH query are written out, too; then they are the matter, not their memory.
    let keeps_apart = one
        .plan
        .as_ref()
        .is_some_and(|plan| wasteful_cte(thresholds, plan).is_some());
    if keeps_apart {
        return None;
    }
    if each < thresholds.of(&BYTES) {
        return None;
    }
    let now = evidence
        .setting("work_mem")
        .and_then(|kb| kb.parse::<f64>().ok());
    let wanted_mib = (each * IN_MEMORY / MIB).log2().ceil().exp2();
    let most_mib = thresholds.of(&MOST) / MIB;
    let share = evidence.share(one.ns);
    let mut facts = vec![
        Fact::new("temporary files a call", each, Unit::Bytes, from)
            .check("SELECT temp_blks_written, calls, query FROM pg_stat_statements ORDER BY temp_blks_written DESC"),
        Fact::new("calls", calls as f64, Unit::Count, from),
        Fact::new("time a call", one.ns_per_call(), Unit::Nanoseconds, "the statement's own times"),
    ];
    if let Some(kb) = now {
        facts.push(
            Fact::new("work_mem", kb * 1_024.0, Unit::Bytes, "pg_settings").check("SHOW work_mem"),
        );
    }
    let change = match wanted_mib <= most_mib {
        true => Change::setting(
            "more memory for sorts and hashes; better for the role or the transaction that needs it than for all",
            "work_mem",
            format!("{wanted_mib:.0}MB"),
        ),
        false => Change::manual(format!(
            "{wanted_mib:.0} MiB of work_mem would hold it, more than is suggested for all: give it to this statement's role \
             alone, or let an index bring the rows in order"
        )),
    };
    Some(Finding {
        rule: "",
        status: Default::default(),
        severity: thresholds.severity(share),
        subject: Subject::statement(one.fingerprint, one.sql.clone()),
        title: "it sorts or hashes more than work_mem holds, and writes temporary files".to_owned(),
        evidence: facts,
        cost: Some(evidence.cost(one, one.ns)),
        max_gain: Some(share),
        changes: vec![change],
        risk: "every sort and hash of every session may take work_mem: count sessions before it is set for all".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Form;
    use crate::synthetic::{EvidenceBuilder, statement};

    fn with(temp_blocks: u64) -> EvidenceBuilder {
        EvidenceBuilder::new()
            .statement(
                statement(1, "select * from orders order by note")
                    .took(10, 5.0)
                    .with_counted(|counted| counted.temp_blocks = temp_blocks),
            )
            .setting("work_mem", "4096")
    }

    #[test]
    fn spilling_sort_is_found_with_the_memory_it_needs() {
        // 10 MiB a call, written and read.
        let found = with(10 * 2 * 1_280).findings(&RULE);
        assert_eq!(
            found[0].changes[0].form,
            Form::Setting("work_mem".to_owned(), "32MB".to_owned())
        );
        assert_eq!(found[0].max_gain, Some(1.0));
        let huge = with(10 * 2 * 128_000).findings(&RULE);
        assert_eq!(huge[0].changes[0].form, Form::ByHand);
    }

    #[test]
    fn small_spills_are_no_finding() {
        assert_eq!(with(0).findings(&RULE), []);
        assert_eq!(with(10 * 2 * 100).findings(&RULE), []);
    }
}
