//! Expensive keys. Random keys spread their entries over the whole index, so that each row writes
//! full pages to the WAL. Wide keys are repeated in every index and every foreign key.

use super::Rule;
use crate::evidence::{Evidence, StatementEvidence, Unavailable};
use crate::finding::{Change, Fact, Finding, Severity, Subject};
use crate::index_shape::IndexShape;
use crate::statement_text::quote_identifier;
use crate::threshold::{Threshold, Thresholds};
use run::{IndexFact, RelationFact};
use sql::StatementClass;
use statistics::Unit;

const PAGES: Threshold = Threshold {
    name: "random-key-pages",
    value: 0.1,
    unit: "whole pages a row",
    decides: "inserts that write fewer do not go all over an index",
    source: "ours: a key that grows fills a page of some 200 to 300 entries before the next",
};

const INSERTS: Threshold = Threshold {
    name: "random-key-rows",
    value: 500.0,
    unit: "rows inserted",
    decides: "fewer tell nothing",
    source: "ours",
};

const WIDE: Threshold = Threshold {
    name: "wide-key-bytes",
    value: 56.0,
    unit: "bytes an entry of the index",
    decides: "a key's index with wider entries has a wide key",
    source: "ours: twice what an index of an eight-byte key takes when it is filled evenly",
};

const WIDE_ROWS: Threshold = Threshold {
    name: "wide-key-rows",
    value: 100_000.0,
    unit: "rows of the table",
    decides: "the keys of smaller tables are not looked at",
    source: "ours",
};

pub(super) const RULE: Rule = Rule {
    name: "keys",
    looks_at: "whole pages in the WAL of inserts, and the width of keys",
    thresholds: &[PAGES, INSERTS, WIDE, WIDE_ROWS],
    evaluate,
};

/// Returns the type of a column whose values are usually random or digests.
fn may_be_random(table: &RelationFact, column: &str) -> Option<String> {
    let place = table.column_names.iter().position(|name| name == column)?;
    let definition = table.columns.get(place)?;
    let time_ordered = definition.contains("uuidv7") || definition.contains("uuid_generate_v1");
    let kinds = ["uuid", "bytea", "text", "character", "varchar"];
    (kinds.iter().any(|kind| definition.starts_with(kind)) && !time_ordered)
        .then(|| definition.clone())
}

fn evaluate(evidence: &Evidence, thresholds: &Thresholds) -> Result<Vec<Finding>, Unavailable> {
    evidence.facts.as_ref().map_err(Clone::clone)?;
    let mut findings = Vec::new();
    for one in evidence
        .statements
        .iter()
        .filter(|one| one.class == StatementClass::Insert)
    {
        findings.extend(random(evidence, thresholds, one));
    }
    findings.extend(wide(evidence, thresholds));
    Ok(findings)
}

/// Index whose first column is usually random or a digest.
struct RandomIndex<'e> {
    index: &'e IndexFact,
    column: String,
    /// Definition of the column.
    kind: String,
}

/// Returns the first index on a random column: that of the key, or else a unique one.
fn random_index<'e>(evidence: &'e Evidence, table: &RelationFact) -> Option<RandomIndex<'e>> {
    let mut indexes: Vec<&IndexFact> = evidence
        .facts
        .as_ref()
        .ok()?
        .indexes
        .iter()
        .filter(|index| {
            index.schema == table.schema
                && index.table == table.name
                && index.database == table.database
        })
        .collect();
    indexes.sort_by_key(|index| {
        (
            !index.key.is_primary(),
            !index.key.is_unique(),
            index.name.clone(),
        )
    });
    indexes.into_iter().find_map(|index| {
        let shape = IndexShape::parse(index);
        let column = shape.columns().first().map(|column| (*column).to_owned())?;
        let kind = may_be_random(table, &column)?;
        (shape.method == "btree").then_some(RandomIndex {
            index,
            column,
            kind,
        })
    })
}

/// Proposes the migrations of a random key to a monotonic one, cheapest first.
fn migrations(table: &RelationFact, index: &IndexFact, column: &str, kind: &str) -> Vec<Change> {
    if !index.key.is_primary() {
        return vec![Change::manual(format!(
            "drop the index {} if neither a query nor uniqueness needs it, or make the values of {column} in the order of time (UUIDv7: uuidv7() from 18 on), unless they have to be hard to guess",
            index.name
        ))];
    }
    if IndexShape::parse(index).columns() != [column] {
        return vec![Change::manual(
            "a key that grows: bigint GENERATED ALWAYS AS IDENTITY; where keys are made elsewhere, one in the order of time (UUIDv7: uuidv7() from 18 on)",
        )];
    }
    let name = format!(
        "{}.{}",
        quote_identifier(&table.schema),
        quote_identifier(&table.name)
    );
    let (key, new) = (
        quote_identifier(column),
        quote_identifier(&format!("{column}_new")),
    );
    let time_ordered = kind.starts_with("uuid").then(|| {
        Change::manual(format!(
            "generate new keys in time order: ALTER TABLE {name} ALTER COLUMN {key} SET DEFAULT uuidv7() from PostgreSQL 18 on, or UUIDv7 in the application; existing keys stay, and REINDEX INDEX CONCURRENTLY compacts the index"
        ))
    });
    let bigint = Change::manual(format!(
        "migrate the key to bigint without a long lock: \
        (1) ALTER TABLE {name} ADD COLUMN {new} bigint, without a default, which would rewrite the table; \
        (2) create a sequence owned by the column, and SET DEFAULT nextval(…) for new rows; \
        (3) backfill with UPDATE {name} SET {new} = DEFAULT WHERE {new} IS NULL, in batches; \
        (4) CREATE UNIQUE INDEX CONCURRENTLY on {new}, and validate CHECK ({new} IS NOT NULL); \
        (5) add and fill such a column in each table that refers to {key}, with a trigger for new rows; \
        (6) in one transaction, drop the constraints on {key} and on the columns that refer to it (NOT NULL too), \
        ADD PRIMARY KEY USING INDEX and FOREIGN KEY … NOT VALID, and switch the application, then VALIDATE; \
        (7) drop the old columns, and rebuild the tables to free the space (pg_repack; VACUUM FULL locks them)"
    ));
    time_ordered.into_iter().chain([bigint]).collect()
}

fn random(
    evidence: &Evidence,
    thresholds: &Thresholds,
    one: &StatementEvidence,
) -> Option<Finding> {
    let counted = one
        .counted
        .filter(|counted| counted.rows as f64 >= thresholds.of(&INSERTS))?;
    let pages = counted.wal_full_pages? as f64 / counted.rows as f64;
    if pages < thresholds.of(&PAGES) {
        return None;
    }
    let table = evidence.written_by(one)?;
    let RandomIndex {
        index,
        column,
        kind,
    } = random_index(evidence, table)?;
    let name = format!("{}.{}", table.schema, table.name);
    let wal = counted.wal_bytes.unwrap_or(0) as f64;
    // The WAL without full pages is known; time is assumed to be proportional to WAL.
    let saved = (counted.wal_full_pages.unwrap_or(0) as f64 * 8_192.0 / wal.max(1.0)).min(1.0);
    let ns = one.ns * saved;
    let share = evidence.share(ns);
    Some(Finding {
        rule: "",
        status: Default::default(),
        severity: thresholds.severity(share),
        subject: Subject::statement(one.fingerprint, one.sql.clone()),
        title: match index.key.is_primary() {
            true => format!("rows of {name} go all over {}: its key {column} ({kind}) has no order", index.name),
            false => format!("rows of {name} go all over its index {}: the column {column} ({kind}), which is not its primary key, has no order", index.name),
        },
        evidence: vec![
            Fact::new("whole pages in the WAL for each row", pages, Unit::Mean, "wal_fpi of pg_stat_statements")
                .check("SELECT wal_fpi, wal_bytes, rows, query FROM pg_stat_statements ORDER BY wal_fpi DESC"),
            Fact::new("WAL for each row", wal / counted.rows as f64, Unit::Bytes, "pg_stat_statements"),
            Fact::new("rows inserted", counted.rows as f64, Unit::Count, "pg_stat_statements"),
            Fact::new("size of the index", index.bytes.unwrap_or(0) as f64, Unit::Bytes, "pg_relation_size")
                .check(format!("SELECT avg_leaf_density, leaf_fragmentation FROM pgstatindex('{}.{}') (extension pgstattuple)", index.schema, index.name)),
        ],
        cost: Some(evidence.cost(one, ns)),
        max_gain: Some(share),
        changes: migrations(table, index, &column, &kind).into_iter().chain([
            Change::setting("fewer checkpoints, so that a page is written as a whole less often", "max_wal_size", "8GB"),
        ]).collect(),
        risk: match index.key.is_primary() {
            true => "a key goes through the whole application; the index is small again only when it was built anew",
            false => "values in the order of time can be guessed in part; the index is small again only when it was built anew",
        }.to_owned(),
    })
}

fn wide(evidence: &Evidence, thresholds: &Thresholds) -> Vec<Finding> {
    let Ok(facts) = &evidence.facts else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    for index in facts
        .indexes
        .iter()
        .filter(|index| index.key.is_primary() && index.valid)
    {
        let table = facts.relations.iter().find(|one| {
            one.database == index.database && one.schema == index.schema && one.name == index.table
        });
        let Some((table, rows)) = table.and_then(|table| Some((table, table.rows?))) else {
            continue;
        };
        let each = index.bytes.unwrap_or(0) as f64 / rows.max(1) as f64;
        let shape = IndexShape::parse(index);
        let columns = shape.columns();
        let [column] = columns.as_slice() else {
            continue;
        };
        if (rows as f64) < thresholds.of(&WIDE_ROWS)
            || each < thresholds.of(&WIDE)
            || may_be_random(table, column).is_none()
        {
            continue;
        }
        let name = format!("{}.{}", table.schema, table.name);
        findings.push(Finding {
            rule: "",
            status: Default::default(),
            severity: Severity::Note,
            subject: Subject::index(format!("{}.{}", index.schema, index.name)),
            title: format!("the key of {name} is wide: {each:.0} bytes for each row in its index, and again in each foreign key"),
            evidence: vec![
                Fact::new("bytes for each row", each, Unit::Bytes, "pg_relation_size and pg_class.reltuples")
                    .check(format!("SELECT pg_relation_size('{}.{}') / {rows}", index.schema, index.name)),
                Fact::new("size of the index", index.bytes.unwrap_or(0) as f64, Unit::Bytes, "pg_relation_size"),
                Fact::new("rows", rows as f64, Unit::Count, "pg_class"),
            ],
            cost: None,
            max_gain: None,
            changes: vec![Change::manual("a key of eight bytes (bigint GENERATED ALWAYS AS IDENTITY), with the wide one as a unique column of this table alone")],
            risk: "a key goes through the whole application; an index that is merely bloated shows the same: REINDEX first".to_owned(),
        });
    }
    findings
}

#[cfg(test)]
mod tests {
    use run::IndexKey;

    use super::*;
    use crate::finding::Form;
    use crate::synthetic::{EvidenceBuilder, statement, table};

    fn with(kind: &str, pages: u64) -> EvidenceBuilder {
        let column = format!("id {kind}");
        EvidenceBuilder::new()
            .statement(
                statement(1, "insert into links (id, url) values ($1, ...)")
                    .took(10_000, 5.0)
                    .with_rows(10_000)
                    .with_counted(|counted| {
                        counted.wal_full_pages = Some(pages);
                        counted.wal_bytes = Some(pages * 8_192 + 2_000_000);
                    }),
            )
            .table(table("links", 1_000_000, &[&column, "url text"]))
            .index("CREATE UNIQUE INDEX links_pkey ON public.links USING btree (id)")
    }

    #[test]
    fn random_and_wide_keys_are_found() {
        let found = with("bytea not null", 9_000).findings(&RULE);
        assert_eq!(found.len(), 1);
        assert!(
            found[0]
                .title
                .contains("links_pkey: its key id (bytea not null) has no order")
        );
        assert!(found[0].max_gain.unwrap() > 0.9);
        let mut wide = with("bytea not null", 10);
        wide.facts().indexes[0].bytes = Some(110_000_000);
        assert_eq!(wide.findings(&RULE)[0].severity, Severity::Note);
    }

    #[test]
    fn random_key_is_migrated_manually() {
        let changes = |made_up: EvidenceBuilder| made_up.findings(&RULE).remove(0).changes;
        let digest = changes(with("bytea not null", 9_000));
        assert_eq!(digest.len(), 2);
        assert_eq!(digest[0].form, Form::ByHand);
        let step = "(1) ALTER TABLE public.links ADD COLUMN id_new bigint,";
        assert!(digest[0].words.contains(step), "{}", digest[0].words);

        let uuid = changes(with("uuid not null", 9_000));
        assert_eq!(uuid.len(), 3);
        assert_eq!(uuid[0].form, Form::ByHand);
        let step = "ALTER COLUMN id SET DEFAULT uuidv7()";
        assert!(uuid[0].words.contains(step), "{}", uuid[0].words);
        assert_eq!(uuid[1], digest[0]);

        let mut composite = with("bytea not null", 9_000);
        composite.facts().indexes[0].definition =
            "CREATE UNIQUE INDEX links_pkey ON public.links USING btree (id, url)".to_owned();
        let mut secondary = with("bytea not null", 9_000);
        secondary.facts().indexes[0].key = IndexKey::Unique;
        for other in [composite, secondary] {
            let first = changes(other).remove(0);
            assert_eq!(first.form, Form::ByHand);
            assert!(!first.words.contains("ALTER TABLE"), "{}", first.words);
        }
    }

    #[test]
    fn unique_random_column_is_not_called_the_key() {
        let made_up = EvidenceBuilder::new()
            .statement(
                statement(1, "insert into links (id, token) values ($1, ...)")
                    .took(10_000, 5.0)
                    .with_rows(10_000)
                    .with_counted(|counted| {
                        counted.wal_full_pages = Some(9_000);
                        counted.wal_bytes = Some(9_000 * 8_192 + 2_000_000);
                    }),
            )
            .table(table(
                "links",
                1_000_000,
                &["id bigint not null", "token uuid"],
            ))
            .index("CREATE UNIQUE INDEX links_pkey ON public.links USING btree (id)")
            .index("CREATE UNIQUE INDEX links_token_key ON public.links USING btree (token)");
        let found = made_up.findings(&RULE).remove(0);
        assert!(!found.title.contains("its key"), "{}", found.title);
        let part =
            "its index links_token_key: the column token (uuid), which is not its primary key";
        assert!(found.title.contains(part), "{}", found.title);
        assert!(
            !found.changes[0].words.contains("bigint"),
            "{}",
            found.changes[0].words
        );
    }

    #[test]
    fn monotonic_narrow_keys_are_no_finding() {
        assert_eq!(with("bigint not null", 9_000).findings(&RULE), []);
        assert_eq!(
            with("uuid not null default uuidv7()", 9_000).findings(&RULE),
            []
        );
        assert_eq!(with("uuid not null", 100).findings(&RULE), []);
    }
}
