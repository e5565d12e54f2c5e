//! Page of a comparison: a single well-formed file that is robust against text from outside and
//! shows the comparison's results.

mod markup;
#[path = "pages/shop_runs.rs"]
mod shop_runs;
#[path = "../../analysis/compare/tests/made_up/mod.rs"]
mod synthetic_runs;

use compare::{Anomaly, Direction, Side, StatementChange, StatementComparison};
use markup::{check_ids, check_nesting, check_self_contained, data};
use plans::PlanSide;
use report::compare_page::render_html;
use report::{TextStyle, UNLIMITED, compare_text};
use shop_runs::{compared, many, nothing};
use sql::Fingerprint;
use workload::Literals;

const NASTY: &str =
    "select '</script><img src=x onerror=alert(1)>', \"&lt;\", '<!--' from t where a < $1";

fn pages() -> [String; 3] {
    [compared(true), compared(false), nothing()].map(|view| render_html(&view))
}

#[test]
fn page_is_one_file_that_fetches_nothing() {
    for html in pages() {
        check_nesting(&html);
        check_self_contained(&html);
        check_ids(&html);
        assert!(html.contains("default-src 'none'"));
    }
}

#[test]
fn page_shows_the_results_of_the_comparison() {
    let html = render_html(&compared(true));
    for said in [
        "<h1>Regression</h1>",
        "1 statement got slower independently",
        "the run after is partial",
        "12 different statements: 1 slower independently",
        "23505</code> unique_violation",
        "1,090 → 727 rows",
        "How long calls took",
        "Statements a second",
        "Tool lag",
        "differ in 1 setting, 1 index.",
        "Index Scan using orders_customer on orders → Seq Scan on orders; new: Sort by placed_at desc",
        "random_page_cost</th>",
        "1.1 (configuration file)",
        "orders_customer on public.orders",
        "after: some may be seen by a superuser only (3)",
        "values in messages and plans are masked. Definitions of indexes and columns, and settings, are as the server has them",
    ] {
        let said = said.replace('\'', "&#39;");
        assert!(html.contains(&said), "{said}");
    }
    let statements = data(&html, "data-statements");
    assert_eq!(statements.as_array().unwrap().len(), 12);
    assert_eq!(statements[0]["finding"], "slower");
    assert_eq!(statements[0]["calls"], serde_json::json!([1_090, 1_090]));
    let details = data(&html, "data-details");
    assert_eq!(
        details["0000000000000002"]["slowest"][0][0][0],
        statements[0]["before"][4]
    );
}

#[test]
fn untrusted_text_is_escaped() {
    let plain = render_html(&compared(true));
    let mut view = compared(true);
    for statement in &mut view.statements {
        statement.sql = Some(NASTY.to_owned());
    }
    let plans = view.statements[0].plans.as_mut().unwrap();
    let PlanSide::Planned { plan, .. } = &mut plans.before else {
        panic!("{plans:?}");
    };
    plan.root.kind = NASTY.to_owned();
    plan.root.relation = Some(NASTY.to_owned());
    let targets = view.targets.as_mut().unwrap();
    targets.settings[0].name = NASTY.to_owned();
    targets.indexes[0].definition = NASTY.to_owned();
    view.errors[0].message = Some(NASTY.to_owned());
    view.errors[0].sql = Some(NASTY.to_owned());
    view.rows.changes[0].sql = Some(NASTY.to_owned());
    view.before.runs[0].name = "<img src=y>".to_owned();
    view.after.runs[0].target = "<img src=z>".to_owned();
    let html = render_html(&view);
    check_nesting(&html);
    assert!(!html.contains("<img"), "markup from outside is on the page");
    assert_eq!(data(&html, "data-statements")[2]["sql"], NASTY);
    assert_eq!(
        html.matches("</script>").count(),
        plain.matches("</script>").count()
    );
}

#[test]
fn page_states_whether_it_may_have_values() {
    let mut shown = compared(false);
    shown.literals = Literals::Shown;
    assert!(render_html(&shown).contains("--show-literals"));
    assert!(!render_html(&compared(false)).contains("--show-literals"));
}

#[test]
fn anomalies_are_described_in_words() {
    let mut view = compared(true);
    view.statements[0].anomalies = vec![
        Anomaly::HeavyTail {
            side: Side::After,
            share: 0.42,
        },
        Anomaly::DifferenceDrifts {
            from: 1.02,
            to: 3.4,
        },
    ];
    let details = data(&render_html(&view), "data-details");
    let anomalies = &details["0000000000000002"]["anomalies"];
    let said = |at: usize| anomalies[at].as_str().unwrap();
    assert!(said(0).starts_with("Heavy tail after: the slowest hundredth of calls takes 42.0 %"));
    assert!(said(1).contains("1.02 times as long at the start of the runs, 3.40 times"));
}

/// With very many statements the page keeps those that changed.
#[test]
fn page_keeps_changed_statements_of_very_many() {
    let mut view = many();
    let mut rare = view.statements[10].clone();
    let wanted = view
        .statements
        .iter()
        .filter(|one| one.service.finding.measure().is_some());
    let wanted = wanted.count();
    rare.service.before = None;
    rare.service.after = None;
    rare.fingerprint = Fingerprint(0xff);
    view.statements.insert(0, rare);
    let html = render_html(&view);
    assert!(html.contains("The page has 5,000 of 5,001 statements"));
    let kept = data(&html, "data-statements");
    let kept = kept.as_array().unwrap();
    assert_eq!(kept.len(), 5_000);
    let changed = kept.iter().filter(|one| !one["measure"].is_null());
    assert_eq!(changed.count(), wanted);
    assert!(
        kept.iter()
            .all(|one| one["fingerprint"] != "00000000000000ff")
    );
    assert_eq!(
        data(&html, "data-details").as_object().unwrap().len(),
        5_000
    );
}

/// Five thousand statements take a few megabytes; a larger page opens slowly.
#[test]
fn page_of_many_statements_is_small() {
    let html = render_html(&many());
    assert_eq!(
        data(&html, "data-statements").as_array().unwrap().len(),
        5_000
    );
    assert!(html.len() < 6_500_000, "{} bytes", html.len());
}

#[test]
fn page_names_first_the_statements_that_the_text_names_first() {
    let mut view = compared(true);
    let along = |one: &&mut StatementComparison| one.change.importance() == 0;
    let one = view.statements.iter_mut().find(along).unwrap();
    one.change = StatementChange::Unproven {
        direction: Direction::Faster,
        relative: 0.5,
        evidence: Vec::new(),
    };
    let style = TextStyle {
        width: UNLIMITED,
        colour: false,
    };
    let text = compare_text::render_text(&view, &style);
    let named: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.split_once(": "))
        .filter(|(word, _)| ["slower", "faster", "looks slower"].contains(word))
        .map(|(word, _)| word)
        .collect();
    assert!(!named.is_empty(), "{text}");
    let html = render_html(&view);
    let (_, list) = html.split_once("<ul class=\"changed\">").unwrap();
    let items = list.split_once("</ul>").unwrap().0.split("<li>").skip(1);
    let words: Vec<&str> = items.map(|item| item.split_once(": ").unwrap().0).collect();
    assert_eq!(words, named);
}
