//! Lost connections of a shadow comparison: outages, and what is none.

use super::*;

/// A connection of this session, of 20, which is lost.
fn lost(at_ns: i64, session: u64, code: &str) -> LostConnection {
    LostConnection {
        at_ns,
        session,
        sqlstate: Sqlstate::parse(code).unwrap(),
        connections_open: 20,
    }
}

/// Adds one execution each second, which takes twice as long as captured, and the lost connections before it.
fn shadow_with(
    seconds: i64,
    mut lost: Vec<LostConnection>,
    mut change: impl FnMut(i64, &mut Execution),
) -> Shadow {
    lost.sort_by_key(|lost| lost.at_ns);
    let mut lost = lost.into_iter().peekable();
    let mut shadow = Shadow::new(ShadowOptions::default());
    for second in 0..seconds {
        let mut one = execution(1, second * SECOND_NS, 1.0);
        slow(&mut one, 2.0);
        change(second, &mut one);
        while let Some(lost) = lost.next_if(|lost| lost.at_ns <= one.ended_ns()) {
            shadow.add_lost(lost);
        }
        shadow.add(&one);
    }
    lost.for_each(|lost| shadow.add_lost(lost));
    shadow.finish();
    shadow
}

fn excluded(shadow: &Shadow) -> [u64; 3] {
    let excluded = shadow.report(10).windows_excluded;
    use WindowExclusion::{Empty, Outage, Settling};
    [Outage, Settling, Empty].map(|why| excluded.get(&why).copied().unwrap_or_default())
}

/// A restart between two statements fails none. Then caches are cold.
#[test]
fn shadow_excludes_the_windows_after_a_restart_that_cut_idle_connections_only() {
    let restart = |code: &str| {
        let lost = (1..=7).map(|session| lost(304 * SECOND_NS, session, code));
        let shadow = shadow_with(600, lost.collect(), |second, one| match second {
            305..335 => slow(one, 20.0),
            _ => slow(one, 0.5),
        });
        let tests = shadow.report(10).statements[0].tests.clone();
        (excluded(&shadow), tests[0].windows_with_difference, shadow)
    };
    for code in ["57P01", "08006", "08P01"] {
        let (excluded, different, shadow) = restart(code);
        assert_eq!((excluded, different), ([1, 3, 0], 0), "{code}");
        let report = shadow.report(10);
        let [gap] = &report.gaps[..] else {
            panic!("{report:?}")
        };
        assert_eq!(gap.from_ns, 304 * SECOND_NS);
        assert_eq!((gap.connections_lost, report.connections_lost), (7, 0));
    }
    // A timeout of idle sessions is no outage, and is counted.
    let (excluded, _, shadow) = restart("57P05");
    let report = shadow.report(10);
    assert_eq!((excluded, report.connections_lost), ([0; 3], 7));
    assert_eq!(report.gap_count, 0);
}

/// A pooler in front of the candidate closes an idle connection every 15 s.
#[test]
fn shadow_that_loses_single_connections_compares_all_windows() {
    let idle = (0..60).map(|number| lost(number * 15 * SECOND_NS, number as u64 + 2, "08006"));
    let busy = (0..6).map(|number| lost(number * 150 * SECOND_NS, 1, "08006"));
    let shadow = shadow_with(900, idle.chain(busy).collect(), |second, one| {
        // One of the sessions was in a transaction.
        if second % 150 == 0 {
            one.outcome = Outcome::Failed(Sqlstate(*b"08006"));
        } else if second % 150 == 1 {
            one.outcome = Outcome::Skipped(SkipReason::TransactionLost);
        }
    });
    let mut shadow = shadow;
    assert_eq!(shadow.take_changes().len(), 1);
    let report = shadow.report(10);
    assert!(report.windows_excluded.is_empty(), "{report:?}");
    assert_eq!((report.windows, report.connections_lost), (90, 66));
    assert_eq!(report.not_replayed["connection_lost"], 6);
    assert!(!report.is_mostly_excluded());
}

/// Losses of one session are one of 20, and those of several are an outage only if they come together.
#[test]
fn shadow_counts_distinct_sessions_that_lose_their_connection_within_a_short_time() {
    let hour = ShadowOptions {
        window_ns: 3_600 * SECOND_NS,
        ..ShadowOptions::default()
    };
    for (code, options) in [
        ("08006", ShadowOptions::default()),
        ("57P01", ShadowOptions::default()),
        ("08006", hour.clone()),
        ("57P01", hour),
    ] {
        let mut shadow = Shadow::new(options);
        for second in 0..7_200 {
            shadow.add_lost(lost(second * SECOND_NS, 7, code));
            if second % 5 == 0 {
                shadow.add_lost(lost(second * SECOND_NS, second as u64, code));
            }
            shadow.add(&execution(1, second * SECOND_NS, 1.0));
        }
        shadow.finish();
        assert_eq!(excluded(&shadow), [0; 3], "{code}");
    }
    // Seven sessions within 12 s, across the border of two windows, are six in each 10 s; within 9 s they are seven.
    for (step_ms, expected) in [(2_000, [0, 0, 0]), (1_500, [1, 3, 0])] {
        let lost = (0..7).map(|number| {
            let at_ns = 300 * SECOND_NS - 3 * SECOND_NS + number * step_ms * 1_000_000;
            lost(at_ns, number as u64, "08006")
        });
        let shadow = shadow_with(600, lost.collect(), |_, _| {});
        assert_eq!(excluded(&shadow), expected, "{step_ms}");
    }
}

#[test]
fn shadow_of_one_session_has_an_outage_if_a_shutdown_ends_it() {
    for (code, expected) in [("57P01", [1, 3, 0]), ("08006", [0, 0, 0])] {
        let lost = LostConnection {
            connections_open: 1,
            ..lost(300 * SECOND_NS, 1, code)
        };
        assert_eq!(
            excluded(&shadow_with(600, vec![lost], |_, _| {})),
            expected,
            "{code}"
        );
    }
}

/// Losses of a pause are not those of the window after it, whose caches are cold only if the candidate was restarted late.
#[test]
fn shadow_keeps_losses_during_a_pause_apart_from_the_window_after_it() {
    let paused = |lost: Vec<LostConnection>| {
        let mut shadow = Shadow::new(ShadowOptions::default());
        let mut lost = lost.into_iter().peekable();
        for second in (0..300).chain(600..900) {
            while let Some(lost) = lost.next_if(|lost| lost.at_ns <= second * SECOND_NS) {
                shadow.add_lost(lost);
            }
            shadow.add(&execution(1, second * SECOND_NS, 1.0));
        }
        shadow.finish();
        excluded(&shadow)
    };
    let one_by_one =
        (0..14).map(|number| lost((310 + number * 20) * SECOND_NS, number as u64, "08006"));
    assert_eq!(paused(one_by_one.collect()), [0, 0, 30]);
    for (at, settling) in [(400, 0), (575, 1), (595, 3)] {
        let restart = (0..14).map(|session| lost(at * SECOND_NS, session, "57P01"));
        assert_eq!(paused(restart.collect()), [0, settling, 30], "{at}");
    }
}

/// A statement that breaks its connection each time, on one of 20 sessions.
#[test]
fn shadow_with_a_statement_that_always_breaks_its_connection_names_it() {
    for code in ["08006", "08P01", "57P01", "XX000"] {
        let mut shadow = Shadow::new(ShadowOptions::default());
        for second in 0..900 {
            let at_ns = second * SECOND_NS;
            if second % 30 == 7 {
                shadow.add_lost(lost(at_ns, 7, code));
                let mut one = execution(7, at_ns, 1.0);
                one.session = 7;
                one.outcome = Outcome::Failed(Sqlstate::parse(code).unwrap());
                shadow.add(&one);
            }
            shadow.add(&execution(1, at_ns, 1.0));
        }
        shadow.finish();
        let changes = shadow.take_changes().into_iter();
        let changes: Vec<_> = changes
            .map(|change| (change.statement.fingerprint.0, change.measure))
            .collect();
        assert_eq!(changes, [(7, ShadowMeasure::Errors)], "{code}");
        let report = shadow.report(10);
        assert_eq!((report.replayed, report.windows), (930, 90), "{code}");
        assert!(report.not_replayed.is_empty(), "{code}");
    }
}

/// An error of a foreign server's connection leaves the session's own.
#[test]
fn shadow_with_errors_of_foreign_connections_names_the_statement() {
    let mut shadow = shadow_with(900, Vec::new(), |second, one| {
        slow(one, 0.5);
        if second % 20 == 0 {
            one.outcome = Outcome::Failed(Sqlstate(*b"08006"));
        }
    });
    let changes = shadow.take_changes();
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].measure, ShadowMeasure::Errors);
}

/// The candidate is restarted all the time.
#[test]
fn shadow_that_is_mostly_excluded_says_so() {
    let restarts = (0..15).flat_map(|number| {
        (0..15).map(move |session| lost(number * 60 * SECOND_NS, session, "57P01"))
    });
    let shadow = shadow_with(900, restarts.collect(), |_, _| {});
    let report = shadow.report(10);
    assert_eq!(excluded(&shadow), [15, 45, 0]);
    assert_eq!((report.windows, report.connections_lost), (30, 0));
    assert!(report.is_mostly_excluded());
}

/// A reader of a complete run has losses earlier than a follower, which has those before the executions it has.
#[test]
fn shadow_of_a_complete_run_is_judged_as_while_it_was_written() {
    let report = |is_complete: bool| {
        let mut shadow = Shadow::new(ShadowOptions::default());
        let mut losses = (0..6_000_u64)
            .map(|number| {
                let is_restart = number / 20 % 40 == 3;
                let at_ns = match is_restart {
                    true => (number / 20 * 60) as i64 * SECOND_NS,
                    false => number as i64 * 3 * SECOND_NS,
                };
                lost(at_ns, number % 20, "08006")
            })
            .collect::<Vec<_>>();
        losses.sort_by_key(|lost| lost.at_ns);
        let mut losses = losses.into_iter().peekable();
        for second in 0..18_000 {
            let at_ns = second * SECOND_NS;
            while let Some(lost) = losses.next_if(|lost| is_complete || lost.at_ns <= at_ns) {
                shadow.add_lost(lost);
            }
            shadow.add(&execution(1, at_ns, 1.0));
        }
        losses.for_each(|lost| shadow.add_lost(lost));
        shadow.finish();
        shadow.report(10)
    };
    let complete = report(true);
    assert_eq!(complete, report(false));
    assert!(complete.windows_excluded[&WindowExclusion::Outage] > 5);
    let in_gaps: u64 = complete.gaps.iter().map(|gap| gap.connections_lost).sum();
    assert_eq!(complete.connections_lost + in_gaps, 6_000);
}
