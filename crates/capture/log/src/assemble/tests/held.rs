//! Events that the reader of a log holds, for a capture that is killed.

use workload::series::{HeldEvent, RunningEvent};
use workload::{EventRef, ServerEvent, Session};

use crate::{Parallelism, capture_bytes_in_parallel};
use capture_sink::{EventSink, SinkError};

/// Collects the statements that were reported as held last, and those that were delivered later.
#[derive(Default)]
struct HeldCollector {
    held: Vec<HeldEvent>,
    delivered: Vec<RunningEvent>,
}

impl EventSink for HeldCollector {
    fn event(&mut self, event: &EventRef<'_>) -> Result<(), SinkError> {
        let duration_us = event.outcome.duration_us;
        let statement = event.kind.sql();
        let statement =
            statement.map(|sql| RunningEvent::new(event.due_us, duration_us, Some(sql)));
        self.delivered.extend(statement);
        Ok(())
    }

    fn session(&mut self, _: Session) -> Result<(), SinkError> {
        Ok(())
    }

    fn server_event(&mut self, _: ServerEvent) -> Result<(), SinkError> {
        Ok(())
    }

    fn needs_held(&self) -> bool {
        true
    }

    fn held(&mut self, held: &mut dyn Iterator<Item = HeldEvent>) {
        self.held = held.collect();
        self.delivered.clear();
    }
}

/// Statement of another session, which follows the lines of a test so that the log is read in several steps.
const OTHER: &str = "select 'other'";

/// Returns the number of statements that are delivered after the last report, all of which it must have.
fn count_held(lines: &[&str]) -> usize {
    let other = format!("20.000 UTC [2] LOG:  duration: 1.000 ms  statement: {OTHER}");
    let others = std::iter::repeat_n(&*other, 1000);
    let lines = lines.iter().copied().chain(others);
    let text: String = lines
        .map(|line| format!("2026-03-01 09:00:{line}\n"))
        .collect();
    let mut sink = HeldCollector::default();
    let steps = Parallelism {
        cores: 2,
        chunk_bytes: 4096,
    };
    capture_bytes_in_parallel(text, None, Some("%m [%p] "), steps, &mut sink).unwrap();
    let of_other = RunningEvent::new(0, None, Some(OTHER)).text;
    sink.held.retain(|held| held.event.text != of_other);
    sink.delivered.retain(|event| event.text != of_other);
    for event in &sink.delivered {
        let is_its = |held: &&HeldEvent| {
            let event_of_process = event.with_process(held.event.process);
            held.is(event_of_process)
        };
        assert!(
            sink.held.iter().any(|held| is_its(&held)),
            "{event:?} in {:?}",
            sink.held
        );
    }
    assert_eq!(sink.held.len(), sink.delivered.len(), "{:?}", sink.held);
    sink.delivered.len()
}

#[test]
fn parse_without_an_execution_and_the_statement_after_it_are_held() {
    let lines = [
        "10.001 UTC [1] LOG:  duration: 1.000 ms  parse S: select 1",
        "12.000 UTC [1] LOG:  duration: 1.000 ms  statement: select 2",
    ];
    assert_eq!(count_held(&lines), 2);
}

#[test]
fn first_statements_of_what_can_be_a_walreceiver_are_held() {
    let lines = [
        "10.003 UTC [1] LOG:  statement: SELECT pg_catalog.set_config('search_path', '', false);",
        "10.004 UTC [1] LOG:  duration: 1.000 ms",
    ];
    assert_eq!(count_held(&lines), 1);
}

#[test]
fn first_error_of_a_process_without_a_user_is_held() {
    let lines = [
        "10.003 UTC [1] ERROR:  division by zero",
        "10.003 UTC [1] STATEMENT:  select 1 / 0",
    ];
    assert_eq!(count_held(&lines), 1);
}
