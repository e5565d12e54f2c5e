//! Generic plans of real servers: of normal forms, and of examples.

use clock::SystemClock;
use connect::login::Dialer;
use observe::{Example, ExplainSession};
use run::{NoPlan, PlanOutcome};
use workload::Parameter;

use super::{Server, login, planned, wanted};

#[test]
fn generic_plans_of_statements_with_parameters_are_found_on_each_version() {
    let asked = [
        "update orders set note = $1 where customer = $2 and id > $3",
        "select note from orders where id = $1",
        "select count(*) from orders where customer in ($1, ...)",
        "select id from orders where id = $1; delete from orders",
    ];
    for &major in test_support::versions(&[13, 15, 16, 17, 18]) {
        let server = Server::start(major);
        let wanted: Vec<_> = asked
            .iter()
            .map(|sql| (wanted(sql, &[]).0, (*sql).to_owned()))
            .collect();
        let clock = SystemClock::start();
        let found =
            observe::generic_plans(&server.target(), &login("postgres"), &wanted, &clock).plans;
        assert!(planned(&found[0]).contains("orders_customer"), "{major}");
        assert!(planned(&found[1]).contains("(id = $1)"), "{major}");
        assert!(planned(&found[2]).contains("orders_customer"), "{major}");
        assert_eq!(
            found[3].outcome,
            PlanOutcome::Unasked(NoPlan::SeveralStatements)
        );
        let rows = server.client().query("SELECT FROM orders", &[]).unwrap();
        assert_eq!(rows.len(), 5000, "{major}");
    }
}

#[test]
fn generic_plan_of_an_example_reads_the_partitions_of_its_values() {
    let mut example = Example {
        session: 1,
        sequence: 1,
        database: "postgres".into(),
        user: "postgres".into(),
        settings: [].into(),
        sql: "SELECT * FROM parts WHERE id = $1 AND note = $2".into(),
        parameters: vec![None, Some(Parameter::Text("it's \\".into()))],
        types: vec![23],
        is_prepared: true,
        captured_us: None,
    };
    for &major in test_support::versions(&[13, 15, 18]) {
        let server = Server::start(major);
        let schema = "CREATE TABLE parts (id int, note text) PARTITION BY RANGE (id);
            CREATE TABLE low PARTITION OF parts FOR VALUES FROM (0) TO (100);
            CREATE TABLE high PARTITION OF parts FOR VALUES FROM (100) TO (200)";
        server.client().batch_execute(schema).unwrap();
        let target = server.target();
        let dialer = Dialer::new(&target).unwrap();
        let mut session = ExplainSession::open(&dialer, &login("postgres")).unwrap();
        for id in [
            Parameter::Text("150".into()),
            Parameter::Binary(150_i32.to_be_bytes().to_vec().into()),
        ] {
            example.parameters[0] = Some(id);
            let plan = session.generic_plan(&example).unwrap().unwrap();
            assert!(plan.contains("\"high\""), "{major}: {plan}");
            assert!(!plan.contains("\"low\""), "{major}: {plan}");
            assert!(plan.contains("(id = $1)"), "{major}: {plan}");
        }
    }
}
