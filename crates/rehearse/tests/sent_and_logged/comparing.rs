//! Comparison of a capture with the expected events: each session's events in order, each statement
//! once, and no other.

use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;

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
    let all = all_expected(&session.sent, mixture, format);
    let mut comparison = Comparison::new(&all, place, resolution_us(mixture, format), wrong);
    for event in events {
        if comparison.compare_event(event).is_break() {
            return;
        }
    }
    comparison.report_missing();
}

/// A sent statement, and the event that is expected of it.
type Pair<'a> = (&'a Sent, Expected);

/// Comparison of a session's events, one after the other, with the expected ones.
struct Comparison<'a> {
    all: &'a [Pair<'a>],
    /// Remaining statements that were only parsed. They are reported late, out of order.
    parsed: Vec<&'a Pair<'a>>,
    /// Remaining statements that were executed, in order.
    rest: VecDeque<&'a Pair<'a>>,
    names: Names,
    /// A `Cancel` must follow.
    canceled: bool,
    /// The last statement's event has another failure than the statement.
    merged: bool,
    /// Failure of the last statement, if its event does not have it.
    failure: Option<Option<Sqlstate>>,
    place: String,
    resolution_us: i64,
    wrong: &'a mut Vec<String>,
}

impl<'a> Comparison<'a> {
    fn new(
        all: &'a [Pair<'a>],
        place: String,
        resolution_us: i64,
        wrong: &'a mut Vec<String>,
    ) -> Self {
        let (parsed, rest): (Vec<_>, Vec<_>) = all
            .iter()
            .partition(|(sent, _)| matches!(sent.how, How::Prepare { .. }));
        Comparison {
            all,
            parsed,
            rest: rest.into(),
            names: Names::default(),
            canceled: false,
            merged: false,
            failure: None,
            place,
            resolution_us,
            wrong,
        }
    }

    fn report(&mut self, difference: &str) {
        self.wrong.push(format!("{}: {difference}", self.place));
    }

    /// Compares one event. Breaks if the later ones cannot be compared.
    fn compare_event(&mut self, event: &Event) -> ControlFlow<()> {
        let Some(kind) = kind(event) else {
            if event.kind == EventKind::Cancel && !std::mem::take(&mut self.canceled) {
                self.report(&format!("nothing was canceled: {event:?}"));
            }
            return ControlFlow::Continue(());
        };
        if std::mem::take(&mut self.canceled) {
            self.report(&format!("no Cancel before {event:?}"));
        }
        if kind == Kind::Prepare && event.outcome.sqlstate.is_none() {
            self.compare_parse(event);
            return ControlFlow::Continue(());
        }
        let nameless = event.unreplayable == Some(Unreplayable::TextMissing);
        let failure = self.failure.take();
        // Only the bind of a failed statement was sampled.
        if nameless && failure.is_some_and(|code| code == event.outcome.sqlstate) {
            return ControlFlow::Continue(());
        }
        self.compare_statement(event, kind, nameless)
    }

    /// Compares an event of a statement that was only parsed.
    fn compare_parse(&mut self, event: &Event) {
        let sql = event.kind.sql().unwrap();
        let same_text = |sent: &Sent| *sent.sql == **sql;
        if let Some(at) = self.parsed.iter().position(|(sent, _)| same_text(sent)) {
            let (_, expected) = self.parsed.remove(at);
            self.compare_details(event, expected);
            return;
        }
        let only_parsed = |(sent, expected): &Pair| expected.perhaps_prepare && same_text(sent);
        if !self.all.iter().any(only_parsed) {
            self.report(&format!("only parsed: {event:?}"));
        }
    }

    /// Compares an event with the next statements, until one has it. `nameless` is whether the event has
    /// no text.
    fn compare_statement(&mut self, event: &Event, kind: Kind, nameless: bool) -> ControlFlow<()> {
        while let Some((sent, expected)) = self.rest.front().copied() {
            if nameless && expected.nameless_error != May::Never {
                if event.outcome.sqlstate != expected.sqlstate {
                    self.report(&format!("another failure: {event:?} of {sent:?}"));
                }
                self.rest.pop_front();
                return ControlFlow::Continue(());
            }
            if kind == expected.kind && self.is_event_of(event, sent, expected) {
                self.compare_details(event, expected);
                self.canceled = expected.canceled;
                self.merged = expected.sqlstate != event.outcome.sqlstate;
                self.failure = (self.merged && expected.nameless_error == May::Perhaps)
                    .then_some(expected.sqlstate);
                self.rest.pop_front();
                return ControlFlow::Continue(());
            }
            let is_missing =
                expected.event == May::Always || expected.nameless_error == May::Always;
            if is_missing && !(expected.perhaps_merged && self.merged) {
                self.report(&format!(
                    "found {event:?}\n    where {expected:?}\n    of {sent:?} was to be"
                ));
                return ControlFlow::Break(());
            }
            self.rest.pop_front();
        }
        if !self.is_late(event) {
            self.report(&format!("nothing such was sent (then): {event:?}"));
        }
        ControlFlow::Continue(())
    }

    /// Returns whether an event has a statement's text, values and time.
    fn is_event_of(&self, event: &Event, sent: &Sent, expected: &Expected) -> bool {
        let close_us = self.resolution_us.max(1_000);
        *sent.sql == **event.kind.sql().unwrap()
            && fits(event, expected)
            && (expected.event == May::Always
                || (event.due_us >= expected.due_us.0 - close_us
                    && event.due_us <= expected.due_us.1))
    }

    /// Returns whether an event after all statements may be of an earlier one.
    fn is_late(&self, event: &Event) -> bool {
        let sql = event.kind.sql().unwrap();
        let late = |(sent, expected): &Pair| {
            expected.perhaps_late && *sent.sql == **sql && fits(event, expected)
        };
        event.outcome.duration_us.is_none() && self.all.iter().any(late)
    }

    /// Reports the statements that no event was found of.
    fn report_missing(mut self) {
        let rest = std::mem::take(&mut self.rest);
        let parsed = std::mem::take(&mut self.parsed);
        for (sent, expected) in rest.into_iter().chain(parsed) {
            if expected.event == May::Always && !(expected.perhaps_merged && self.merged) {
                self.report(&format!("missing: {expected:?} of {sent:?}"));
            }
        }
    }

    /// Compares the details of an event that has the text and values of a statement.
    fn compare_details(&mut self, event: &Event, expected: &Expected) {
        let mut differences = Vec::new();
        // The writer's clock is cut to its resolution.
        if event.due_us < expected.due_us.0 - self.resolution_us || event.due_us > expected.due_us.1
        {
            differences.push("its time is wrong");
        }
        differences.extend(compare_duration(event, expected));
        if event.outcome.sqlstate != expected.sqlstate
            && expected.perhaps_sqlstate != Some(event.outcome.sqlstate)
        {
            differences.push("its failure is wrong");
        }
        if !has_expected_reason(event, expected) {
            differences.push("its reason not to be replayed is wrong");
        }
        differences.extend(self.compare_names(event, expected));
        for difference in differences {
            self.report(&format!(
                "{difference}: {event:?}\n    where {expected:?} was to be"
            ));
        }
    }

    /// Returns the differences of the names of the prepared statement and of the portal.
    fn compare_names(&mut self, event: &Event, expected: &Expected) -> Vec<&'static str> {
        let mut differences = Vec::new();
        let (statement, portal) = match &event.kind {
            EventKind::Execute {
                statement, portal, ..
            }
            | EventKind::Fetch {
                statement, portal, ..
            } => (statement, portal),
            EventKind::Prepare { statement, .. } => (statement, statement),
            _ => return differences,
        };
        let hidden = statement.is_empty() && expected.name_perhaps_hidden;
        if !hidden && !self.names.fit(expected.name, statement) {
            differences.push("its name is wrong");
        }
        if expected.kind != Kind::Prepare && portal.is_empty() == expected.portal {
            differences.push("its portal is wrong");
        }
        differences
    }
}

/// Returns the difference of an event's duration.
fn compare_duration(event: &Event, expected: &Expected) -> Option<&'static str> {
    match (event.outcome.duration_us, expected.timed) {
        (None, May::Always) => Some("its duration is missing"),
        (Some(_), May::Never) => Some("it has a duration from nowhere"),
        (Some(duration_us), _) => {
            let duration_us = i64::try_from(duration_us).unwrap();
            let (least, most) = expected.duration_us;
            (duration_us < least || duration_us > most).then_some("its duration is wrong")
        }
        (None, _) => None,
    }
}

/// Returns whether an event has the expected reason not to be replayed, or one that is explained.
fn has_expected_reason(event: &Event, expected: &Expected) -> bool {
    let unreplayable = match &expected.perhaps_values {
        Some(values) if !same_values(event, &expected.values) => {
            unreplayable(expected.kind, values)
        }
        _ => expected.unreplayable,
    };
    let is_explained = may_look_cut(event, expected)
        || (event.unreplayable).is_some_and(|reason| expected.perhaps_undone.contains(&reason));
    event.unreplayable == unreplayable || is_explained
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

/// Returns whether a whole value may be taken for a truncated one: it ends in `...`, and sampling
/// may have left out every longer value before it.
fn may_look_cut(event: &Event, expected: &Expected) -> bool {
    let ends_in_dots = |value: &Option<String>| value.as_ref().is_some_and(|v| v.ends_with("..."));
    expected.event == May::Perhaps
        && event.unreplayable == Some(Unreplayable::ParametersCut)
        && matches!(&expected.values, Values::Known { values, .. } if values.iter().any(ends_in_dots))
}
