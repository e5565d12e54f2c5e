//! Observations of a server as text, in forty lines however many there are.

use report::{TextStyle, observed_text, to_document};
use run::{ProbeNote, ProbeState};
use sql::Fingerprint;
use time_breakdown::observed::{
    Blocked, CounterChange, Locks, Machine, Observation, Observed, ObservedStatement, Pressure,
    ProbeOutcome, QueueSeries, StatementTotals, Wait,
};

use super::info;

const MANY: u64 = 500;

fn wait(samples: u64) -> Wait {
    Wait {
        kind: Some("Lock".to_owned()),
        wait: Some("transactionid".to_owned()),
        samples,
    }
}

fn note(state: ProbeState) -> ProbeNote {
    ProbeNote {
        probe: "statements".to_owned(),
        state,
        text: "the time of planning".to_owned(),
        remedy: Some("track_planning = on".to_owned()),
        count: Some(3),
        ..ProbeNote::default()
    }
}

fn all_of_it() -> Observed {
    let totals = StatementTotals {
        calls: 4_000,
        plans: Some(4_000),
        plan_ns: Some(3_000_000_000),
        exec_ns: 1_000_000_000,
        ..StatementTotals::default()
    };
    let moved = |source: &str, object: &str, name: &str| CounterChange {
        source: source.to_owned(),
        object: object.to_owned(),
        name: name.to_owned(),
        delta: 1_234.0,
        max: 1_234.0,
        ..CounterChange::default()
    };
    Observed {
        probes: (0..MANY)
            .map(|number| ProbeOutcome {
                probe: format!("probe{number}"),
                disabled_reason: Some("it cannot".to_owned()),
                queries: 2,
                ..ProbeOutcome::default()
            })
            .collect(),
        notes: (0..MANY).map(|_| note(ProbeState::Unseen)).collect(),
        host: vec![note(ProbeState::Changeable)],
        samples: 100,
        samples_missed: 2,
        active_samples: MANY * 100,
        idle_in_transaction: 50,
        waits: (0..MANY).map(|_| wait(100)).collect(),
        statements: (0..MANY)
            .map(|number| ObservedStatement {
                fingerprint: Some(Fingerprint(number)),
                sql: Some(format!("select {} from orders", "x, ".repeat(200))),
                counted: Some(totals),
                samples: 7,
                waits: vec![wait(7)],
            })
            .collect(),
        totals,
        blocking: (0..MANY)
            .map(|_| Blocked {
                blocked: Some("update t".to_owned()),
                ..Blocked::default()
            })
            .collect(),
        locks: Some(Locks {
            max: 50,
            fast_path: 16,
            past_fast_path: 34,
            ..Locks::default()
        }),
        machine: Some(Machine {
            processors: 2.0,
            busy: 0.5,
            over_s: 10.0,
            pressure: Some(Pressure {
                cpu: 0.1,
                memory: 0.2,
                io: 0.3,
            }),
            ..Machine::default()
        }),
        counters: (0..MANY)
            .flat_map(|number| {
                let table = format!("public.t{number}");
                [
                    moved("pg_stat_database", "shop", "xact_commit"),
                    moved("pg_stat_wal", "", "wal_bytes"),
                    moved("pg_stat_user_tables", &table, "seq_tup_read"),
                    moved("pg_stat_user_tables", &table, "n_dead_tup"),
                ]
            })
            .collect(),
        queue: (0..MANY).map(|_| QueueSeries::default()).collect(),
        ..Observed::default()
    }
}

fn shown(observed: Observed, width: usize) -> (Observation, String) {
    let view = Observation::new("a.run", &info(), observed);
    let style = TextStyle {
        width,
        colour: false,
    };
    let text = observed_text::render_text(&view, &style);
    (view, text)
}

#[test]
fn observations_fit_into_forty_lines() {
    for width in [60, 100, 140] {
        let (_, text) = shown(all_of_it(), width);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.len() <= 40, "{}\n{text}", lines.len());
        for line in &lines {
            assert!(line.chars().count() <= width, "{line}");
        }
    }
    let (view, text) = shown(all_of_it(), 140);
    // Planning and execution: 75 % of 4 s.
    assert!(
        text.contains("4.00 s, 75.0 % of it planning; 4,000 calls"),
        "{text}"
    );
    assert!(text.contains("and 492 more"), "{text}");
    assert!(text.contains("Lock transactionid"), "{text}");
    // Three of a thousand that are disabled or unavailable.
    assert!(text.contains("and 997 more"), "{text}");
    let json = to_document(&view);
    assert!(json.contains("rehearse/observe/1"), "{json}");
}

#[test]
fn uncounted_numbers_are_unknown_not_zero() {
    let totals = StatementTotals {
        calls: 5,
        exec_ns: 1_000_000,
        ..StatementTotals::default()
    };
    let observed = Observed {
        statements: vec![
            ObservedStatement {
                counted: Some(totals),
                ..ObservedStatement::default()
            },
            ObservedStatement {
                sql: Some("select sampled".to_owned()),
                samples: 3,
                ..ObservedStatement::default()
            },
        ],
        totals,
        ..Observed::default()
    };
    let (view, text) = shown(observed, 120);
    assert!(text.contains("planning not counted"), "{text}");
    assert!(
        text.contains("(of other roles, whose texts this one may not see)"),
        "{text}"
    );
    let json: serde_json::Value = serde_json::from_str(&to_document(&view)).unwrap();
    assert!(json["statements"][0]["counted"]["plans"].is_null());
    assert!(json["statements"][1]["counted"].is_null());
    assert!(!text.contains("Machine"), "{text}");
    // Without samples the number of active sessions is unknown.
    assert!(!text.contains("Active sessions"), "{text}");
}
