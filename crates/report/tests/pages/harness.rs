//! Tests of the harness itself.

use crate::tab::Tab;

#[test]
fn harness_detects_page_errors() {
    let page = |body: &str| format!("<!DOCTYPE html><title>t</title><body>{body}</body>");
    for (name, body, said) in [
        (
            "exception",
            "<script>nothing.at.all()</script>",
            "exception",
        ),
        ("console", "<script>console.error('no')</script>", "console"),
        (
            "request",
            "<img src='http://127.0.0.1:9/a.png'>",
            "request: http://127.0.0.1:9/a.png",
        ),
        (
            "policy",
            "<meta http-equiv='Content-Security-Policy' content=\"script-src 'none'\"><script>1</script>",
            "log",
        ),
        ("file", "<script src='other.js'></script>", "other.js"),
    ] {
        let Some(mut tab) = Tab::open(&page(body)) else {
            return;
        };
        let complaints = tab.complaints();
        let found = complaints.iter().any(|complaint| complaint.contains(said));
        assert!(found, "{name}: {complaints:?}");
    }
    let Some(mut tab) = Tab::open(&page("<p style='width:3000px'>wide</p>")) else {
        return;
    };
    tab.assert_clean();
    tab.assert_readable();
    assert!(tab.is("document.documentElement.scrollWidth > innerWidth"));
}

#[test]
#[should_panic(expected = "contrast 1.6")]
fn harness_detects_unreadable_text() {
    let page = "<!DOCTYPE html><body><h1>t</h1><p style='color:#ccc'>pale</p></body>";
    match Tab::open(page) {
        Some(mut tab) => tab.assert_readable(),
        None => panic!("not tested for want of a browser, which has no contrast 1.6"),
    }
}
