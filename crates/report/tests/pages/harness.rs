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

#[test]
fn harness_detects_cut_labels_and_bars() {
    let label = "<p style='overflow:hidden;white-space:nowrap;text-overflow:ellipsis'>";
    let bar = "<div style='overflow:auto'><table><td style='min-width:20rem'>a<td class=bar><i style='display:block;width:9rem'>";
    let svg = "<svg width=300 height=20 style='overflow:visible'><text x=290 y=15>a label that is long enough</text></svg>";
    let whole = format!("{label}whole</p>");
    for (body, is_cut) in [
        (format!("{label}{}</p>", "long ".repeat(30)), true),
        (bar.to_owned(), true),
        (svg.to_owned(), true),
        (format!("<p>{}</p>", "long".repeat(30)), true),
        (whole, false),
    ] {
        let Some(mut tab) = Tab::open(&format!(
            "<!DOCTYPE html><title>t</title><body>{body}</body>"
        )) else {
            return;
        };
        tab.size(390, 844);
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            tab.assert_no_sideways_scrolling();
        }));
        assert_eq!(checked.is_err(), is_cut, "{body}");
    }
}
