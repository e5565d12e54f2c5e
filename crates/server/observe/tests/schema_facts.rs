//! Facts on collations, statistics, partitions, functions, triggers and the build, from each supported version.

use clock::SystemClock;
use connect::Target;
use connect::login::Login;
use observe::facts;
use run::{Facts, FunctionFact, RelationFact, TriggerFact};

const SCHEMA: &str = "
    CREATE TABLE client (id int PRIMARY KEY, name text COLLATE \"C\", city text);
    INSERT INTO client SELECT n, 'client ' || n, 'city' FROM generate_series(1, 100) n;
    ALTER TABLE client ALTER city SET STATISTICS 500;
    CREATE TABLE forgotten AS SELECT * FROM client;
    CREATE TABLE part (id int, placed date) PARTITION BY RANGE (placed);
    CREATE TABLE part_2026 PARTITION OF part FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');
    CREATE FUNCTION price_of(int) RETURNS int LANGUAGE sql STABLE AS 'SELECT $1';
    CREATE FUNCTION price_of(text) RETURNS int LANGUAGE sql STRICT AS 'SELECT 1';
    CREATE FUNCTION tag() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END';
    CREATE AGGREGATE total(int) (SFUNC = int4pl, STYPE = int, INITCOND = 0);
    CREATE TRIGGER tag BEFORE INSERT ON client FOR EACH ROW EXECUTE PROCEDURE tag();
    CREATE TRIGGER off BEFORE DELETE ON client FOR EACH ROW EXECUTE PROCEDURE tag();
    ALTER TABLE client DISABLE TRIGGER off;
    ANALYZE client;
    CREATE TABLE fresh AS SELECT n FROM generate_series(1, 20000) n;
    ANALYZE fresh;
    CREATE TABLE grown AS SELECT n FROM generate_series(1, 20000) n;
    ANALYZE grown;
    INSERT INTO grown SELECT n FROM generate_series(1, 20000) n";

fn read_facts(major: u16) -> Facts {
    let (_sandbox, endpoint) = test_support::server().major(major).start();
    test_support::connect(&endpoint)
        .batch_execute(SCHEMA)
        .unwrap();
    // Statistics of activity are written when a session ends, before 15.
    std::thread::sleep(std::time::Duration::from_millis(1_200));
    let target = Target::parse(&endpoint.url("postgres"), |_| None).unwrap();
    let login = Login {
        user: "postgres".into(),
        database: "postgres".into(),
        application: "".into(),
        role: None,
        settings: Default::default(),
    };
    facts(&target, &[login], &SystemClock::start())
}

fn relation<'f>(facts: &'f Facts, name: &str) -> &'f RelationFact {
    facts.relations.iter().find(|one| one.name == name).unwrap()
}

fn function<'f>(facts: &'f Facts, name: &str, arguments: &str) -> &'f FunctionFact {
    let mut all = facts.functions.iter();
    all.find(|one| (&*one.name, &*one.arguments) == (name, arguments))
        .unwrap()
}

fn trigger<'f>(facts: &'f Facts, name: &str) -> &'f TriggerFact {
    facts.triggers.iter().find(|one| one.name == name).unwrap()
}

#[test]
fn facts_have_collations_functions_triggers_and_statistics_on_each_version() {
    for major in test_support::versions(&[10, 11, 12, 13, 14, 15, 16, 17, 18]) {
        let facts = read_facts(*major);
        let unknown = facts.notes.iter();
        let unknown = unknown.filter(|note| !["target", "secrets"].contains(&&*note.about));
        assert_eq!(unknown.count(), 0, "{major}: {:?}", facts.notes);
        let client = relation(&facts, "client");
        assert_eq!(client.column_collations, ["", "\"C\"", ""], "{major}");
        assert_eq!(client.column_statistics, ["", "", "500"], "{major}");
        assert_eq!(client.has_statistics, Some(true), "{major}");
        assert!(client.analysed_ago_s.is_some_and(|age| age < 60), "{major}");
        let forgotten = relation(&facts, "forgotten");
        assert_eq!(
            (forgotten.has_statistics, forgotten.analysed_ago_s),
            (Some(false), None),
            "{major}"
        );
        // The counts of a session come after its ANALYZE.
        let fresh = relation(&facts, "fresh").changed_since_analyze;
        assert!(fresh.is_none_or(|rows| rows == 0), "{major}: {fresh:?}");
        let grown = relation(&facts, "grown").changed_since_analyze;
        assert!(
            grown.is_some_and(|rows| rows >= 20_000),
            "{major}: {grown:?}"
        );
        let part = relation(&facts, "part_2026");
        let bound = "FOR VALUES FROM ('2026-01-01') TO ('2027-01-01')";
        assert_eq!(part.partition_bound.as_deref(), Some(bound), "{major}");

        let by_number = function(&facts, "price_of", "integer");
        assert_eq!(
            by_number.definition, "function returns integer language sql stable",
            "{major}"
        );
        let by_text = function(&facts, "price_of", "text");
        assert_eq!(
            by_text.definition, "function returns integer language sql volatile strict",
            "{major}"
        );
        assert_ne!(by_number.source_hash, by_text.source_hash, "{major}");
        assert!(
            function(&facts, "total", "integer")
                .definition
                .starts_with("aggregate"),
            "{major}"
        );
        assert_eq!(trigger(&facts, "tag").state, "enabled", "{major}");
        assert!(
            trigger(&facts, "tag")
                .definition
                .contains("EXECUTE FUNCTION"),
            "{major}"
        );
        assert_eq!(trigger(&facts, "off").state, "disabled", "{major}");

        let build = |name: &str| facts.build.iter().any(|one| one.name == name);
        assert!(
            build("version") && build("CONFIGURE"),
            "{major}: {:?}",
            facts.build
        );
        assert_eq!(build("jit_available"), *major >= 11, "{major}");
    }
}
