//! Places of an application that a statement's time comes from, as its comments name them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use archive::ArchiveError;
use run::RunReader;
use schemars::JsonSchema;
use serde::Serialize;
use sql::{ContextId, ContextKey, Fingerprint, StatementContext};

/// Maximum number of places of a statement that are listed.
const SENDERS_MAX: usize = 3;
/// Maximum number of pairs of statement and context. Executions of further ones have no place.
const PAIRS_MAX: usize = 200_000;

/// Places that sent a statement, those with the most time first.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct StatementSenders {
    /// Fingerprint of the statement.
    pub fingerprint: Fingerprint,
    /// At most three.
    pub senders: Vec<Sender>,
}

/// Place in an application.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct Sender {
    /// The key in the comment and its value, such as `route /polls/<int>`. Of several keys, the first of route,
    /// controller (with its action), job, application.
    pub place: String,
    /// Share of the statement's service time, from 0 to 1.
    pub share: f64,
}

/// Service time of each place, by statement.
#[derive(Debug, Default)]
pub(crate) struct SenderTimes(BTreeMap<Fingerprint, StatementTimes>);

#[derive(Debug, Default)]
struct StatementTimes {
    whole_ns: f64,
    by_place: HashMap<String, f64>,
}

impl SenderTimes {
    /// Reads the executions of a run. A run without contexts is not read.
    ///
    /// # Errors
    /// If the run cannot be read.
    pub(crate) fn read(run: &RunReader) -> Result<Self, ArchiveError> {
        let mut places: HashMap<ContextId, String> = HashMap::new();
        for context in run.contexts()? {
            let context = context?;
            if let Some(place) = place(&context.context) {
                places.insert(context.id, place);
            }
        }
        let mut times = SenderTimes::default();
        if places.is_empty() {
            return Ok(times);
        }
        let mut pairs = 0;
        for execution in run.executions()? {
            let execution = execution?;
            let (Some(fingerprint), Some(service_ns)) =
                (execution.fingerprint, execution.service_ns())
            else {
                continue;
            };
            let statement = times.0.entry(fingerprint).or_default();
            statement.whole_ns += service_ns as f64;
            let context = execution.captured.context;
            let Some(place) = context.and_then(|context| places.get(&context)) else {
                continue;
            };
            match statement.by_place.get_mut(place) {
                Some(time) => *time += service_ns as f64,
                None if pairs < PAIRS_MAX => {
                    pairs += 1;
                    statement.by_place.insert(place.clone(), service_ns as f64);
                }
                None => {}
            }
        }
        Ok(times)
    }

    /// Returns the places of these statements, as far as they are known.
    pub(crate) fn of(&self, statements: &BTreeSet<Fingerprint>) -> Vec<StatementSenders> {
        let known = statements.iter().filter_map(|fingerprint| {
            let times = self.0.get(fingerprint)?;
            let mut senders: Vec<Sender> = (times.by_place.iter())
                .map(|(place, time)| Sender {
                    place: place.clone(),
                    share: time / times.whole_ns.max(1.0),
                })
                .collect();
            senders.sort_by(|one, other| {
                other
                    .share
                    .total_cmp(&one.share)
                    .then_with(|| one.place.cmp(&other.place))
            });
            senders.truncate(SENDERS_MAX);
            (!senders.is_empty()).then_some(StatementSenders {
                fingerprint: *fingerprint,
                senders,
            })
        });
        known.collect()
    }
}

/// Returns the place that a context names first.
fn place(context: &StatementContext<'_>) -> Option<String> {
    let named = |key: ContextKey| {
        let value = context.value(key)?;
        Some(format!("{} {value}", key.name()))
    };
    let controller =
        named(ContextKey::Controller).map(|controller| match context.value(ContextKey::Action) {
            Some(action) => format!("{controller}#{action}"),
            None => controller,
        });
    (named(ContextKey::Route).or(controller))
        .or_else(|| named(ContextKey::Job))
        .or_else(|| named(ContextKey::Application))
}
