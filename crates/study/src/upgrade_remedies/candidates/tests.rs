use super::super::planning_state::{SettingScope, SettingState};
use super::*;
use plans::PlanNode;

fn plan(kind: &str) -> Plan {
    Plan {
        root: PlanNode {
            kind: kind.to_owned(),
            relation: Some("orders".to_owned()),
            alias: Some("o".to_owned()),
            ..PlanNode::default()
        },
        ..Plan::default()
    }
}

/// Returns a table with statistics.
fn table(name: &str) -> TableState {
    TableState {
        name: format!("public.{name}"),
        schema: "public".to_owned(),
        plain: name.to_owned(),
        rows: 1_000.0,
        has_data: true,
        has_statistics: true,
        is_analyzed: true,
        storage: Storage::Plain,
        parents: Vec::new(),
    }
}

/// Returns the tables in the plans.
fn read_tables() -> PlanTables {
    [("public".to_owned(), "orders".to_owned())].into()
}

/// Returns a server whose state needs no remedy.
fn state() -> PlanningState {
    let setting = |name: &str, text: &str| {
        let setting = SettingState {
            name: name.to_owned(),
            setting: text.to_owned(),
            text: text.to_owned(),
            vartype: "bool".to_owned(),
            source: "default".to_owned(),
            scope: SettingScope::Server,
        };
        (name.to_owned(), setting)
    };
    PlanningState {
        database: "shop".to_owned(),
        role: "app".to_owned(),
        settings: [
            setting("jit", "on"),
            setting("random_page_cost", "4"),
            setting("work_mem", "4MB"),
        ]
        .into(),
        tables: vec![table("orders")],
        statistics: vec![StatisticsState {
            name: "public.s".to_owned(),
            table: "public.orders".to_owned(),
            definition: "CREATE STATISTICS public.s ON a, b FROM public.orders".to_owned(),
            has_data: true,
        }],
        indexes: vec![IndexState {
            name: "public.i".to_owned(),
            plain: "i".to_owned(),
            table: "public.orders".to_owned(),
            definition: "CREATE INDEX i ON public.orders USING btree (a)".to_owned(),
            valid: true,
            is_collated: true,
            has_constraint: false,
            storage: Storage::Plain,
        }],
        ..PlanningState::default()
    }
}

/// Returns the statements of the candidates, for a change of the new server.
fn proposed(change: impl Fn(&mut PlanningState)) -> Vec<String> {
    let mut new = state();
    change(&mut new);
    proposed_between(&state(), &new)
}

/// Returns the statements of the candidates for two servers.
fn proposed_between(old: &PlanningState, new: &PlanningState) -> Vec<String> {
    let (before, after) = (plan("Seq Scan"), plan("Sample Scan"));
    let statement = SlowStatement {
        old: &before,
        new: &after,
        tables: &read_tables(),
        newly_compiled: false,
        chosen: &[],
    };
    let all = candidates((old, new), &statement);
    let statements = all.into_iter().map(|one| one.remedy.statements.join("; "));
    statements.collect()
}

#[test]
fn equal_servers_have_no_candidates() {
    assert_eq!(proposed(|_| {}), Vec::<String>::new());
}

#[test]
fn each_difference_has_its_own_remedy() {
    let analyze = ["ANALYZE public.orders"];
    assert_eq!(
        proposed(|new| new.tables[0].has_statistics = false),
        analyze
    );
    assert_eq!(proposed(|new| new.tables[0].rows = 10.0), analyze);
    assert_eq!(proposed(|new| new.tables[0].is_analyzed = false), analyze);
    assert_eq!(proposed(|new| new.statistics[0].has_data = false), analyze);
    assert_eq!(
        proposed(|new| new.statistics.clear()),
        ["CREATE STATISTICS public.s ON a, b FROM public.orders; ANALYZE public.orders"]
    );
    assert_eq!(
        proposed(|new| new.indexes.clear()),
        ["CREATE INDEX i ON public.orders USING btree (a)"]
    );
    let reindex = ["REINDEX INDEX public.i"];
    assert_eq!(proposed(|new| new.indexes[0].valid = false), reindex);
    assert_eq!(
        proposed(|new| new.collation.locale = Some("de_DE".to_owned())),
        reindex
    );
}

#[test]
fn settings_come_after_statistics_and_those_of_the_planner_first() {
    let change = |new: &mut PlanningState| {
        for (name, text) in [("work_mem", "1MB"), ("random_page_cost", "1.1")] {
            let known = new.settings.get_mut(name).unwrap();
            (known.setting, known.text) = (text.to_owned(), text.to_owned());
        }
        new.tables[0].has_statistics = false;
    };
    assert_eq!(
        proposed(change),
        [
            "ANALYZE public.orders",
            "ALTER DATABASE \"shop\" SET random_page_cost = '4'",
            "ALTER DATABASE \"shop\" SET work_mem = '4MB'",
        ]
    );
}

#[test]
fn planner_method_of_the_new_version_only_is_switched_off() {
    let change = |new: &mut PlanningState| {
        let mut added = new.settings["jit"].clone();
        added.name = "enable_novelty".to_owned();
        new.settings.insert(added.name.clone(), added);
    };
    assert_eq!(
        proposed(change),
        ["ALTER DATABASE \"shop\" SET enable_novelty = 'off'"]
    );
}

#[test]
fn compilation_of_the_new_server_only_precedes_all_and_a_chosen_remedy_precedes_it() {
    let (mut new, before, after) = (state(), plan("Seq Scan"), plan("Seq Scan"));
    new.tables[0].has_statistics = false;
    let old = state();
    let mut statement = SlowStatement {
        old: &before,
        new: &after,
        tables: &read_tables(),
        newly_compiled: true,
        chosen: &[],
    };
    let first =
        |statement: &SlowStatement<'_>| candidates((&old, &new), statement)[0].remedy.clone();
    assert_eq!(
        first(&statement).statements,
        ["ALTER DATABASE \"shop\" SET jit = 'off'"]
    );
    let chosen = candidates((&old, &new), &statement)[1].remedy.clone();
    assert_eq!(chosen.kind, RemedyKind::Analyze);
    let chosen = [chosen];
    statement.chosen = &chosen;
    assert_eq!(first(&statement), chosen[0]);
}

#[test]
fn plan_of_the_old_server_is_the_last_candidate_if_the_version_takes_advice() {
    assert_eq!(
        proposed(|new| new.has_plan_advice = true),
        ["LOAD 'pg_plan_advice'; SET pg_plan_advice.advice = 'SEQ_SCAN(o)'"]
    );
}

#[test]
fn setting_has_the_form_that_overrides_the_one_in_force() {
    for (scope, expected) in [
        (
            SettingScope::Database,
            "ALTER DATABASE \"shop\" SET work_mem = '4MB'",
        ),
        (
            SettingScope::Role,
            "ALTER ROLE \"app\" SET work_mem = '4MB'",
        ),
        (
            SettingScope::RoleInDatabase,
            "ALTER ROLE \"app\" IN DATABASE \"shop\" SET work_mem = '4MB'",
        ),
    ] {
        let change = |new: &mut PlanningState| {
            let known = new.settings.get_mut("work_mem").unwrap();
            (known.setting, known.text) = ("1MB".to_owned(), "1MB".to_owned());
            known.scope = scope;
        };
        assert_eq!(proposed(change), [expected]);
    }
}

#[test]
fn only_the_table_of_the_schema_is_analyzed_and_its_partitioned_parent() {
    let other_schema = |new: &mut PlanningState| {
        new.tables.push(TableState {
            name: "tenant.orders".to_owned(),
            schema: "tenant".to_owned(),
            has_statistics: false,
            ..table("orders")
        });
    };
    assert_eq!(proposed(other_schema), Vec::<String>::new());

    let parent = TableState {
        storage: Storage::Partitioned,
        ..table("all_orders")
    };
    let (mut old, mut new) = (state(), state());
    for one in [&mut old, &mut new] {
        one.tables[0].parents = vec![parent.name.clone()];
        one.tables.push(parent.clone());
    }
    new.tables[1].has_statistics = false;
    assert_eq!(proposed_between(&old, &new), ["ANALYZE public.all_orders"]);
    new.tables[0].has_statistics = false;
    assert_eq!(proposed_between(&old, &new), ["ANALYZE public.all_orders"]);
    new.tables[1].has_statistics = true;
    assert_eq!(proposed_between(&old, &new), ["ANALYZE public.orders"]);
}

#[test]
fn all_that_the_new_server_lacks_is_listed_in_the_order_of_execution() {
    let (old, mut new) = (state(), state());
    assert!(lacking((&old, &new), None).is_empty());
    new.tables[0].has_statistics = false;
    new.statistics.clear();
    let lost = new.indexes.remove(0);
    let found = joined_remedy(lacking((&old, &new), None)).unwrap();
    assert_eq!(
        found.statements,
        [
            old.statistics[0].definition.clone(),
            lost.definition,
            "ANALYZE public.orders".to_owned()
        ]
    );
    // Statements of other tables do not need it.
    assert!(lacking((&old, &new), Some(&PlanTables::new())).is_empty());
}

#[test]
fn script_creates_objects_before_analyze_and_sets_settings_last() {
    let statements = [
        "ALTER DATABASE d SET jit = 'off'",
        "ANALYZE t",
        "REINDEX INDEX i",
        "ANALYZE t",
        "CREATE INDEX j ON t (a)",
    ];
    assert_eq!(
        in_order(statements.map(str::to_owned)),
        [
            "CREATE INDEX j ON t (a)",
            "REINDEX INDEX i",
            "ANALYZE t",
            "ALTER DATABASE d SET jit = 'off'"
        ]
    );
}
