//! What is set beside the unchanged: each change by itself, then all together.

use crate::environment::Condition;
use crate::proof::{Change, ProofSide};
use transform::Rewriting;

use crate::failure::Failure;
use crate::sweep::levels;
use std::path::PathBuf;

/// Changes as a user names them.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    /// Files of SQL.
    pub scripts: Vec<PathBuf>,
    /// Settings: `NAME=VALUE`, or several as one change: `A=1; B=2`.
    pub settings: Vec<String>,
    /// Rewritings of the workload.
    pub rewritings: Vec<Rewriting>,
    /// Another major version.
    pub server: Option<u16>,
}

/// What all changes together are called.
const TOGETHER: &str = "all together";

/// The unchanged first.
///
/// # Errors
/// Where nothing is changed, or something cannot be read.
pub fn sides(given: &Changes) -> Result<Vec<ProofSide>, Failure> {
    let mut changes = Vec::new();
    for path in &given.scripts {
        let text = std::fs::read_to_string(path).map_err(|error| {
            Failure::usage(format!(
                "--change {} cannot be read ({error}); give a file of SQL",
                path.display()
            ))
        })?;
        changes.push(Change::Sql {
            path: path.display().to_string(),
            text,
        });
    }
    for text in &given.settings {
        let settings = levels::settings(text).filter(|all| !all.is_empty());
        changes.push(Change::Settings(settings.ok_or_else(|| {
            Failure::usage(format!(
                "--set '{text}' is no setting; give NAME=VALUE, such as --set work_mem=64MB, or several as one change: 'work_mem=64MB; jit=off'"
            ))
        })?));
    }
    let rewrites = given.rewritings.iter();
    changes.extend(rewrites.map(|one| Change::Rewrite(one.to_string())));
    changes.extend(given.server.map(Change::Server));
    if changes.is_empty() {
        return Err(Failure::usage(
            "nothing says what is changed; give --change FILE.sql, --set NAME=VALUE, --rewrite WHAT or --postgres-version MAJOR",
        ));
    }
    of_changes(changes)
}

/// The unchanged, each change by itself, and several together.
///
/// # Errors
/// Where two are the same.
pub fn of_changes(changes: Vec<Change>) -> Result<Vec<ProofSide>, Failure> {
    let mut sides = vec![ProofSide::default()];
    sides.extend(changes.iter().map(|change| ProofSide {
        name: change.name(),
        changes: vec![change.clone()],
    }));
    if changes.len() > 1 {
        sides.push(ProofSide {
            name: TOGETHER.to_owned(),
            changes,
        });
    }
    for (at, side) in sides.iter().enumerate() {
        if sides[..at].iter().any(|other| other.name == side.name) {
            return Err(Failure::usage(format!(
                "{} is given twice; give each change once",
                side.name
            )));
        }
    }
    Ok(sides)
}

/// The condition of each side.
///
/// # Errors
/// If a script has nothing to send.
pub fn conditions(sides: &[ProofSide]) -> Result<Vec<Condition>, Failure> {
    let conditions = sides.iter().map(ProofSide::condition);
    Ok(conditions.collect::<Result<_, _>>()?)
}

/// How the workload of a side is rewritten.
///
/// # Errors
/// Where the manifest names what this program does not know.
pub fn rewritings(side: &ProofSide) -> Result<Vec<Rewriting>, Failure> {
    let parse = |given: &str| given.parse::<Rewriting>().map_err(Failure::usage);
    side.rewrites().map(parse).collect()
}
