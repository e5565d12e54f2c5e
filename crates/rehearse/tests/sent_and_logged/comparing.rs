//! Comparison of a capture with the expected events: each session's events in order, each statement
//! once, and no other.

use std::collections::HashMap;

use capture_log::LogFormat;
use capture_sink::EventCollector;
use workload::{Event, EventKind, Sqlstate, Unreplayable};

use super::expected::{Expected, Kind, Values, all_expected, unreplayable};
use super::mixture::{May, Mixture};
use super::sent::{How, Sent};

/// Statements of one session.
pub struct Session {
    pub application: String,
    pub sent: Vec<Sent>,
    /// The server ended it.
    pub terminated: bool,
}

fn kind(event: &Event) -> Option<Kind> {
    match event.kind {
        EventKind::Simple { .. } => Some(Kind::Simple),
        EventKind::Prepare { .. } => Some(Kind::Prepare),
        EventKind::Execute { .. } => Some(Kind::Execute),
        EventKind::Fetch { .. } => Some(Kind::Fetch),
        _ => None,
    }
}

/// Maps the names in the log to the driver's numbers of statements.
#[derive(Default)]
struct Names {
    by_number: HashMap<usize, String>,
    by_name: HashMap<String, usize>,
}

impl Names {
    fn fit(&mut self, number: Option<usize>, name: &str) -> bool {
        match number {
            None => name.is_empty(),
            Some(number) => {
                let known = self.by_number.entry(number).or_insert(name.to_owned());
                let owner = self.by_name.entry(name.to_owned()).or_insert(number);
                !name.is_empty() && known == name && *owner == number
            }
        }
    }
}

/// Precision of a log's times: seconds or milliseconds. `%t` is the result of `time()`, which
/// the kernel updates on its ticks only: a new second begins up to 10 ms late.
fn resolution_us(mixture: &Mixture, format: LogFormat) -> i64 {
    match format == LogFormat::Stderr && mixture.prefix.contains("%t") {
        true => 1_010_000,
        false => 1_000,
    }
}

/// Compares one session, and adds differences to `wrong`.
pub fn compare(
    found: &EventCollector,
    session: &Session,
    mixture: &Mixture,
    format: LogFormat,
    wrong: &mut Vec<String>,
) {
    let place = format!("{} {} {}", mixture.name, format.name(), session.application);
    let mut of_it = found
        .sessions
        .iter()
        .filter(|candidate| *candidate.application == *session.application);
    let (Some(one), None) = (of_it.next(), of_it.next()) else {
        wrong.push(format!("{place}: not one session"));
        return;
    };
    let mut events: Vec<&Event> = found
        .events
        .iter()
        .filter(|event| event.session == one.id)
        .collect();
    events.sort_by_key(|event| event.sequence);
    let ends = mixture.connections || session.terminated;
    let last = events.last().map(|event| &event.kind);
    if (last == Some(&EventKind::Disconnect)) != ends || one.end_seen != ends {
        wrong.push(format!("{place}: its end is {last:?}"));
    }
    if one.start_seen != mixture.connections {
        wrong.push(format!("{place}: its start is seen: {}", one.start_seen));
    }
    let resolution_us = resolution_us(mixture, format);
    let mut names = Names::default();
    let all = all_expected(&session.sent, mixture, format);
    // Statements that were only parsed are reported late, out of order.
    let (parsed, ordered): (Vec<_>, Vec<_>) = all
        .iter()
        .partition(|(sent, _)| matches!(sent.how, How::Prepare { .. }));
    let mut parsed: Vec<_> = parsed;
    let mut rest = ordered.iter().peekable();
    let (mut canceled, mut merged) = (false, false);
    // Failure of the last statement, if its event does not have it.
    let mut failure: Option<Option<Sqlstate>> = None;
    for event in events {
        let Some(kind) = kind(event) else {
            if event.kind == EventKind::Cancel && !std::mem::take(&mut canceled) {
                wrong.push(format!("{place}: nothing was canceled: {event:?}"));
            }
            continue;
        };
        if std::mem::take(&mut canceled) {
            wrong.push(format!("{place}: no Cancel before {event:?}"));
        }
        let sql = event.kind.sql().unwrap();
        if kind == Kind::Prepare && event.outcome.sqlstate.is_none() {
            if let Some(at) = parsed.iter().position(|(sent, _)| *sent.sql == **sql) {
                let (_, expected) = parsed.remove(at);
                details(event, expected, &mut names, resolution_us, &place, wrong);
                continue;
            }
            let only_parsed = |(sent, expected): &&(&Sent, Expected)| {
                expected.perhaps_prepare && *sent.sql == **sql
            };
            if !all.iter().any(|pair| only_parsed(&pair)) {
                wrong.push(format!("{place}: only parsed: {event:?}"));
            }
            continue;
        }
        let nameless = event.unreplayable == Some(Unreplayable::TextMissing);
        // Only the bind of a failed statement was sampled.
        if nameless
            && failure
                .take()
                .is_some_and(|code| code == event.outcome.sqlstate)
        {
            continue;
        }
        failure = None;
        loop {
            let Some((sent, expected)) = rest.peek() else {
                let late = |(sent, expected): &(&Sent, Expected)| {
                    expected.perhaps_late && *sent.sql == **sql && fits(event, expected)
                };
                if event.outcome.duration_us.is_none() && all.iter().any(late) {
                    break;
                }
                wrong.push(format!("{place}: nothing such was sent (then): {event:?}"));
                break;
            };
            if nameless && expected.nameless_error != May::Never {
                if event.outcome.sqlstate != expected.sqlstate {
                    wrong.push(format!("{place}: another failure: {event:?} of {sent:?}"));
                }
                rest.next();
                break;
            }
            let close_us = resolution_us.max(1_000);
            let same = kind == expected.kind
                && *sent.sql == **sql
                && fits(event, expected)
                && (expected.event == May::Always
                    || (event.due_us >= expected.due_us.0 - close_us
                        && event.due_us <= expected.due_us.1));
            if same {
                details(event, expected, &mut names, resolution_us, &place, wrong);
                canceled = expected.canceled;
                merged = expected.sqlstate != event.outcome.sqlstate;
                failure = (merged && expected.nameless_error == May::Perhaps)
                    .then_some(expected.sqlstate);
                rest.next();
                break;
            }
            let is_missing =
                expected.event == May::Always || expected.nameless_error == May::Always;
            if is_missing && !(expected.perhaps_merged && merged) {
                wrong.push(format!(
                    "{place}: found {event:?}\n    where {expected:?}\n    of {sent:?} was to be"
                ));
                return;
            }
            rest.next();
        }
    }
    for (sent, expected) in rest.copied().chain(parsed.iter().copied()) {
        if expected.event == May::Always && !(expected.perhaps_merged && merged) {
            wrong.push(format!("{place}: missing: {expected:?} of {sent:?}"));
        }
    }
}

/// Its values, and what they mean for a replay.
fn fits(event: &Event, expected: &Expected) -> bool {
    let perhaps = expected.perhaps_values.as_ref();
    same_values(event, &expected.values) || perhaps.is_some_and(|values| same_values(event, values))
}

fn same_values(event: &Event, values: &Values) -> bool {
    let EventKind::Execute { parameters, .. } = &event.kind else {
        return *values == Values::None || !matches!(event.kind, EventKind::Execute { .. });
    };
    match values {
        Values::None | Values::Missing => parameters.is_empty(),
        Values::Known { values, .. } => parameters
            .iter()
            .map(|value| value.as_ref().and_then(workload::Parameter::readable))
            .eq(values.iter().map(Option::as_deref)),
    }
}

fn details(
    event: &Event,
    expected: &Expected,
    names: &mut Names,
    resolution_us: i64,
    place: &str,
    wrong: &mut Vec<String>,
) {
    let mut say = |what: &str| {
        wrong.push(format!(
            "{place}: {what}: {event:?}\n    where {expected:?} was to be"
        ));
    };
    // The writer's clock is cut to its resolution.
    if event.due_us < expected.due_us.0 - resolution_us || event.due_us > expected.due_us.1 {
        say("its time is wrong");
    }
    match (event.outcome.duration_us, expected.timed) {
        (None, May::Always) => say("its duration is missing"),
        (Some(_), May::Never) => say("it has a duration from nowhere"),
        (Some(duration_us), _) => {
            let duration_us = i64::try_from(duration_us).unwrap();
            let (least, most) = expected.duration_us;
            if duration_us < least || duration_us > most {
                say("its duration is wrong");
            }
        }
        (None, _) => (),
    }
    if event.outcome.sqlstate != expected.sqlstate
        && expected.perhaps_sqlstate != Some(event.outcome.sqlstate)
    {
        say("its failure is wrong");
    }
    let unreplayable = match &expected.perhaps_values {
        Some(values) if !same_values(event, &expected.values) => {
            unreplayable(expected.kind, values)
        }
        _ => expected.unreplayable,
    };
    let is_explained = may_look_cut(event, expected)
        || (event.unreplayable).is_some_and(|reason| expected.perhaps_undone.contains(&reason));
    if event.unreplayable != unreplayable && !is_explained {
        say("its reason not to be replayed is wrong");
    }
    let (statement, portal) = match &event.kind {
        EventKind::Execute {
            statement, portal, ..
        }
        | EventKind::Fetch {
            statement, portal, ..
        } => (statement, portal),
        EventKind::Prepare { statement, .. } => (statement, statement),
        _ => return,
    };
    let hidden = statement.is_empty() && expected.name_perhaps_hidden;
    if !hidden && !names.fit(expected.name, statement) {
        say("its name is wrong");
    }
    if expected.kind != Kind::Prepare && portal.is_empty() == expected.portal {
        say("its portal is wrong");
    }
}

/// Returns whether a whole value may be taken for a truncated one: it ends in `...`, and sampling
/// may have left out every longer value before it.
fn may_look_cut(event: &Event, expected: &Expected) -> bool {
    let ends_in_dots = |value: &Option<String>| value.as_ref().is_some_and(|v| v.ends_with("..."));
    expected.event == May::Perhaps
        && event.unreplayable == Some(Unreplayable::ParametersCut)
        && matches!(&expected.values, Values::Known { values, .. } if values.iter().any(ends_in_dots))
}
