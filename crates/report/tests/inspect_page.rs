//! A workload as a page: one file, well-formed enough, that nothing from outside can break.

mod made_up;
mod markup;

use inspect::Inspection;
use made_up::{Made, inspected};
use markup::{check_ids, check_nesting, check_self_contained, data};
use report::inspect_page;
use workload::Literals;
use workload::WorkloadInfo;

const NASTY: &str =
    "select '</script><img src=x onerror=alert(1)>', \"&lt;\", '<!--' from t where a < $1";

fn page(made: Made) -> String {
    inspect_page::render_html(&inspected(made))
}

#[test]
fn it_is_one_file_that_fetches_nothing() {
    let html = page(Made::default());
    check_nesting(&html);
    check_self_contained(&html);
    assert!(html.contains("default-src 'none'"));
}

#[test]
fn no_two_elements_have_one_id() {
    check_ids(&page(Made::default()));
}

#[test]
fn it_tells_what_the_view_tells() {
    let html = page(Made::default());
    for said in [
        "<b>2,895</b><span>statements</span>",
        "23505</code> unique_violation",
        "Statements a second",
        "Sessions open",
        "shop.public.orders",
        "was terminated by signal 9",
        "logs/shop.log:301",
    ] {
        assert!(html.contains(said), "{said}");
    }
    let statements = data(&html, "data-statements");
    assert_eq!(statements.as_array().unwrap().len(), 3);
    let charts = data(&html, "data-charts");
    assert_eq!(charts[0]["title"], "Statements a second");
    assert_eq!(charts[0]["x"]["step"], 500_000.0);
}

#[test]
fn text_from_outside_breaks_nothing() {
    let html = page(Made {
        sql: NASTY,
        ..Made::default()
    });
    check_nesting(&html);
    assert!(
        !html.contains("<img"),
        "markup of a statement is on the page"
    );
    assert_eq!(data(&html, "data-statements")[2]["sql"], NASTY);
    let plain = page(Made::default());
    assert_eq!(
        html.matches("</script>").count(),
        plain.matches("</script>").count()
    );
}

#[test]
fn values_are_on_it_only_where_asked_for() {
    assert!(!page(Made::default()).contains("secret"));
    let html = page(Made {
        literals: true,
        ..Made::default()
    });
    assert!(html.contains("secret"));
    assert!(html.contains("--show-literals"));
}

#[test]
fn without_durations_it_says_so() {
    let html = page(Made {
        durations: false,
        ..Made::default()
    });
    check_nesting(&html);
    assert!(html.contains("The log has no durations"));
    assert!(!html.contains("<h2 id=\"durations\">"));
}

#[test]
fn of_nothing_it_is_still_a_page() {
    let info = WorkloadInfo::default();
    let literals = Literals::Hidden;
    let mut nothing = Inspection::collect::<()>(&info, [], [], [], [], literals).unwrap();
    nothing.workload = "<e>.workload".to_owned();
    let html = inspect_page::render_html(&nothing);
    check_nesting(&html);
    assert!(html.contains("There is no statement in this workload."));
    assert!(html.contains("&#60;e&#62;") || html.contains("&lt;e&gt;"));
}
