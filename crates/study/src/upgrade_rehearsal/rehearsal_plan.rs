//! Identity of a rehearsal, and its directory.

use std::path::Path;

use serde::{Deserialize, Serialize};
use workload::WorkloadReader;

use super::{RehearsalServers, UpgradeRequest};
use crate::baseline_run::choose_database;
use crate::failure::Failure;

/// Identity of a rehearsal, in its directory.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RehearsalPlan {
    workload: String,
    from: String,
    /// New major version, if it was given.
    to: Option<u16>,
    /// Address of the user's upgraded server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    /// Whether private servers have default settings.
    #[serde(default)]
    has_default_settings: bool,
    /// Database of the workload that is rehearsed.
    pub(super) database: String,
    /// Private server of the old version.
    pub(super) sandbox: String,
}

/// Creates the directory, or reads the plan of the rehearsal that is resumed.
pub(super) fn begin(
    request: &UpgradeRequest<'_>,
    whole: &WorkloadReader,
) -> Result<RehearsalPlan, Failure> {
    let output = request.output;
    let file = output.join("upgrade.json");
    let name = output.file_stem().unwrap_or_default().to_string_lossy();
    let plain: String = name
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .take(20)
        .collect();
    let mut plan = RehearsalPlan {
        workload: whole.id().to_owned(),
        from: request.from.address(),
        to: request.to(),
        target: match &request.servers {
            RehearsalServers::Own { place, .. } => {
                place.other_target.as_ref().map(|target| target.address())
            }
            RehearsalServers::Private { .. } => None,
        },
        has_default_settings: matches!(
            request.servers,
            RehearsalServers::Private {
                has_default_settings: true,
                ..
            }
        ),
        database: choose_database(whole, request.replay.logins.database.as_deref())?,
        sandbox: format!(
            "upgrade-{}-{:08x}",
            plain.to_lowercase(),
            rand::random::<u32>()
        ),
    };
    if let Ok(text) = std::fs::read_to_string(&file) {
        let known: RehearsalPlan = serde_json::from_str(&text).map_err(|error| {
            Failure::could_not(format!("{} is damaged: {error}", file.display()))
        })?;
        plan.sandbox.clone_from(&known.sandbox);
        return match (request.resume, known == plan) {
            (false, _) => Err(exists(output)),
            (true, false) => Err(Failure::usage(format!(
                "{} is the rehearsal of another workload, server or version; give the same options to --resume",
                output.display()
            ))),
            (true, true) => Ok(known),
        };
    }
    if output.symlink_metadata().is_ok() {
        return Err(exists(output));
    }
    let failed = |error: std::io::Error| {
        Failure::could_not(format!("cannot write to {}: {error}", output.display()))
    };
    std::fs::create_dir_all(output).map_err(failed)?;
    let text = serde_json::to_string_pretty(&plan).expect("plain data");
    std::fs::write(&file, text).map_err(failed)?;
    Ok(plan)
}

fn exists(output: &Path) -> Failure {
    Failure::usage(format!(
        "cannot write to {}: it already exists; give another -o, or --resume to continue a rehearsal",
        output.display()
    ))
}
