//! Profiles in the format of speedscope.
//!
//! Source: <https://www.speedscope.app/file-format-schema.json>: a list of frames, and profiles whose samples are lists of
//! indices into it, the outermost frame first.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};

use super::{ExportedProfile, ExportedStack, ExportedStatement};

/// Maximum number of statements with a profile each, those with most time.
const STATEMENTS_MAX: usize = 50;

/// Returns the profile for speedscope. The first profile of the file has all samples; each of the statements with most time
/// has one, too.
pub fn speedscope(profile: &ExportedProfile) -> String {
    let mut frames: Vec<Value> = Vec::new();
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    for frame in profile.stacks.iter().flat_map(|stack| &stack.frames) {
        numbers.entry(frame).or_insert_with(|| {
            frames.push(json!({"name": frame}));
            frames.len() - 1
        });
    }
    let one = |name: &str, stacks: &[&ExportedStack]| {
        let samples = stacks.iter().map(|stack| {
            let of = |frame: &String| numbers[frame.as_str()];
            stack.frames.iter().map(of).collect::<Vec<usize>>()
        });
        let weights: Vec<i64> = stacks.iter().map(|one| one.ns.round() as i64).collect();
        json!({
            "type": "sampled",
            "name": name,
            "unit": "nanoseconds",
            "startValue": 0,
            "endValue": weights.iter().sum::<i64>(),
            "samples": samples.collect::<Vec<_>>(),
            "weights": weights,
        })
    };
    let all: Vec<&ExportedStack> = profile.stacks.iter().collect();
    let mut profiles = vec![one("all samples", &all)];
    for (statement, stacks) in by_statement(profile) {
        let name = format!("{} [{}]", statement.sql, statement.fingerprint);
        profiles.push(one(name.trim_start(), &stacks));
    }
    let document = json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "shared": {"frames": frames},
        "profiles": profiles,
        "name": profile.name,
        "activeProfileIndex": 0,
        "exporter": concat!("rehearse ", env!("CARGO_PKG_VERSION")),
    });
    crate::json::to_json_line(&document) + "\n"
}

/// Returns the statements with most time, in descending order, with their stacks.
fn by_statement(profile: &ExportedProfile) -> Vec<(&ExportedStatement, Vec<&ExportedStack>)> {
    let mut statements: BTreeMap<&ExportedStatement, Vec<&ExportedStack>> = BTreeMap::new();
    for stack in &profile.stacks {
        if let Some(statement) = &stack.statement {
            statements.entry(statement).or_default().push(stack);
        }
    }
    let mut statements: Vec<_> = statements.into_iter().collect();
    let time = |stacks: &[&ExportedStack]| stacks.iter().map(|one| one.ns).sum::<f64>();
    statements.sort_by(|(_, a), (_, b)| time(b).total_cmp(&time(a)));
    statements.truncate(STATEMENTS_MAX);
    statements
}
