//! Check of the target before a replay.

use std::collections::BTreeSet;

use connect::Target;
use run::TargetInfo;
use workload::WorkloadReader;

use crate::connect::Dialer;
use crate::error::ReplayError;
use crate::login::{Login, LoginMap};

/// Tries every login of the workload once, so that a target that is down, or has no such role or database, is found
/// before the replay starts. Returns the target's address, version and encodings.
///
/// # Errors
/// If the target refuses a login; the first refusal.
pub fn check_target(
    reader: &WorkloadReader,
    target: &Target,
    logins: &LoginMap,
) -> Result<TargetInfo, ReplayError> {
    let mut needed: BTreeSet<Login> = BTreeSet::new();
    for used in reader.logins()? {
        needed.insert(logins.login(target, &used.user, &used.database, ""));
    }
    let dialer = Dialer::new(target)?;
    // With several hosts, all that answered.
    let mut addresses = BTreeSet::new();
    let mut info = TargetInfo::default();
    for login in needed {
        let found = dialer
            .try_out(&login)
            .map_err(|source| ReplayError::Refused {
                address: target.address(),
                user: login.user.to_string(),
                database: login.database.to_string(),
                source,
            })?;
        addresses.insert(found.address);
        info.server_version = found.server_version;
        if found.server_encoding != "UTF8" && !found.server_encoding.is_empty() {
            let database = login.database.to_string();
            info.encodings.insert(database, found.server_encoding);
        }
    }
    let addresses: Vec<String> = addresses.into_iter().collect();
    info.address = match addresses.is_empty() {
        true => target.address(),
        false => addresses.join(", "),
    };
    Ok(info)
}
