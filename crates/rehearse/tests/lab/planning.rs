//! Planning case of the lab: distinguishes configurations by counts and by stacks.

use crate::case::shown;

#[test]
fn planning_is_counted_or_not_and_prepared_statements_have_hardly_any() {
    if test_support::skip_in_fast_tier() {
        return;
    }
    let (directory, view) = shown("planning");
    let checks = view["checks"].as_array().unwrap();
    let prepared = checks
        .iter()
        .map(|check| check["measured"].as_str().unwrap())
        .find(|text| text.contains("prepared"))
        .unwrap();
    let said = |what: &str| {
        let mut all = checks.iter();
        let found = all.find(|check| check["what"].as_str().unwrap().contains(what));
        found.unwrap()["measured"].as_str().unwrap()
    };
    assert!(said("first finding").starts_with("planning-dominated: "));
    assert!(said("is proved").starts_with("won: "));
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
    let folder = directory.path().join("case");
    assert!(folder.join("reads.sweep/report.html").exists());
    let proof = std::fs::read_to_string(folder.join("prepared.proof/proof.json")).unwrap();
    let proof: serde_json::Value = serde_json::from_str(&proof).unwrap();
    assert_eq!(proof["sides"][0]["name"], "prepare");
}
