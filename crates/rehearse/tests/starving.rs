//! The lab's queue case, whose claim query lacks its index. It runs in a separate test binary, since other tests at the
//! same time would hide the effects of a busy server.

mod case;

use serde_json::Value;

use case::shown;

/// A check of the case, by a part of what it says.
fn check<'v>(view: &'v Value, what: &str) -> &'v str {
    let checks = view["checks"].as_array().unwrap();
    let found = checks
        .iter()
        .find(|one| one["what"].as_str().unwrap().contains(what));
    let found = found.unwrap_or_else(|| panic!("no check of {what}"));
    found["measured"].as_str().unwrap()
}

#[test]
fn workers_starve_for_an_index_the_suspect_is_innocent_and_nothing_is_lost_or_done_twice() {
    if case::skip_long_case() {
        return;
    }
    let (directory, view) = shown("queue");
    let cause = check(&view, "first finding");
    assert!(
        cause.starts_with("missing-index: ")
            && cause
                .ends_with("CREATE INDEX ON public.image_links (download_after, referenced_at);"),
        "{cause}"
    );
    assert!(check(&view, "limiter").contains("cleared"));
    assert!(check(&view, "composite index is proved").starts_with("won"));

    let folder = directory.path().join("case");
    let read = |name: &str| -> Value {
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    // The evidence is kept, and says the same.
    let diagnosis = read("diagnosis.json");
    assert_eq!(diagnosis["findings"][0]["rule"], "missing-index");
    assert_eq!(diagnosis["suspects"][0]["verdict"], "cleared");
    assert!(diagnosis["suspects"][0]["calls"].as_u64().unwrap() > 0);
    let proof = read("indexes.proof/proof.json");
    let sides: Vec<&str> = proof["sides"]
        .as_array()
        .unwrap()
        .iter()
        .map(|side| side["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        sides,
        [
            "(download_after, referenced_at)",
            "(referenced_at, download_after) WHERE queued_at IS NULL",
            "(download_after)"
        ]
    );
    assert!(folder.join("indexes.proof/report.html").exists());
    // The pictures: the same series without the index and with it.
    for chart in view["charts"].as_array().unwrap() {
        assert_eq!(chart["lines"].as_array().unwrap().len(), 2, "{chart}");
    }
}
