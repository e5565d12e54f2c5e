//! The sides of a proof: no change, each change alone, then all changes combined.

use crate::environment::Condition;
use crate::proof::{Change, ProofSide};
use transform::Rewrite;

use crate::failure::Failure;
use crate::journal::read_text;
use crate::sweep::levels;
use std::path::PathBuf;

/// Changes as the user specified them.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    /// Paths of SQL scripts.
    pub scripts: Vec<PathBuf>,
    /// Commands for the shell.
    pub commands: Vec<String>,
    /// Settings, each `NAME=VALUE`. Several form one change with semicolons between them: `A=1; B=2`.
    pub settings: Vec<String>,
    /// Workload transformations.
    pub rewritings: Vec<Rewrite>,
    /// Another major version of the server.
    pub server: Option<u16>,
}

/// Name of the side that combines all changes.
const ALL_COMBINED: &str = "all together";

/// Builds the sides from what the user specified. The unchanged side is the first.
///
/// # Errors
/// If nothing is changed, or a change cannot be read.
pub fn build_sides(given: &Changes) -> Result<Vec<ProofSide>, Failure> {
    let mut changes = Vec::new();
    for path in &given.scripts {
        let text = read_text(path).map_err(|error| {
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
    changes.extend(given.commands.iter().cloned().map(Change::Command));
    for text in &given.settings {
        let settings = levels::parse_settings(text).filter(|all| !all.is_empty());
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
            "nothing says what is changed; give --change FILE.sql, --change-command COMMAND, --set NAME=VALUE, --rewrite WHAT or --postgres-version MAJOR",
        ));
    }
    sides_of_changes(changes)
}

/// Builds the sides of a list of changes: unchanged, each change alone, and all combined if there are several.
///
/// # Errors
/// If two changes are the same.
pub fn sides_of_changes(changes: Vec<Change>) -> Result<Vec<ProofSide>, Failure> {
    let mut sides = vec![ProofSide::default()];
    sides.extend(changes.iter().map(|change| ProofSide {
        name: change.name(),
        changes: vec![change.clone()],
    }));
    if changes.len() > 1 {
        sides.push(ProofSide {
            name: ALL_COMBINED.to_owned(),
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

/// Returns the server condition of each side.
///
/// # Errors
/// If a script has nothing to send.
pub fn side_conditions(sides: &[ProofSide]) -> Result<Vec<Condition>, Failure> {
    let conditions = sides.iter().map(ProofSide::condition);
    Ok(conditions.collect::<Result<_, _>>()?)
}

/// Parses the workload transformations of a side.
///
/// # Errors
/// If the manifest names one that this program does not know.
pub fn parse_rewritings(side: &ProofSide) -> Result<Vec<Rewrite>, Failure> {
    let parse = |given: &str| given.parse::<Rewrite>().map_err(Failure::usage);
    side.rewrites().map(parse).collect()
}
