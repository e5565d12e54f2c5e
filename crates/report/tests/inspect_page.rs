//! Page of a workload: a single well-formed file that is robust against text from outside.

mod markup;
mod synthetic;

use inspect::Inspection;
use markup::{check_ids, check_nesting, check_self_contained, data};
use report::inspect_page;
use synthetic::{WorkloadOptions, inspected};
use workload::Literals;
use workload::WorkloadInfo;

const NASTY: &str =
    "select '</script><img src=x onerror=alert(1)>', \"&lt;\", '<!--' from t where a < $1";

fn page(made: WorkloadOptions) -> String {
    inspect_page::render_html(&inspected(made))
}

#[test]
fn page_is_one_file_that_fetches_nothing() {
    let html = page(WorkloadOptions::default());
    check_nesting(&html);
    check_self_contained(&html);
    assert!(html.contains("default-src 'none'"));
}

#[test]
fn element_ids_are_unique() {
    check_ids(&page(WorkloadOptions::default()));
}

#[test]
fn page_shows_the_content_of_the_view() {
    let html = page(WorkloadOptions::default());
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
fn untrusted_text_is_escaped() {
    let html = page(WorkloadOptions {
        sql: NASTY,
        ..WorkloadOptions::default()
    });
    check_nesting(&html);
    assert!(
        !html.contains("<img"),
        "markup of a statement is on the page"
    );
    assert_eq!(data(&html, "data-statements")[2]["sql"], NASTY);
    let plain = page(WorkloadOptions::default());
    assert_eq!(
        html.matches("</script>").count(),
        plain.matches("</script>").count()
    );
}

#[test]
fn values_are_on_the_page_only_if_requested() {
    assert!(!page(WorkloadOptions::default()).contains("secret"));
    let html = page(WorkloadOptions {
        literals: true,
        ..WorkloadOptions::default()
    });
    assert!(html.contains("secret"));
    assert!(html.contains("--show-literals"));
}

#[test]
fn page_without_durations_states_it() {
    let html = page(WorkloadOptions {
        durations: false,
        ..WorkloadOptions::default()
    });
    check_nesting(&html);
    assert!(html.contains("The log has no durations"));
    assert!(!html.contains("<h2 id=\"durations\">"));
}

#[test]
fn empty_workload_is_still_a_page() {
    let info = WorkloadInfo::default();
    let literals = Literals::Hidden;
    let mut nothing = Inspection::collect::<()>(&info, [], [], [], [], literals).unwrap();
    nothing.workload = "<e>.workload".to_owned();
    let html = inspect_page::render_html(&nothing);
    check_nesting(&html);
    assert!(html.contains("There is no statement in this workload."));
    assert!(html.contains("&#60;e&#62;") || html.contains("&lt;e&gt;"));
}
