//! Page of a workload in a browser.

use report::inspect_page;
use serde_json::json;

use crate::synthetic::{WorkloadOptions, inspected};
use crate::tab::Tab;

const CHARTS: &str = "data('data-charts')";

fn open() -> Option<Tab> {
    Tab::open(&inspect_page::render_html(&inspected(
        WorkloadOptions::default(),
    )))
}

#[test]
fn inspect_page_sorts_searches_and_opens_a_statement() {
    let Some(mut tab) = open() else { return };
    let names = "[...document.querySelectorAll('#statement-table td.what')].map((one) => one.innerText.split(' ')[0])";
    let rows = "document.querySelectorAll('#statement-table tbody tr').length";
    assert_eq!(tab.eval(names), json!(["select", "insert", "select"]));

    // By calls, in both directions.
    tab.click("#statement-table th:nth-child(4) button");
    assert_eq!(
        tab.eval("document.querySelector('th[aria-sort]').innerText"),
        json!("calls")
    );
    assert_eq!(
        tab.eval("document.querySelector('th[aria-sort]').ariaSort"),
        "descending"
    );
    tab.click("#statement-table th:nth-child(4) button");
    assert_eq!(
        tab.eval("document.querySelector('th[aria-sort]').ariaSort"),
        "ascending"
    );

    tab.click("#search");
    tab.write("ORDERS customer_id");
    assert_eq!(tab.eval(names), json!(["insert"]));
    assert_eq!(
        tab.text("#statement-table [role=status]"),
        "1 of 3 statements"
    );

    // By keyboard from the search: class, heads, the statement.
    let focused = "document.activeElement.getAttribute('aria-expanded')";
    for _ in 0..20 {
        tab.press("Tab");
        if tab.eval(focused) == json!("false") {
            break;
        }
    }
    tab.press("Enter");
    assert_eq!(tab.eval(focused), json!("true"));
    assert_eq!(tab.number(rows), 2);
    assert!(tab.text("tr.detail pre").starts_with("insert into orders"));
    tab.assert_readable();
    tab.colours("dark");
    tab.assert_readable();
    tab.assert_clean();
}

#[test]
fn inspect_page_is_readable_dark_narrow_and_printed() {
    let Some(mut tab) = open() else { return };
    let paper = "getComputedStyle(document.body).backgroundColor";
    let light = tab.eval(paper);
    tab.picture("inspect-light", true);
    tab.colours("dark");
    assert_ne!(tab.eval(paper), light);
    tab.picture("inspect-dark", true);
    tab.colours("light");
    tab.size(390, 844);
    tab.assert_no_sideways_scrolling();
    tab.picture("inspect-narrow", true);
    assert!(tab.print("inspect").starts_with(b"%PDF"));
    tab.assert_clean();
}

#[test]
fn inspect_charts_share_a_cursor_by_pointer_and_keys() {
    let Some(mut tab) = open() else { return };
    let idle = tab.text(".reading");
    let shown = "[...document.querySelectorAll('.plot .cursor')].map((one) => one.getAttribute('visibility'))";
    let all = tab.number("document.querySelectorAll('.plot').length");
    assert_eq!(all, 6);
    tab.point(".plot", 0.5, 0.5);
    let read = tab.text(".reading");
    assert!(
        read.contains(" UTC: Statements a second ") && read.contains("Sessions open "),
        "{read}"
    );
    assert_eq!(tab.eval(shown), json!(vec!["visible"; all as usize]));
    tab.point("h1", 0.5, 0.5);
    assert_eq!(tab.text(".reading"), idle);

    // A lane's value has its own unit, and kinds that did not occur are not named.
    tab.eval("document.querySelectorAll('.plot')[5].focus(); 1");
    let mut said = Vec::new();
    for _ in 0..tab.number(&format!("{CHARTS}[5].series[0].values.length")) {
        tab.press("ArrowRight");
        said.push(tab.text(".reading"));
    }
    let files = said.iter().find(|one| one.contains("temp files"));
    let files = files.expect("the temporary files are read");
    assert!(files.contains("temp files 3.00 MiB"), "{files}");
    assert!(!files.contains("checkpoints"), "{files}");
    tab.assert_clean();
}

#[test]
fn inspect_charts_fit_a_narrow_window() {
    let Some(mut tab) = open() else { return };
    tab.size(390, 844);
    tab.picture("inspect-resized", false);
    let widths = "[...document.querySelectorAll('.plot svg')].every((one) => one.viewBox.baseVal.width === one.parentElement.clientWidth && one.parentElement.clientWidth < 390)";
    assert!(tab.is(widths));
    // Labels of the x axis do not overlap.
    let apart = "[...document.querySelectorAll('.plot svg')].every((one) => {
        const boxes = [...one.querySelectorAll('text[text-anchor=middle]')].map((label) => label.getBoundingClientRect());
        return boxes.length > 1 && boxes.every((box, at) => !at || box.left > boxes[at - 1].right);
    })";
    assert!(tab.is(apart));
    tab.assert_clean();
}
