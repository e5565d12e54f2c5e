//! New side of the proof of remedies: the remedies as they are printed, in a form that leaves nothing.

use std::collections::BTreeSet;

use workload::WorkloadReader;

use super::{PreparedServers, RehearsalServers, UpgradeRequest};
use crate::failure::Failure;
use crate::proof::{Change, ProofSide};
use crate::sweep::Setting;
use crate::upgrade_remedies::{
    RegressionRemedy, RemedySearchResult, SettingScope, setting_statement,
};

/// Reason why the setting of a role is not proved.
pub(super) const ONE_ROLE_NOTE: &str = "The remedy was not proved: without --template, a setting holds for the sessions of all roles of \
     the replays, and it is for one of them.";

/// Servers of the proof, with the workload that is replayed.
pub(super) struct RemediedServers<'a> {
    pub(super) request: &'a UpgradeRequest<'a>,
    pub(super) servers: &'a PreparedServers,
    pub(super) whole: &'a WorkloadReader,
}

impl RemediedServers<'_> {
    /// Returns the new side with all remedies.
    pub(super) fn side(&self, found: &RemedySearchResult) -> Result<ProofSide, Failure> {
        let RemediedState {
            settings,
            statements,
        } = self.state(found)?;
        let mut changes = vec![self.servers.change.clone()];
        if !settings.is_empty() {
            changes.push(Change::Settings(settings));
        }
        if !statements.is_empty() {
            changes.push(Change::Sql {
                path: "remedies".to_owned(),
                text: statements.join(";\n"),
            });
        }
        Ok(ProofSide {
            name: format!("{} with remedies", self.servers.change.name()),
            changes,
        })
    }

    /// Returns the statements as they are printed. On a server of the user nothing of them must stay: on a database that is
    /// dropped, settings are those of this database; on another one, they hold for the sessions of the replays.
    fn state(&self, found: &RemedySearchResult) -> Result<RemediedState, Failure> {
        let mut side = RemediedState {
            settings: Vec::new(),
            statements: found.replayed_script(),
        };
        let RehearsalServers::Own(own) = &self.request.servers else {
            return Ok(side);
        };
        let is_dropped = own.place.template.is_some();
        let database = own.target.database.as_deref().unwrap_or_default();
        let role_of_all = self.role_of_all_sessions()?;
        for remedy in (found.regressions.iter()).filter_map(|one| one.remedy.as_ref()) {
            let Some((name, value)) = &remedy.setting else {
                continue;
            };
            side.statements
                .retain(|statement| !remedy.statements.contains(statement));
            if is_dropped {
                let role = remedy.role.as_deref();
                let scope = match role {
                    Some(_) => SettingScope::RoleInDatabase,
                    None => SettingScope::Database,
                };
                let place = (scope, role.unwrap_or_default(), database);
                let statement = setting_statement(place, (name, value));
                if !side.statements.contains(&statement) {
                    side.statements.push(statement);
                }
            } else if is_for_all(remedy, role_of_all.as_deref())
                && side.settings.iter().all(|known| known.name != *name)
            {
                side.settings.push(Setting {
                    name: name.clone(),
                    value: value.clone(),
                });
            }
        }
        Ok(side)
    }

    /// Returns the role of all replayed sessions; `None` if they have several.
    fn role_of_all_sessions(&self) -> Result<Option<String>, Failure> {
        let mut roles: BTreeSet<String> = BTreeSet::new();
        let target = match &self.request.servers {
            RehearsalServers::Own(own) => &own.target,
            RehearsalServers::Private { .. } => self.request.from,
        };
        for one in self.whole.logins()? {
            let login = (self.servers.logins).login(target, &one.user, &one.database, "");
            roles.insert(login.role.unwrap_or(login.user).to_string());
        }
        let role = roles.pop_first();
        Ok(role.filter(|_| roles.is_empty()))
    }

    /// Whether the proof executes a remedy: the setting of one role cannot be given to the sessions of this role only.
    pub(super) fn is_replayed(&self, remedy: &RegressionRemedy) -> Result<bool, Failure> {
        Ok(match &self.request.servers {
            RehearsalServers::Own(own) if own.place.template.is_none() => {
                is_for_all(remedy, self.role_of_all_sessions()?.as_deref())
            }
            _ => true,
        })
    }
}

/// State of the new side with remedies.
struct RemediedState {
    /// Settings of the sessions of the replays.
    settings: Vec<Setting>,
    /// Statements that are executed before each run.
    statements: Vec<String>,
}

/// Whether a remedy is for all sessions of a workload, whose only role is this one.
fn is_for_all(remedy: &RegressionRemedy, role_of_all: Option<&str>) -> bool {
    remedy.role.is_none() || remedy.role.as_deref() == role_of_all
}
