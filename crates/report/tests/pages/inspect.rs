//! The page of a workload.

use report::inspect_page;
use serde_json::json;

use crate::made_up::{Made, inspected};
use crate::tab::Tab;

fn open() -> Option<Tab> {
    Tab::open(&inspect_page::render_html(&inspected(Made::default())))
}

#[test]
fn it_opens_sorts_searches_and_shows_a_statement() {
    let Some(mut tab) = open() else { return };
    let names = "[...document.querySelectorAll('#statement-table td.what')].map((one) => one.innerText.split(' ')[0])";
    let rows = "document.querySelectorAll('#statement-table tbody tr').length";
    assert_eq!(tab.eval(names), json!(["select", "insert", "select"]));

    // By calls, and the other way round.
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
    assert_eq!(tab.text("[role=status]"), "1 of 3 statements");

    // By the keyboard, from the search on: class, heads, the statement.
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
fn it_is_read_in_the_dark_on_a_phone_and_on_paper() {
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
