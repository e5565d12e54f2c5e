//! Cases of the lab at their small size. The tests check the direction and the cause, not times.
//! The queue case is in `starving.rs`.

mod heap;
mod planning;

use crate::case::{rehearse, shown};

#[test]
fn in_one_queue_a_slow_statement_holds_up_sessions_that_have_nothing_to_do_with_it() {
    if test_support::skip_in_fast_tier() {
        return;
    }
    let (directory, view) = shown("stall");
    let cause = &view["checks"][3]["measured"];
    assert!(
        cause
            .as_str()
            .unwrap()
            .starts_with("select id, state from orders where customer = $1"),
        "{cause}"
    );
    let diagnosed = view["checks"][4]["measured"].as_str().unwrap();
    assert!(
        diagnosed.starts_with("missing-index: ")
            && diagnosed.ends_with("CREATE INDEX ON public.orders (customer);"),
        "{diagnosed}"
    );
    let shipped = view["checks"][5]["measured"].as_str().unwrap();
    assert!(shipped.starts_with("lost: "), "{shipped}");
    // A folder of a case is replaced by the next; one of somebody else's is left alone.
    let foreign = directory.path().display().to_string();
    let refused = rehearse(&["lab", "stall", "--output", &foreign]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(directory.path().join("case/case.json").exists());
}

#[test]
fn an_instance_that_is_told_nothing_says_so() {
    let alone = rehearse(&["lab", "instance"]);
    assert_eq!(alone.status.code(), Some(3), "{alone:?}");
    let said = String::from_utf8(alone.stderr).unwrap();
    assert!(said.contains("received: nothing"), "{said}");
    assert!(
        !String::from_utf8(rehearse(&["lab", "--help"]).stdout)
            .unwrap()
            .contains("instance")
    );
}
