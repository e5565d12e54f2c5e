//! Comparison of synthetic facts of two targets.

use compare::Side;
use compare::targets::{Presence, SettingArea, TargetsComparison, compare_targets};
use run::{
    BuildFact, DatabaseFact, ExtensionFact, FactNote, Facts, FunctionFact, IndexFact, RelationFact,
    SettingFact, TriggerFact,
};

fn setting(name: &str, category: &str, value: &str, boot: &str, source: &str) -> SettingFact {
    SettingFact {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        unit: None,
        category: category.to_owned(),
        source: source.to_owned(),
        boot_value: Some(boot.to_owned()),
        pending_restart: false,
    }
}

fn table(name: &str, rows: Option<u64>, bytes: Option<u64>) -> RelationFact {
    RelationFact {
        database: "shop".to_owned(),
        schema: "public".to_owned(),
        name: name.to_owned(),
        kind: "table".to_owned(),
        persistence: "permanent".to_owned(),
        rows,
        bytes,
        column_names: vec!["id".to_owned(), "note".to_owned()],
        columns: vec!["bigint not null".to_owned(), "text".to_owned()],
        ..RelationFact::default()
    }
}

fn index(name: &str, on: &str) -> IndexFact {
    IndexFact {
        database: "shop".to_owned(),
        schema: "public".to_owned(),
        table: "orders".to_owned(),
        name: name.to_owned(),
        definition: format!("CREATE INDEX {name} ON public.orders USING btree ({on})"),
        bytes: Some(8_192),
        valid: true,
        ready: true,
        ..IndexFact::default()
    }
}

fn note(about: &str, text: &str) -> FactNote {
    FactNote {
        about: about.to_owned(),
        text: text.to_owned(),
        ..FactNote::default()
    }
}

fn facts() -> Facts {
    Facts {
        settings: vec![
            setting("port", "Connections", "5432", "5432", "command line"),
            setting(
                "server_version",
                "Preset Options",
                "15.4",
                "15.4",
                "default",
            ),
            setting(
                "shared_buffers",
                "Resource Usage / Memory",
                "16384",
                "16384",
                "default",
            ),
            setting(
                "work_mem",
                "Resource Usage / Memory",
                "4096",
                "4096",
                "default",
            ),
        ],
        extensions: vec![ExtensionFact {
            database: "shop".to_owned(),
            name: "hstore".to_owned(),
            version: "1.7".to_owned(),
        }],
        databases: vec![DatabaseFact {
            name: "shop".to_owned(),
            encoding: "UTF8".to_owned(),
            collate: "C".to_owned(),
            ctype: "C".to_owned(),
            ..DatabaseFact::default()
        }],
        relations: vec![table("orders", Some(10_000), Some(8 << 20))],
        indexes: vec![index("orders_note", "note")],
        notes: vec![note("target", "asked before the first statement")],
        functions: vec![FunctionFact {
            database: "shop".to_owned(),
            schema: "public".to_owned(),
            name: "price_of".to_owned(),
            arguments: "integer".to_owned(),
            source_hash: "1".to_owned(),
            ..FunctionFact::default()
        }],
        build: vec![BuildFact {
            name: "jit_available".to_owned(),
            value: "on".to_owned(),
        }],
        ..Facts::default()
    }
}

/// Compares the facts above with changed ones.
fn changed(change: impl FnOnce(&mut Facts)) -> TargetsComparison {
    let mut after = facts();
    change(&mut after);
    compare_targets(&facts(), &after)
}

#[test]
fn equal_targets_have_no_differences() {
    let found = changed(|_| ());
    assert!(found.same);
    assert!(found.settings.is_empty() && found.sizes.is_empty() && found.notes.is_empty());
}

#[test]
fn setting_differences_are_ordered_by_area_with_their_source() {
    let found = changed(|after| {
        after.settings[0] = setting("port", "Connections", "6000", "5432", "command line");
        after.settings[2].value = Some("32768".to_owned());
        after.settings[2].boot_value = Some("32768".to_owned());
        after.settings[3] = setting(
            "work_mem",
            "Resource Usage / Memory",
            "64",
            "4096",
            "database",
        );
        after
            .settings
            .push(setting("brand_new", "Query Tuning", "on", "on", "default"));
        after
            .settings
            .push(setting("set_new", "Query Tuning", "off", "on", "user"));
    });
    let names: Vec<_> = found
        .settings
        .iter()
        .map(|one| (one.name.as_str(), one.bearing, one.by_version))
        .collect();
    assert_eq!(
        names,
        [
            ("set_new", SettingArea::Planner, false),
            ("work_mem", SettingArea::Planner, false),
            ("shared_buffers", SettingArea::Resources, true),
            ("port", SettingArea::Place, false),
        ]
    );
    assert_eq!((found.settings_gone, found.settings_new), (0, 1));
    let after = found.settings[1].after.clone().unwrap();
    assert_eq!((after.source.as_str(), after.default), ("database", false));
    assert!(found.settings[0].before.is_none());
    assert!(!found.same);
    // Another port is not another server.
    assert!(changed(|after| after.settings[0].value = Some("1".to_owned())).same);
}

#[test]
fn equal_amounts_in_different_units_are_no_difference() {
    let found = changed(|after| {
        after.settings[3].value = Some("4".to_owned());
        after.settings[3].unit = Some("MB".to_owned());
    });
    assert_eq!(found.settings.len(), 1, "a bare number is no amount");
    let mut before = facts();
    before.settings[3].unit = Some("kB".to_owned());
    let mut after = facts();
    after.settings[3].value = Some("4".to_owned());
    after.settings[3].unit = Some("MB".to_owned());
    assert!(compare_targets(&before, &after).settings.is_empty());
}

#[test]
fn objects_of_one_side_or_with_changed_definitions_are_listed() {
    let found = changed(|after| {
        after.relations[0].columns[1] = "text default ''::text".to_owned();
        after.relations[0].options = vec!["fillfactor=70".to_owned()];
        after.relations.push(table("extra", None, Some(0)));
        after.extensions[0].version = "1.8".to_owned();
        after.indexes = vec![index("orders_id", "id"), index("renamed", "note")];
        after.indexes[0].valid = false;
    });
    let orders = &found.relations[1];
    assert_eq!(
        (
            found.relations[0].name.as_str(),
            found.relations[0].presence
        ),
        ("public.extra", Presence::OnlyAfter)
    );
    let details: Vec<_> = orders.details.iter().map(|one| one.what.as_str()).collect();
    assert_eq!(details, ["options", "column note"]);
    assert_eq!(found.extensions[0].details[0].after.as_deref(), Some("1.8"));
    let indexes: Vec<_> = found
        .indexes
        .iter()
        .map(|one| (one.name.as_str(), one.renamed.as_deref(), one.presence))
        .collect();
    assert_eq!(
        indexes,
        [
            ("orders_note", Some("renamed"), Presence::Differs),
            ("orders_id", None, Presence::OnlyAfter),
        ]
    );
    assert_eq!(found.invalid_indexes.len(), 1);
    assert_eq!(found.invalid_indexes[0].side, Side::After);
}

#[test]
fn uninspected_objects_are_not_missing() {
    let found = changed(|after| {
        after.relations.clear();
        after.indexes.clear();
        after.extensions.clear();
        after
            .notes
            .push(note("relations", "the smallest are left out"));
        after.notes.push(note("indexes", "refused"));
    });
    assert!(found.relations.is_empty() && found.indexes.is_empty());
    assert_eq!(found.extensions.len(), 1);
    assert_eq!(found.notes.len(), 2);
    // The role may not see the settings, and a database could not be queried.
    let found = changed(|after| {
        after.settings.clear();
        after.databases.clear();
    });
    assert!(found.settings.is_empty() && found.relations.is_empty());
    // A locked table shows no columns.
    let found = changed(|after| {
        after.relations[0].columns.clear();
        after.relations[0].column_names.clear();
        after.notes.push(note("sizes", "locked"));
    });
    assert!(found.relations.is_empty());
}

#[test]
fn unknown_facts_of_one_database_do_not_affect_another() {
    let other = |facts: &mut Facts| {
        let elsewhere = "archive".to_owned();
        facts.databases.push(DatabaseFact {
            name: elsewhere.clone(),
            ..facts.databases[0].clone()
        });
        facts.indexes.push(IndexFact {
            database: elsewhere.clone(),
            ..index("archive_id", "id")
        });
        facts.relations.push(RelationFact {
            database: elsewhere,
            ..table("bills", None, None)
        });
    };
    let (mut before, mut after) = (facts(), facts());
    other(&mut before);
    other(&mut after);
    after.indexes.clear();
    after.relations.clear();
    for about in ["indexes", "relations"] {
        after.notes.push(FactNote {
            database: Some("archive".to_owned()),
            ..note(about, "the smallest of the database archive are left out")
        });
    }
    let found = compare_targets(&before, &after);
    let of_shop = facts();
    assert!(found.indexes.iter().all(|one| one.database == "shop"));
    assert_eq!(found.indexes.len(), of_shop.indexes.len());
    assert!(found.relations.iter().all(|one| one.database == "shop"));
    assert_eq!(found.relations.len(), of_shop.relations.len());
    // A note without a database applies to all.
    after.notes.push(note("indexes", "left out"));
    assert!(compare_targets(&before, &after).indexes.is_empty());
}

#[test]
fn invalid_index_of_one_side_is_a_difference() {
    let invalid = |facts: &mut Facts| facts.indexes[0].valid = false;
    assert!(!changed(invalid).same);
    let mut both = facts();
    invalid(&mut both);
    let found = compare_targets(&both, &both);
    assert_eq!(found.invalid_indexes.len(), 2);
    assert!(found.same);
}

#[test]
fn index_name_of_several_tables_is_repeated() {
    let repeated = |other: &dyn Fn(&mut IndexFact)| {
        let mut after = facts();
        let mut more = after.indexes[0].clone();
        other(&mut more);
        after.indexes.push(more);
        let found = compare_targets(&facts(), &after);
        found.repeated_index_names.into_iter().collect::<Vec<_>>()
    };
    let name = facts().indexes[0].name.clone();
    assert_eq!(repeated(&|index| index.schema = "shop2".to_owned()), [name]);
    let none: [String; 0] = [];
    assert_eq!(repeated(&|index| index.name = "new".to_owned()), none);
}

#[test]
fn copy_under_another_name_is_the_same_database() {
    let found = changed(|after| {
        after.databases[0].name = "copy".to_owned();
        after.databases[0].collate = "en_US.utf8".to_owned();
        after.relations[0].database = "copy".to_owned();
        after.indexes.clear();
        after.extensions[0].database = "copy".to_owned();
    });
    assert!(found.relations.is_empty() && found.extensions.is_empty());
    assert_eq!(found.databases[0].name, "shop → copy");
    assert_eq!(found.databases[0].details[0].what, "collation");
    assert_eq!(found.indexes[0].presence, Presence::OnlyBefore);
}

#[test]
fn size_differences_need_a_factor_and_an_amount() {
    let sizes = |rows: Option<u64>, bytes: Option<u64>| {
        changed(|after| after.relations[0] = table("orders", rows, bytes)).sizes
    };
    assert!(sizes(Some(19_000), Some(15 << 20)).is_empty());
    assert!((sizes(Some(30_000), Some(8 << 20))[0].factor() - 3.0).abs() < 1e-9);
    assert!((sizes(Some(10_000), Some(80 << 20))[0].factor() - 10.0).abs() < 1e-9);
    let never = sizes(None, Some(8 << 20));
    assert!(never[0].is_unanalysed());
    // A difference of few rows is not reported, whatever the factor.
    let small =
        |facts: &mut Facts, rows| facts.relations[0] = table("orders", Some(rows), Some(8_192));
    let (mut one, mut other) = (facts(), facts());
    small(&mut one, 3);
    small(&mut other, 900);
    assert!(compare_targets(&one, &other).sizes.is_empty());
}

/// Returns the details of the only relation that differs.
fn details(found: &TargetsComparison) -> Vec<(&str, &str, &str)> {
    let [relation] = &found.relations[..] else {
        panic!("{:?}", found.relations);
    };
    let text = |side: &'_ Option<String>| side.clone().unwrap_or_default().leak() as &str;
    let details = relation.details.iter();
    details
        .map(|one| (&*one.what, text(&one.before), text(&one.after)))
        .collect()
}

#[test]
fn collations_statistics_targets_and_bounds_differ_if_both_runs_have_them() {
    let lists = |relation: &mut RelationFact, collation: &str, target: &str, bound: &str| {
        relation.column_collations = vec![String::new(), collation.to_owned()];
        relation.column_statistics = vec![String::new(), target.to_owned()];
        relation.partition_bound = Some(bound.to_owned());
    };
    let (mut before, mut after) = (facts(), facts());
    lists(&mut before.relations[0], "\"C\"", "", "DEFAULT");
    lists(
        &mut after.relations[0],
        "\"en-x-icu\" version 153.1",
        "500",
        "FOR VALUES IN (1)",
    );
    assert_eq!(
        details(&compare_targets(&before, &after)),
        [
            ("bounds", "DEFAULT", "FOR VALUES IN (1)"),
            (
                "collation of column note",
                "\"C\"",
                "\"en-x-icu\" version 153.1"
            ),
            ("statistics target of column note", "default", "500"),
        ]
    );
    // A run of an earlier version has none of them.
    assert!(compare_targets(&facts(), &after).same);
}

#[test]
fn functions_and_triggers_differ_by_source_and_state() {
    let trigger = |state: &str| TriggerFact {
        database: "shop".to_owned(),
        schema: "public".to_owned(),
        table: "orders".to_owned(),
        name: "tag".to_owned(),
        state: state.to_owned(),
        ..TriggerFact::default()
    };
    let (mut before, mut after) = (facts(), facts());
    after.functions[0].source_hash = "2".to_owned();
    before.triggers.push(trigger("enabled"));
    after.triggers.push(trigger("disabled"));
    let found = compare_targets(&before, &after);
    assert!(!found.same);
    let [function] = &found.functions[..] else {
        panic!("{:?}", found.functions);
    };
    assert_eq!(function.name, "public.price_of(integer)");
    assert_eq!(function.details[0].what, "hash of the source");
    assert_eq!(found.triggers[0].name, "tag on public.orders");
    assert_eq!(
        found.triggers[0].details[0].after.as_deref(),
        Some("disabled")
    );

    // A run of an earlier version knows no functions, so that none is missing.
    let older = Facts {
        functions: Vec::new(),
        build: Vec::new(),
        ..facts()
    };
    assert!(compare_targets(&older, &facts()).same);
    after.functions.clear();
    let found = compare_targets(&before, &after);
    assert_eq!(found.functions[0].presence, Presence::OnlyBefore);
}
