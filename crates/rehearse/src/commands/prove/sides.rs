//! What is set beside the unchanged: each change by itself, then all together.

use study::Condition;
use study::proof::{Change, ProofSide};
use transform::Rewriting;

use crate::commands::sweep::levels;
use crate::ending::Failure;
use crate::options::prove::ChangeArgs;

/// What all changes together are called.
const TOGETHER: &str = "all together";

/// The unchanged first.
///
/// # Errors
/// Where nothing is changed, or something cannot be read.
pub fn sides(args: &ChangeArgs) -> Result<Vec<ProofSide>, Failure> {
    let mut changes = Vec::new();
    for path in &args.change {
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
    for text in &args.set {
        let settings = levels::settings(text).filter(|all| !all.is_empty());
        changes.push(Change::Settings(settings.ok_or_else(|| {
            Failure::usage(format!(
                "--set '{text}' is no setting; give NAME=VALUE, such as --set work_mem=64MB, or several as one change: 'work_mem=64MB; jit=off'"
            ))
        })?));
    }
    let rewrites = args.rewrite.iter();
    changes.extend(rewrites.map(|one| Change::Rewrite(one.to_string())));
    changes.extend(args.server.map(Change::Server));
    if changes.is_empty() {
        return Err(Failure::usage(
            "nothing says what is changed; give --change FILE.sql, --set NAME=VALUE, --rewrite WHAT or --server MAJOR",
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
