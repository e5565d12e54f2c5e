//! The application's clients: they send the load, and measure how long each action takes.

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use postgres::types::{Format, IsNull, ToSql, Type, private::BytesMut};
use postgres::{Client, NoTls, Statement};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::application::{Action, Application, Protocol, Query, Sessions, Step, Value};

/// Times of actions in ms, by label.
pub type Times = BTreeMap<String, Vec<f64>>;

/// Value that is sent as text, whatever the type of its parameter.
#[derive(Debug)]
struct Text(String);

impl ToSql for Text {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    postgres::types::to_sql_checked!();
}

/// Numbers that are used once, in all sessions.
static SERIAL: AtomicU64 = AtomicU64::new(1_000_000);

/// Sends the application's load for a time. Returns the times of its actions, and the number of errors.
pub fn drive(
    application: &Application,
    url: &str,
    seed: u64,
    duration: Duration,
) -> Result<(Times, usize), Box<dyn Error>> {
    let end = Instant::now() + duration;
    let mut number = seed << 16;
    let mut all = Times::new();
    let mut errors = 0;
    scope(|threads| -> Result<(), Box<dyn Error>> {
        let mut running = Vec::new();
        for group in &application.sessions {
            for _ in 0..group.count {
                number += 1;
                let session = number;
                running.push(threads.spawn(move || run_session(group, url, session, end)));
            }
        }
        for session in running {
            let (times, failed) = session.join().expect("a session does not panic")?;
            errors += failed;
            for (label, mut times) in times {
                all.entry(label).or_default().append(&mut times);
            }
        }
        Ok(())
    })?;
    Ok((all, errors))
}

fn run_session(
    group: &Sessions,
    url: &str,
    number: u64,
    end: Instant,
) -> Result<(Times, usize), postgres::Error> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(number);
    let mut times = Times::new();
    let mut errors = 0;
    let mut session = None;
    let think = u64::try_from(group.think.as_micros()).unwrap_or(0);
    let weights: u32 = group.actions.iter().map(|(weight, _)| weight).sum();
    // Sessions do not begin in step.
    sleep(Duration::from_micros(
        random.random_range(0..=think.min(50_000)),
    ));
    while Instant::now() < end {
        let mut place = random.random_range(0..weights);
        let action = group.actions.iter().find(|(weight, _)| {
            let is_it = place < *weight;
            place = place.saturating_sub(*weight);
            is_it
        });
        let (_, action) = action.expect("a weight");
        let start = Instant::now();
        if group.reconnects {
            session = None;
        }
        let connected = match session.take() {
            Some(session) => session,
            None => Session {
                client: Client::connect(url, NoTls)?,
                statements: HashMap::new(),
            },
        };
        let connected = session.insert(connected);
        match connected.act(action, &mut random, end) {
            Ok(paused) => {
                let ms = (start.elapsed() - paused).as_secs_f64() * 1e3;
                times.entry(action.label.clone()).or_default().push(ms);
            }
            Err(error) if error.is_closed() => return Err(error),
            Err(error) => {
                if errors == 0 {
                    eprintln!("  client: {error:?}");
                }
                errors += 1;
                connected.client.batch_execute("ROLLBACK")?;
            }
        }
        if think > 0 {
            sleep(Duration::from_micros(
                random.random_range(think / 2..=think * 3 / 2),
            ));
        }
    }
    Ok((times, errors))
}

struct Session {
    client: Client,
    statements: HashMap<String, Statement>,
}

impl Session {
    /// Takes the steps of an action. Returns the time in which it paused.
    fn act(
        &mut self,
        action: &Action,
        random: &mut Xoshiro256PlusPlus,
        end: Instant,
    ) -> Result<Duration, postgres::Error> {
        let mut paused = Duration::ZERO;
        let mut keys: Vec<String> = Vec::new();
        for step in &action.steps {
            match step {
                Step::Pause(ms) => {
                    let remaining = end.saturating_duration_since(Instant::now());
                    let pause = Duration::from_millis(*ms).min(remaining);
                    sleep(pause);
                    paused += pause;
                }
                Step::Statement(query) => {
                    let values = query.values.iter().map(|value| draw(value, random));
                    keys = self.execute(query, values.collect())?;
                }
                Step::ForEachRow(query) => {
                    for key in &keys {
                        let others = query.values.iter().map(|value| draw(value, random));
                        let values = std::iter::once(key.clone()).chain(others);
                        self.execute(query, values.collect())?;
                    }
                }
            }
        }
        Ok(paused)
    }

    /// Executes a statement. Returns the first column of its rows if it was sent by the simple protocol.
    fn execute(
        &mut self,
        query: &Query,
        values: Vec<String>,
    ) -> Result<Vec<String>, postgres::Error> {
        if query.protocol == Protocol::Simple {
            let sql = with_literals(&query.sql, &values);
            let messages = self.client.simple_query(&sql)?;
            return Ok(messages.iter().filter_map(first_column).collect());
        }
        let values: Vec<Text> = values.into_iter().map(Text).collect();
        if query.protocol == Protocol::Unnamed {
            let typed: Vec<(&(dyn ToSql + Sync), Type)> = values
                .iter()
                .map(|value| (value as &(dyn ToSql + Sync), Type::UNKNOWN))
                .collect();
            self.client.query_typed(&query.sql, &typed)?;
            return Ok(Vec::new());
        }
        let statement = match self.statements.get(&query.sql) {
            Some(statement) => statement.clone(),
            None => {
                let statement = self.client.prepare(&query.sql)?;
                self.statements.insert(query.sql.clone(), statement.clone());
                statement
            }
        };
        let values: Vec<&(dyn ToSql + Sync)> = values
            .iter()
            .map(|value| value as &(dyn ToSql + Sync))
            .collect();
        self.client.query(&statement, &values)?;
        Ok(Vec::new())
    }
}

fn first_column(message: &postgres::SimpleQueryMessage) -> Option<String> {
    match message {
        postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    }
}

/// Puts literals in place of parameters.
fn with_literals(sql: &str, values: &[String]) -> String {
    let mut sql = sql.to_owned();
    for (place, value) in values.iter().enumerate().rev() {
        let literal = match value.parse::<i64>() {
            Ok(_) => value.clone(),
            Err(_) => format!("'{}'", value.replace('\'', "''")),
        };
        sql = sql.replace(&format!("${}", place + 1), &literal);
    }
    sql
}

fn draw(value: &Value, random: &mut Xoshiro256PlusPlus) -> String {
    match value {
        Value::Between(low, high, template) => {
            template.replace("{}", &random.random_range(*low..*high).to_string())
        }
        Value::Serial(template) => {
            let number = SERIAL.fetch_add(1, Ordering::Relaxed);
            template.replace("{}", &number.to_string())
        }
        Value::Uuid => {
            let digits = format!("{:032x}", random.random::<u128>());
            let parts = [
                &digits[..8],
                &digits[8..12],
                &digits[12..16],
                &digits[16..20],
                &digits[20..],
            ];
            parts.join("-")
        }
        Value::Weighted(texts) => {
            let total: u32 = texts.iter().map(|(weight, _)| weight).sum();
            let mut place = random.random_range(0..total);
            let found = texts.iter().find(|(weight, _)| {
                let is_it = place < *weight;
                place = place.saturating_sub(*weight);
                is_it
            });
            found.map(|(_, text)| text.clone()).unwrap_or_default()
        }
    }
}

/// Actions whose time is clearly longer after a change, with both means in ms.
pub fn clearly_worse(before: &Times, after: &Times) -> Vec<(String, f64, f64)> {
    let mut worse = Vec::new();
    for (label, times) in before {
        let Some(other) = after.get(label) else {
            continue;
        };
        if times.len() < 10 || other.len() < 10 {
            continue;
        }
        let (mean_before, mean_after) = (mean(times), mean(other));
        let (mid_before, mid_after) = (median(times), median(other));
        let is_worse = |before: f64, after: f64| after > before * 1.5 && after > before + 0.5;
        if is_worse(mean_before, mean_after) && is_worse(mid_before, mid_after) {
            worse.push((label.clone(), mean_before, mean_after));
        }
    }
    worse
}

/// Returns the mean, 0 of nothing.
pub fn mean(times: &[f64]) -> f64 {
    times.iter().sum::<f64>() / times.len().max(1) as f64
}

fn median(times: &[f64]) -> f64 {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(0.0)
}
