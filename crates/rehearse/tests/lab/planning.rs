//! The case *planning*: configurations told apart by counts and by stacks.

use super::shown;

#[test]
fn planning_is_counted_or_not_and_prepared_statements_have_hardly_any() {
    let (directory, view) = shown("planning");
    let checks = view["checks"].as_array().unwrap();
    let prepared = checks
        .iter()
        .map(|check| check["measured"].as_str().unwrap())
        .find(|text| text.contains("prepared"))
        .unwrap();
    // Five plans with values and one for all, of each of four sessions.
    assert!(prepared.contains("prepared 24 of 4000"), "{prepared}");
    assert!(prepared.contains("4000 plans of 4000 calls"), "{prepared}");
    // What cannot be seen here is not claimed.
    let unseen = view["unseen"].to_string();
    let processors = view["processors"].as_u64().unwrap();
    assert_eq!(unseen.contains("the cliff"), processors < 32, "{unseen}");
    assert_eq!(view["charts"].as_array().unwrap().len(), 3);
    if std::env::var_os("REHEARSE_TEST_PERF").is_some() {
        assert_eq!(view["flames"].as_array().unwrap().len(), 3, "{unseen}");
    }
    assert!(
        directory
            .path()
            .join("case/reads.sweep/report.html")
            .exists()
    );
}
