//! Heap case of the lab: checks its cause by counts of CPU time, not by elapsed time.

use crate::case::{shown, skip_long_case};

#[test]
fn many_partial_indexes_are_a_tax_on_single_rows_and_batches_are_proved() {
    if skip_long_case() {
        return;
    }
    let (directory, view) = shown("heap");
    let case = directory.path().join("case");
    let checks = view["checks"].as_array().unwrap();
    let has = |text: &str| {
        checks
            .iter()
            .any(|check| check["measured"].as_str().unwrap().contains(text))
    };
    assert!(has("index-open-tax"), "{checks:#?}");
    assert!(has("won: with batches"), "{checks:#?}");
    // The curves: an event costs less the more rows a statement has, with cold caches and with warm ones.
    let curve = &view["charts"][0];
    assert_eq!(curve["x_categories"], "rows a statement");
    for line in curve["lines"].as_array().unwrap() {
        let points = line["points"].as_array().unwrap();
        let cost = |at: usize| points[at][1].as_f64().unwrap();
        assert!(
            points.len() >= 5 && cost(0) > 4.0 * cost(points.len() - 1),
            "{line}"
        );
    }
    let proof: serde_json::Value = serde_json::from_str(
        &std::fs::read_to_string(case.join("batches.proof/proof.json")).unwrap(),
    )
    .unwrap();
    assert_eq!(proof["sides"][0]["verdict"], "won");
    // If nothing could be recorded, the report gives the reason.
    let flames = view["flames"].as_array().unwrap();
    let unseen = view["unseen"].as_array().unwrap();
    assert_eq!(flames.is_empty(), !unseen.is_empty(), "{unseen:?}");
    if std::env::var_os("REHEARSE_TEST_PERF").is_some() {
        assert_eq!(flames.len(), 2, "{unseen:?}");
    }
    let page = std::fs::read_to_string(case.join("case.html")).unwrap();
    crate::assert_page_fits("case", &page);
    assert_eq!(page.matches("data:image/svg+xml,").count(), flames.len());
}
