//! A sandbox that may be changed for a while: its state is kept before, and brought back behind.

use replay::Target;
use sandbox::{Sandbox, Stop};
use target::login::Dialer;

use crate::error::ExperimentError;

/// The snapshot of it as it was found.
const FOUND: &str = "lent-found";

/// A sandbox whose contents are lent: whatever is done there, [`LentSandbox::give_back`] takes it back.
#[derive(Debug)]
pub struct LentSandbox {
    sandbox: Sandbox,
    database: String,
    /// What it was set.
    settings: Vec<(String, String)>,
}

impl LentSandbox {
    /// Keeps its state. Questions go to this database.
    ///
    /// # Errors
    /// Where it was lent before and not given back, or no copy can be made.
    pub fn borrow(mut sandbox: Sandbox, database: &str) -> Result<Self, ExperimentError> {
        if sandbox.snapshots().iter().any(|one| one == FOUND) {
            return Err(ExperimentError::Usage(
                "this sandbox still has the snapshot of something that was killed there, so nobody knows whether it is as you loaded it; take the sandbox down and load it anew".to_owned(),
            ));
        }
        let settings = sandbox.settings().to_vec();
        sandbox.snapshot(FOUND)?;
        Ok(LentSandbox {
            sandbox,
            database: database.to_owned(),
            settings,
        })
    }

    /// Starts it as it was found, with these settings beside its own. Returns the way to it.
    ///
    /// # Errors
    /// Where it does not start.
    pub fn afresh(&mut self, more: &[(String, String)]) -> Result<Target, ExperimentError> {
        let mut settings = self.settings.clone();
        for (name, value) in more {
            settings.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
            settings.push((name.clone(), value.clone()));
        }
        // What is there now is thrown away.
        self.sandbox.stop(Stop::Immediate)?;
        self.sandbox.set(settings)?;
        self.sandbox.restore(FOUND)?;
        let url = self.sandbox.start()?.url(&self.database);
        Target::parse(&url, |_| None).map_err(|error| ExperimentError::Failed(error.to_string()))
    }

    /// The settings that let the server count statements, where its library is there.
    ///
    /// # Errors
    /// Where it does not start, or cannot be asked.
    pub fn counting(&mut self) -> Result<Vec<(String, String)>, ExperimentError> {
        const LIBRARY: &str = "pg_stat_statements";
        let own = |name: &str| {
            let all = self.settings.iter();
            all.filter(|(other, _)| other.eq_ignore_ascii_case(name))
                .map(|(_, value)| value.clone())
                .next_back()
                .unwrap_or_default()
        };
        let mut loaded = own("shared_preload_libraries");
        let target = self.afresh(&[])?;
        let login = replay::LoginMap::default().login(&target, "", "", "rehearse");
        let dialer = Dialer::new(&target).map_err(replay::ReplayError::Target)?;
        let there = dialer.questions(&login).and_then(|mut questions| {
            questions.ask("SELECT 1 FROM pg_available_extensions WHERE name = 'pg_stat_statements'")
        });
        let there = there.map_err(|error| ExperimentError::Failed(error.to_string()))?;
        if there.is_empty() {
            return Ok(Vec::new());
        }
        if !loaded.contains(LIBRARY) {
            if !loaded.is_empty() {
                loaded.push_str(", ");
            }
            loaded.push_str(LIBRARY);
        }
        Ok(vec![("shared_preload_libraries".to_owned(), loaded)])
    }

    /// Leaves it as it was found.
    ///
    /// # Errors
    /// Where that fails.
    pub fn give_back(mut self) -> Result<(), ExperimentError> {
        self.sandbox.stop(Stop::Immediate)?;
        self.sandbox.set(self.settings.clone())?;
        self.sandbox.restore(FOUND)?;
        self.sandbox.start()?;
        Ok(self.sandbox.remove_snapshot(FOUND)?)
    }
}
