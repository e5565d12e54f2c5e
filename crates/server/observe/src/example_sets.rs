//! Finds several executions of each statement, from the cheapest to the most expensive.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use sql::Fingerprint;
use workload::{ArchiveError, Parameter, WorkloadReader};

use crate::examples::{Example, visit_executions};

/// Executions of a statement from which the median is taken.
const SAMPLED_MAX: usize = 15;
/// Largest size of an example, in bytes. Memory holds several of each statement.
const EXAMPLE_BYTES_MAX: usize = 1 << 20;

/// Executions of a statement.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatementExamples {
    /// Number of executions, also of those without all their values.
    pub executions: u64,
    /// Sum of their captured times in microseconds, as far as known.
    pub captured_us: u64,
    /// Databases of their sessions, as captured; empty for an unknown one.
    pub databases: HashSet<Arc<str>>,
    /// Up to three executions with all their values, which differ.
    pub examples: Vec<Example>,
    /// Others of a random sample, with values of their own. At most 14.
    pub others: Vec<Example>,
}

/// Returns up to three executions of each statement with different values: the one with the least captured
/// time, the median of a sample, and the one with the most. Without captured times these are the first, one
/// between, and the last. A statement of which no execution has all its values has none. Reads the workload once.
///
/// # Errors
/// If the workload cannot be read.
pub fn example_sets(
    reader: &WorkloadReader,
    wanted: &HashSet<Fingerprint>,
) -> Result<HashMap<Fingerprint, StatementExamples>, ArchiveError> {
    if wanted.is_empty() {
        return Ok(HashMap::new());
    }
    let mut samples: HashMap<Fingerprint, ExampleSample> = HashMap::new();
    visit_executions(reader, wanted, &mut |execution| {
        let sample = samples.entry(execution.fingerprint).or_default();
        sample.executions += 1;
        sample.captured_us += execution.captured_us.unwrap_or(0);
        sample.databases.insert(execution.database);
        if let Some(example) = execution.example
            && size(&example) <= EXAMPLE_BYTES_MAX
        {
            sample.add(example);
        }
        ControlFlow::Continue(())
    })?;
    let all = samples.into_iter();
    Ok(all
        .map(|(fingerprint, sample)| (fingerprint, sample.finish()))
        .collect())
}

fn size(example: &Example) -> usize {
    let values = example.parameters.iter().flatten();
    let values = values.map(|value| match value {
        Parameter::Text(text) => text.len(),
        Parameter::Binary(bytes) => bytes.len(),
    });
    example.sql.len() + values.sum::<usize>()
}

/// Sample of a statement's executions.
#[derive(Default)]
struct ExampleSample {
    executions: u64,
    captured_us: u64,
    databases: HashSet<Arc<str>>,
    seen: u64,
    least: Option<Example>,
    most: Option<Example>,
    /// Reservoir: each execution is in it with the same probability.
    sampled: Vec<Example>,
    /// State of a linear congruential generator, the same for each reading.
    random: u64,
}

impl ExampleSample {
    fn add(&mut self, example: Example) {
        let cost = |one: &Option<Example>| one.as_ref().and_then(|one| one.captured_us);
        if self.least.is_none() || example.captured_us < cost(&self.least) {
            self.least = Some(example.clone());
        }
        if example.captured_us >= cost(&self.most) {
            self.most = Some(example.clone());
        }
        self.seen += 1;
        if self.sampled.len() < SAMPLED_MAX {
            self.sampled.push(example);
            return;
        }
        // The constants are Knuth's (MMIX).
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let place = (self.random >> 33) % self.seen;
        if let Some(replaced) = self.sampled.get_mut(place as usize) {
            *replaced = example;
        }
    }

    fn finish(mut self) -> StatementExamples {
        self.sampled.sort_by_key(|one| one.captured_us);
        let median =
            (!self.sampled.is_empty()).then(|| self.sampled.swap_remove(self.sampled.len() / 2));
        let mut all: Vec<Example> = Vec::new();
        let mut add = |examples: &mut dyn Iterator<Item = Example>| {
            for example in examples {
                let mut known = all.iter();
                if !known.any(|one| one.sql == example.sql && one.parameters == example.parameters)
                {
                    all.push(example);
                }
            }
            all.len()
        };
        let chosen = add(&mut [self.least, median, self.most].into_iter().flatten());
        add(&mut self.sampled.into_iter());
        StatementExamples {
            executions: self.executions,
            captured_us: self.captured_us,
            databases: self.databases,
            others: all.split_off(chosen),
            examples: all,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transform::SecretRedactor;
    use workload::{
        Event, EventKind, Outcome, Provenance, Unreplayable, WorkloadWriter, WriterOptions,
    };

    /// Writes a workload of one session: texts, whether each has its values, and captured times.
    fn workload_of(
        path: &std::path::Path,
        executions: &[(&str, Option<Unreplayable>, u64)],
    ) -> WorkloadReader {
        let event = |sequence: u64, kind, unreplayable, duration_us| Event {
            session: 0,
            sequence,
            due_us: sequence as i64,
            kind,
            outcome: Outcome {
                duration_us,
                ..Outcome::default()
            },
            unreplayable,
            source: 0,
            line: 0,
            prelude: false,
            wire_details: None,
        };
        let options = WriterOptions::default();
        let mut writer = WorkloadWriter::create(path, options, SecretRedactor::default()).unwrap();
        let connect = EventKind::Connect {
            database: "shop".into(),
            user: "app".into(),
            application: "".into(),
        };
        let connect = event(0, connect, None, None);
        writer.event(&connect.borrowed()).unwrap();
        for ((sql, unreplayable, time), sequence) in executions.iter().zip(1..) {
            let kind = EventKind::Execute {
                statement: "s".into(),
                portal: "".into(),
                sql: (*sql).into(),
                parameters: match unreplayable {
                    Some(_) => Vec::new(),
                    None => vec![Some(Parameter::Text("1".into()))],
                },
            };
            let execution = event(sequence, kind, *unreplayable, Some(*time));
            writer.event(&execution.borrowed()).unwrap();
        }
        writer.finish(Provenance::default()).unwrap();
        WorkloadReader::open(path).unwrap()
    }

    #[test]
    fn executions_without_values_are_counted_with_their_times() {
        let directory = tempfile::tempdir().unwrap();
        let missing = Some(Unreplayable::ParametersMissing);
        let reader = workload_of(
            &directory.path().join("shop.workload"),
            &[
                ("select a from t where b = $1", missing, 1_000),
                ("select a from t where b = $1", missing, 500),
                ("select c from t where b = $1", missing, 20),
                ("select c from t where b = $1", None, 3),
            ],
        );
        let texts: HashMap<String, Fingerprint> = reader
            .statements()
            .unwrap()
            .map(|text| text.map(|text| (text.sql, text.fingerprint)).unwrap())
            .collect();
        let wanted = texts.values().copied().collect();
        let mut found = example_sets(&reader, &wanted).unwrap();
        let mut counts = |sql: &str| {
            let found = found.remove(&texts[sql]).unwrap();
            (found.executions, found.captured_us, found.examples)
        };
        let (executions, captured_us, examples) = counts("select a from t where b = $1");
        assert_eq!((executions, captured_us, examples.len()), (2, 1_500, 0));
        let (executions, captured_us, examples) = counts("select c from t where b = $1");
        assert_eq!((executions, captured_us, examples.len()), (2, 23, 1));
        assert_eq!(
            (&*examples[0].database, &*examples[0].user),
            ("shop", "app")
        );
        assert!(example_sets(&reader, &HashSet::new()).unwrap().is_empty());
    }

    fn example(number: u64, captured_us: Option<u64>) -> Example {
        Example {
            session: 1,
            sequence: number,
            database: "".into(),
            user: "".into(),
            settings: [].into(),
            sql: "SELECT $1".into(),
            parameters: vec![Some(Parameter::Text(number.to_string().into()))],
            types: Vec::new(),
            is_prepared: true,
            captured_us,
        }
    }

    #[test]
    fn cheapest_median_and_most_expensive_execution_are_kept() {
        let mut sample = ExampleSample::default();
        for number in 0..1_000_u64 {
            let time = (number * 7_919) % 1_000;
            sample.add(example(number, Some(time)));
        }
        let times: Vec<u64> = sample
            .finish()
            .examples
            .iter()
            .map(|one| one.captured_us.unwrap())
            .collect();
        assert_eq!((times[0], times[2]), (0, 999));
        assert!((200..800).contains(&times[1]), "{times:?}");
    }

    #[test]
    fn equal_values_are_one_set_and_unknown_times_give_the_first_and_the_last() {
        let mut sample = ExampleSample::default();
        for number in [1, 1, 1] {
            sample.add(example(number, Some(number)));
        }
        let found = sample.finish();
        assert_eq!((found.examples.len(), found.others.len()), (1, 0));
        let mut sample = ExampleSample::default();
        for number in 0..9 {
            sample.add(example(number, None));
        }
        let found = sample.finish();
        let kept: Vec<u64> = found.examples.iter().map(|one| one.sequence).collect();
        assert_eq!((kept[0], kept[2]), (0, 8));
        assert_eq!(found.others.len(), 6);
    }
}
