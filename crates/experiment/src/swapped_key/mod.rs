//! A key of another type, in the data: which columns have it, which number each of its rows gets, and the script that
//! makes a `bigint` of it.
//!
//! A row's number is its place in the table, as an identity column's would be about that; the script numbers rows in
//! the same way, and refuses data whose numbers would be others than those that a workload was rewritten with.
//!
//! Who drives: the program, before a workload is rewritten (`rehearse rewrite --swap-key`, `rehearse prove --rewrite
//! swap-key=…`). It only reads. Deliberately absent: carrying the script out, which a proof does on its own copy.

mod catalogue;
mod change;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use replay::Target;
use target::login::{Dialer, Login, Questions, Value};
use workload::rewrite::{KeyKind, KeyName, KeyNumbers, KeySource, SwappedKey};

use crate::error::ExperimentError;
use catalogue::KeySchema;

/// How long all questions over a connection may take.
const TIME: Duration = Duration::from_secs(3_600);
/// Values that are asked for at once.
const VALUES_MAX: usize = 50_000;
/// Where rows have keys of the server's own making, it goes on behind theirs, and the workload's own come behind these.
const ROOM: i64 = 1 << 32;

/// A server with the data, asked about keys.
#[derive(Debug)]
pub struct KeyServer {
    target: Target,
    login: Login,
    met: HashMap<String, Met>,
}

/// What is known of a key.
#[derive(Debug, Clone)]
struct Met {
    schema: KeySchema,
    /// How many rows have one, and what their numbers add up to.
    rows: i64,
    sum: String,
}

impl KeyServer {
    /// A target's database, asked as this login.
    pub fn new(target: Target, login: Login) -> Self {
        KeyServer {
            target,
            login,
            met: HashMap::new(),
        }
    }

    /// The script that swaps a key, for the data as they are there.
    ///
    /// # Errors
    /// Where there is no such key, it cannot be swapped (with the reason), or the server cannot be asked.
    pub fn change(&mut self, name: &KeyName) -> Result<String, ExperimentError> {
        let met = self.meet(name)?;
        Ok(change::script(&met.schema, met.rows, &met.sum))
    }

    fn meet(&mut self, name: &KeyName) -> Result<Met, ExperimentError> {
        if let Some(met) = self.met.get(&name.to_string()) {
            return Ok(met.clone());
        }
        let (schema, counted) = self.asked(|questions| {
            let schema = KeySchema::read(questions, name)?;
            let counted = answered(questions.ask(&change::sum_of(&schema)))?;
            Ok((schema, counted))
        })?;
        let mut row = counted.into_iter().next().unwrap_or_default().into_iter();
        let mut next = || row.next().flatten().unwrap_or_else(|| "0".to_owned());
        let met = Met {
            schema,
            rows: next().parse().unwrap_or_default(),
            sum: next(),
        };
        self.met.insert(name.to_string(), met.clone());
        Ok(met)
    }

    fn asked<T>(
        &self,
        ask: impl FnOnce(&mut Questions<'_>) -> Result<T, ExperimentError>,
    ) -> Result<T, ExperimentError> {
        let dialer = Dialer::new(&self.target).map_err(replay::ReplayError::Target)?;
        let mut questions = dialer.questions(&self.login).map_err(|error| {
            ExperimentError::Failed(format!(
                "cannot connect to {} to look at its keys: {error}",
                self.target.address()
            ))
        })?;
        questions.limit(TIME);
        answered(questions.ask("SET bytea_output = hex"))?;
        ask(&mut questions)
    }
}

fn answered<T>(result: Result<T, target::login::LoginError>) -> Result<T, ExperimentError> {
    result.map_err(|error| ExperimentError::Failed(format!("cannot look at the key: {error}")))
}

impl KeySource for KeyServer {
    type Error = ExperimentError;

    fn columns(&mut self, name: &KeyName) -> Result<SwappedKey, ExperimentError> {
        let schema = self.meet(name)?.schema;
        Ok(SwappedKey {
            kind: schema.kind,
            columns: schema
                .columns
                .iter()
                .map(|one| one.column.clone())
                .collect(),
            namesakes: schema.namesakes,
        })
    }

    fn numbers(
        &mut self,
        name: &KeyName,
        values: HashSet<Box<[u8]>>,
    ) -> Result<KeyNumbers, ExperimentError> {
        let met = self.meet(name)?;
        let kind = met.schema.kind;
        let question = change::numbers_of(&met.schema);
        let values: Vec<Box<[u8]>> = values.into_iter().collect();
        let known = self.asked(|questions| {
            let mut known = HashMap::new();
            for some in values.chunks(VALUES_MAX) {
                let array = array_of(kind, some);
                let rows = questions.ask_with(&question, &[], &[Some(Value::Text(&array))]);
                for row in answered(rows)? {
                    let [Some(value), Some(number)] = &row[..] else {
                        continue;
                    };
                    if let (Some(value), Ok(number)) = (kind.read(value), number.parse()) {
                        known.insert(value, number);
                    }
                }
            }
            Ok(known)
        })?;
        let room = i64::from(met.schema.has_default) * ROOM;
        Ok(KeyNumbers::new(known, met.rows + 1 + room))
    }
}

/// An array of values in text form.
fn array_of(kind: KeyKind, values: &[Box<[u8]>]) -> String {
    let mut out = String::from("{");
    for (at, value) in values.iter().enumerate() {
        out.push_str(if at > 0 { ",\"" } else { "\"" });
        for character in kind.text(value).chars() {
            if matches!(character, '"' | '\\') {
                out.push('\\');
            }
            out.push(character);
        }
        out.push('"');
    }
    out.push('}');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_asked_for_as_an_array() {
        let values: Vec<Box<[u8]>> = vec![(*b"a\"b").into(), (*b"c").into()];
        assert_eq!(array_of(KeyKind::Text, &values), r#"{"a\"b","c"}"#);
        assert_eq!(array_of(KeyKind::Bytea, &values[1..]), r#"{"\\x63"}"#);
        assert_eq!(array_of(KeyKind::Text, &[]), "{}");
    }
}
