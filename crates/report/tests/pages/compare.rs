//! Page of a comparison in a browser.

use report::compare_page::render_html;
use serde_json::json;

use crate::shop_runs::{compared, many, nothing};
use crate::tab::Tab;

const SLOW: &str = "0000000000000002";

/// Number of statements in the table.
const SHOWN: &str = "document.querySelectorAll('#statement-table td.what').length";
const STATUS: &str = "#statement-table [role=status]";

#[test]
fn verdict_and_slower_statements_are_visible_at_once() {
    let Some(mut tab) = Tab::open(&render_html(&compared(true))) else {
        return;
    };
    let said = tab.text("#verdict");
    assert!(said.contains("got slower"), "{said}");
    assert!(said.contains("from orders o where o.customer_id"), "{said}");
    assert!(tab.seen("#verdict h1"));
    assert!(tab.seen("#verdict a"));
    assert!(
        tab.seen("#verdict .changed li"),
        "the statement that changed, with its reasons"
    );
    for (width, height, name) in [(1_280, 800, "light"), (390, 844, "narrow")] {
        tab.size(width, height);
        assert!(tab.seen("#verdict h1"));
        tab.assert_no_sideways_scrolling();
        tab.picture(&format!("compare-{name}-top"), false);
        tab.picture(&format!("compare-{name}"), true);
    }
    tab.size(1_280, 800);
    tab.colours("dark");
    tab.picture("compare-dark", true);
    tab.assert_clean();
}

#[test]
fn statement_table_sorts_filters_and_searches() {
    let Some(mut tab) = Tab::open(&render_html(&compared(true))) else {
        return;
    };
    let first = "document.querySelector('#statement-table td.what').innerText";
    let all = tab.number(SHOWN);
    assert_eq!(all, 12);
    assert!(
        tab.eval(first)
            .as_str()
            .unwrap()
            .contains("customer_id = $1 and")
    );

    tab.click("#statement-table .chip[data-value=faster]");
    let faster = tab.number(SHOWN);
    assert!((1..all).contains(&faster));
    assert_eq!(
        tab.eval("document.querySelector('.chip[aria-pressed=true]').dataset.value"),
        json!("faster")
    );
    assert_eq!(tab.text(STATUS), format!("{faster} of 12 statements"));
    tab.click("#statement-table .chip[data-value='']");

    tab.click("#search");
    tab.write(SLOW);
    assert_eq!(tab.number(SHOWN), 1);
    tab.eval("document.getElementById('search').value = ''");
    tab.write("STOCK set");
    assert_eq!(tab.number(SHOWN), 1);
    assert!(tab.eval(first).as_str().unwrap().contains("update stock"));
    tab.eval("document.getElementById('search').value = ''");
    tab.write("seq scan");
    assert_eq!(tab.number(SHOWN), 1, "found by a step of its plan");
    assert!(tab.eval(first).as_str().unwrap().contains("from orders o"));
    tab.eval("(() => { const one = document.getElementById('search'); one.value = ''; one.dispatchEvent(new Event('input')); })()");

    // The calls in descending order, then in ascending order.
    let calls = "[...document.querySelectorAll('#statement-table tbody tr')].map((row) => Number(row.cells[4].innerText.split(' ')[0].replaceAll(',', '')))";
    let head = "#statement-table th:nth-child(5) button";
    for (sort, ascending) in [("descending", false), ("ascending", true)] {
        tab.click(head);
        let found: Vec<i64> = serde_json::from_value(tab.eval(calls)).unwrap();
        assert!(
            found.is_sorted_by(|a, b| if ascending { a <= b } else { a >= b }),
            "{found:?}"
        );
        assert_eq!(
            tab.eval("document.querySelector('th[aria-sort]').ariaSort"),
            json!(sort)
        );
    }
    tab.assert_clean();
}

#[test]
fn statement_opens_by_click_key_and_address() {
    let Some(mut tab) = Tab::open(&render_html(&compared(true))) else {
        return;
    };
    let open = "document.querySelectorAll('tr.detail').length";
    tab.click("#forest li:nth-child(3) a");
    assert_eq!(tab.number(open), 1);
    assert_eq!(
        tab.eval("location.hash"),
        json!(format!("#statement={SLOW}"))
    );
    let said = tab.text("tr.detail");
    assert!(said.contains("Slower independently"), "{said}");
    assert!(said.contains(": the median is 1"), "{said}");
    assert!(said.contains("order by o.placed_at desc"), "{said}");
    assert!(said.contains("The slowest calls"), "{said}");
    assert!(said.contains("The plan is another"), "{said}");
    assert_eq!(
        tab.eval("[...document.querySelectorAll('.plan')].map((one) => [...one.children].map((step) => step.className))"),
        json!([["same", "changed"], ["same", "alone", "changed"]])
    );
    assert!(
        tab.text("#forest li:nth-child(3)")
            .contains("→ Seq Scan on orders")
    );
    assert_eq!(
        tab.number("document.querySelectorAll('tr.detail .plot[role=img] path.line.after').length"),
        2
    );
    tab.picture("compare-open", false);
    tab.assert_readable();
    tab.colours("dark");
    tab.assert_readable();
    tab.colours("light");

    // The keyboard focus is on the statement: close it, move down, open the next.
    let expanded = "document.activeElement.getAttribute('aria-expanded')";
    assert_eq!(tab.eval(expanded), json!("true"));
    tab.press("Enter");
    assert_eq!(tab.number(open), 0);
    tab.press("ArrowDown");
    assert_eq!(tab.eval(expanded), json!("false"));
    tab.press("Enter");
    assert_eq!(tab.number(open), 1);
    tab.press("ArrowUp");
    assert_eq!(tab.eval(expanded), json!("false"));

    tab.go(&format!("#statement={SLOW}"));
    assert!(
        tab.text("tr.detail pre")
            .starts_with("select o.id, o.total")
    );
    assert!(tab.seen(&format!("#row-{SLOW}")));
    tab.go("#statement=<b>");
    assert_eq!(tab.number(open), 0);
    tab.size(390, 844);
    tab.go(&format!("#statement={SLOW}"));
    tab.assert_no_sideways_scrolling();
    tab.picture("compare-open-narrow", false);
    tab.assert_clean();
}

#[test]
fn slower_statements_are_open_in_print() {
    let Some(mut tab) = Tab::open(&render_html(&compared(true))) else {
        return;
    };
    tab.eval("addEventListener('beforeprint', () => { window.opened = document.querySelectorAll('tr.detail').length; })");
    let paper = tab.print("compare");
    assert!(paper.starts_with(b"%PDF"));
    assert!(
        tab.number("window.opened") >= 1,
        "it was open while it was printed"
    );
    assert_eq!(
        tab.number("document.querySelectorAll('tr.detail').length"),
        0
    );
    tab.as_on_paper();
    tab.size(1_030, 700);
    tab.eval("dispatchEvent(new Event('beforeprint'))");
    tab.picture("compare-paper", true);
    tab.assert_clean();
}

#[test]
fn unchanged_and_empty_comparisons_are_pages() {
    for (name, view, said) in [
        ("same", compared(false), "No regression"),
        ("nothing", nothing(), "Inconclusive"),
    ] {
        let Some(mut tab) = Tab::open(&render_html(&view)) else {
            return;
        };
        let verdict = tab.text("#verdict");
        assert!(verdict.contains(said), "{verdict}");
        tab.picture(&format!("compare-{name}"), true);
        tab.assert_clean();
    }
}

/// The time is measured, not asserted, because a busy machine proves nothing. It is in
/// docs/benchmarks/comparison.md.
#[test]
fn page_of_five_thousand_statements_loads_and_searches() {
    let html = render_html(&many());
    let Some(mut tab) = Tab::open(&html) else {
        return;
    };
    println!(
        "a page of {:.1} MB opened in {:.0} ms",
        html.len() as f64 / 1e6,
        tab.opened_in_ms()
    );
    assert_eq!(tab.text(STATUS), "5,000 statements");
    tab.click("#search");
    tab.write("shard_4321");
    assert_eq!(tab.number(SHOWN), 1);
    tab.click("#statement-table td.what button");
    assert_eq!(
        tab.number("document.querySelectorAll('tr.detail').length"),
        1
    );
    tab.assert_clean();
}
