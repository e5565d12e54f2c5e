//! Finds several executions of each statement, from the cheapest to the most expensive.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use sql::Fingerprint;
use workload::{ArchiveError, Parameter, WorkloadReader};

use crate::examples::{Example, visit_examples};

/// Executions of a statement from which the median is taken.
const SAMPLED_MAX: usize = 15;
/// Largest size of an example, in bytes. Memory holds several of each statement.
const EXAMPLE_BYTES_MAX: usize = 1 << 20;

/// Executions of a statement.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatementExamples {
    /// Number of executions with all their values.
    pub executions: u64,
    /// Sum of their captured times in microseconds, as far as known.
    pub captured_us: u64,
    /// Up to three of them with different values.
    pub examples: Vec<Example>,
    /// Others of a random sample, with values of their own. At most 14.
    pub others: Vec<Example>,
}

/// Returns up to three executions of each statement with different values: the one with the least captured
/// time, the median of a sample, and the one with the most. Without captured times these are the first, one
/// between, and the last. Reads the workload once.
///
/// # Errors
/// If the workload cannot be read.
pub fn example_sets(
    reader: &WorkloadReader,
    wanted: &HashSet<Fingerprint>,
) -> Result<HashMap<Fingerprint, StatementExamples>, ArchiveError> {
    let mut samples: HashMap<Fingerprint, ExampleSample> = HashMap::new();
    if !wanted.is_empty() {
        visit_examples(reader, wanted, &mut |fingerprint, example| {
            let sample = samples.entry(fingerprint).or_default();
            sample.executions += 1;
            sample.captured_us += example.captured_us.unwrap_or(0);
            if size(&example) <= EXAMPLE_BYTES_MAX {
                sample.add(example);
            }
            ControlFlow::Continue(())
        })?;
    }
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
            others: all.split_off(chosen),
            examples: all,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
