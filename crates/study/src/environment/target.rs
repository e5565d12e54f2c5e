//! Conditions set up at a server that is not private.

use std::collections::BTreeSet;
use std::path::Path;

use connect::login::{Dialer, Login, LoginError, QueryConnection, Value};
use replay::{LoginMap, Target};
use sha2::{Digest, Sha256};

use super::template_settings::MissingSetting;
use super::{
    AtEnd, Condition, Environment, STATEMENTS_TIME_MAX, merge_settings, quote_identifier,
    quote_literal, run_stoppable_command, template_settings,
};
use crate::error::ExperimentError;
use crate::interrupt::Interrupt;
use crate::notes;

/// Beginning of the comment of databases that this program created. The rest names the proof that created it. No other
/// database is dropped.
const OURS: &str = "made by rehearse prove";

/// Method by which the data are restored before each trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DataSource {
    /// A command of the user restores them.
    Command(String),
    /// The target's database is recreated from this template database.
    Template(String),
    /// Data are not restored: each trial finds the state after the previous one.
    Unrestored,
}

impl DataSource {
    /// Names the side of a comparison to a command.
    pub fn of_side(self, side: &str) -> Self {
        match self {
            DataSource::Command(command) => DataSource::Command(of_side(&command, side)),
            other => other,
        }
    }
}

/// Returns a shell command that has the side of a comparison as the variable `REHEARSE_SIDE`.
pub fn of_side(command: &str, side: &str) -> String {
    format!("export REHEARSE_SIDE={side}\n{command}")
}

/// Any server that the user named. Only settings that a session can change are supported.
#[derive(Debug)]
pub struct TargetEnvironment {
    target: Target,
    login: Login,
    data: DataSource,
    conditions: Vec<Condition>,
    at_end: AtEnd,
    is_touched: bool,
    /// Comment of the database that this proof creates.
    comment: String,
    /// Settings of the template that the created database does not have. Each is reported once.
    pub(crate) missing_settings: BTreeSet<MissingSetting>,
    /// Stop request that ends a command which restores data.
    interrupt: Interrupt,
}

impl TargetEnvironment {
    /// Sets up conditions at a target, with this login for administration.
    pub fn new(
        target: Target,
        login: Login,
        data: DataSource,
        conditions: Vec<Condition>,
        at_end: AtEnd,
    ) -> Self {
        TargetEnvironment {
            target,
            login,
            data,
            conditions,
            at_end,
            is_touched: false,
            comment: OURS.to_owned(),
            missing_settings: BTreeSet::new(),
            interrupt: Interrupt::default(),
        }
    }

    /// Ends the command that restores data when a stop is requested.
    pub fn stopped_by(self, interrupt: &Interrupt) -> Self {
        TargetEnvironment {
            interrupt: interrupt.clone(),
            ..self
        }
    }

    /// Marks the database that is created as the proof's in this directory. A resumed proof drops it, and no other does.
    pub fn owned_by(self, directory: &Path) -> Self {
        let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
        let machine = connect::machine_name().unwrap_or_default();
        TargetEnvironment {
            comment: format!("{OURS} in {machine}:{}", directory.display()),
            ..self
        }
    }

    fn restore(&mut self) -> Result<(), ExperimentError> {
        self.is_touched = true;
        match &self.data {
            DataSource::Command(command) => {
                let interrupt = &self.interrupt;
                let done = run_stoppable_command(command, &self.target, "--restore", interrupt);
                if done.is_err() && interrupt.is_requested() {
                    // The command would be started again at the end.
                    self.is_touched = false;
                    notes::note(&format!(
                        "The command of --restore was ended: the data of {} are incomplete until it runs again.",
                        self.target.address()
                    ));
                }
                done
            }
            DataSource::Template(template) => {
                for missing in self.recreate_database(Some(template))? {
                    if !self.missing_settings.contains(&missing) {
                        notes::note(&missing.sentence);
                        self.missing_settings.insert(missing);
                    }
                }
                Ok(())
            }
            DataSource::Unrestored => Ok(()),
        }
    }

    /// Drops the target's database, if this program created it, and recreates it from the template, with its settings.
    /// Returns settings of the template that it does not have.
    fn recreate_database(
        &self,
        template: Option<&str>,
    ) -> Result<Vec<MissingSetting>, ExperimentError> {
        let (admin, login) = self.administrator();
        let dialer = Dialer::new(&admin)?;
        let mut questions = open_administration(&dialer, &login, &admin)?;
        let name = self.name();
        let failed = |what: &'static str| failure_at(&admin, what);
        let comment =
            database_comment(&mut questions, name).map_err(failed("cannot look at pg_database"))?;
        if let Some(comment) = comment
            .as_ref()
            .filter(|one| one.starts_with(OURS) && **one != self.comment)
        {
            return Err(ExperimentError::Usage(format!(
                "the database {name} at {} was {comment}, which may still run; finish or resume that proof, name another database, or drop it",
                admin.address()
            )));
        }
        if comment
            .as_ref()
            .is_some_and(|comment| *comment != self.comment)
        {
            return Err(ExperimentError::Usage(format!(
                "the database {name} is there already at {}, and was not made by a proof, so it is not dropped; name one in --target that is not there: it is made of the template",
                admin.address()
            )));
        }
        if comment.is_some() {
            drop_database(&mut questions, name)
                .map_err(failed("the database cannot be dropped"))?;
        }
        self.drop_unmarked(&mut questions)
            .map_err(failed("the database cannot be dropped"))?;
        let Some(template) = template else {
            return Ok(Vec::new());
        };
        let unmarked = quote_identifier(&self.unmarked_name());
        questions
            .query(&format!(
                "CREATE DATABASE {unmarked} TEMPLATE {} ALLOW_CONNECTIONS false",
                quote_identifier(template)
            ))
            .map_err(failed("the database cannot be made of its template"))?;
        questions
            .query(&format!(
                "COMMENT ON DATABASE {unmarked} IS {}",
                quote_literal(&self.comment)
            ))
            .map_err(failed("the database cannot be marked as ours"))?;
        questions
            .query(&format!(
                "ALTER DATABASE {unmarked} RENAME TO {}",
                quote_identifier(name)
            ))
            .map_err(failed("the database cannot be renamed"))?;
        questions
            .query(&format!(
                "ALTER DATABASE {} ALLOW_CONNECTIONS true",
                quote_identifier(name)
            ))
            .map_err(failed("the database cannot be opened"))?;
        template_settings::copy_settings(&mut questions, template, name)
            .map_err(failed("the settings of the template cannot be read"))
    }

    /// Drops the database that a killed process left, if it has this comment. Others stay.
    ///
    /// # Errors
    /// If the server cannot be asked, or does not drop it.
    pub fn drop_leftover(&self) -> Result<(), ExperimentError> {
        let (admin, login) = self.administrator();
        let dialer = Dialer::new(&admin)?;
        let mut questions = open_administration(&dialer, &login, &admin)?;
        let failed = |what: &'static str| failure_at(&admin, what);
        let comment = database_comment(&mut questions, self.name())
            .map_err(failed("cannot look at pg_database"))?;
        self.drop_unmarked(&mut questions)
            .map_err(failed("the database cannot be dropped"))?;
        match comment == Some(self.comment.clone()) {
            true => drop_database(&mut questions, self.name())
                .map_err(failed("the database cannot be dropped")),
            false => Ok(()),
        }
    }

    /// Returns the name under which the database is made of the template. A server completes it after the process was killed, and
    /// it has no comment then, so that the name alone tells whose it is.
    fn unmarked_name(&self) -> String {
        let hash = Sha256::digest(format!("{}\n{}", self.comment, self.name()));
        let hash: String = hash[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        format!("rehearse_{hash}")
    }

    /// Drops the database that a killed process began to make of the template. Its server process may still copy, and no other one
    /// sees the database until then.
    fn drop_unmarked(&self, questions: &mut QueryConnection<'_>) -> Result<(), LoginError> {
        let name = self.unmarked_name();
        questions.query(&format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE pid <> pg_backend_pid() AND query LIKE 'CREATE DATABASE \"{name}\"%'"
        ))?;
        match database_comment(questions, &name)? {
            Some(_) => drop_database(questions, &name),
            None => Ok(()),
        }
    }

    /// Returns the name of the target's database.
    fn name(&self) -> &str {
        self.target.database.as_deref().unwrap_or_default()
    }

    /// Returns the database in which others are created and dropped, with its login.
    fn administrator(&self) -> (Target, Login) {
        let mut admin = self.target.clone();
        admin.database = Some("postgres".to_owned());
        let login = LoginMap::default().login(&admin, "", "", "rehearse");
        (admin, login)
    }

    /// Refuses what cannot be set up without asking the server.
    fn check_conditions(&self) -> Result<(), ExperimentError> {
        if self.conditions.iter().any(|one| one.is_other_server) {
            return Err(ExperimentError::Usage(
                "another major version (--postgres-version) cannot be set up at a --target; give --sandbox NAME, or replay on both servers yourself and compare the runs".to_owned(),
            ));
        }
        if matches!(self.data, DataSource::Template(_)) && self.target.database.is_none() {
            return Err(ExperimentError::Usage(
                "--template makes the target's database, and --target names none; give one that is not there yet, such as postgres://HOST/shop_proof".to_owned(),
            ));
        }
        Ok(())
    }

    /// Refuses settings that a session cannot have.
    fn check_settings(&self) -> Result<(), ExperimentError> {
        let address = self.target.address();
        let settings = self.conditions.iter().flat_map(|one| &one.settings);
        let mut names: Vec<&str> = settings.map(|(name, _)| name.as_str()).collect();
        names.dedup();
        if names.is_empty() {
            return Ok(());
        }
        let failed = |error| {
            ExperimentError::Failed(format!("cannot ask {address} about its settings: {error}"))
        };
        let dialer = Dialer::new(&self.target)?;
        let mut questions = dialer.open_query_connection(&self.login).map_err(failed)?;
        for name in names {
            let question = "SELECT context FROM pg_settings WHERE lower(name) = lower($1)";
            let rows = questions
                .query_with(question, &[25], &[Some(Value::Text(name))])
                .map_err(failed)?;
            let context = rows.first().and_then(|row| row.first()?.as_deref());
            let needs = match context {
                Some("user" | "superuser" | "backend" | "superuser-backend") => continue,
                // A session may set parameters of a library that is not loaded, and its own.
                None if name.contains('.') => continue,
                None => {
                    return Err(ExperimentError::Usage(format!(
                        "the server at {address} has no setting '{name}'; see pg_settings there for those that it has"
                    )));
                }
                Some("postmaster") => "a restart",
                Some("sighup") => "a change of its configuration",
                Some(_) => "another build",
            };
            return Err(ExperimentError::Usage(format!(
                "'{name}' needs {needs} of the server at {address}, which is not ours to make; try it in a sandbox (--sandbox NAME), or make the change yourself and measure each side of it"
            )));
        }
        Ok(())
    }
}

/// Returns a function that describes the failure of a step at a server.
fn failure_at(server: &Target, what: &'static str) -> impl Fn(LoginError) -> ExperimentError {
    let address = server.address();
    move |error| ExperimentError::Failed(format!("{what} at {address}: {error}"))
}

fn open_administration<'d>(
    dialer: &'d Dialer,
    login: &Login,
    server: &Target,
) -> Result<QueryConnection<'d>, ExperimentError> {
    let mut questions = dialer.open_query_connection(login).map_err(failure_at(
        server,
        "cannot connect to the database postgres",
    ))?;
    questions.limit(STATEMENTS_TIME_MAX);
    Ok(questions)
}

/// Ends the sessions of a database, and drops it.
fn drop_database(questions: &mut QueryConnection<'_>, name: &str) -> Result<(), LoginError> {
    let _ = questions.query(&format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = {}",
        quote_literal(name)
    ));
    let sql = format!("DROP DATABASE {}", quote_identifier(name));
    questions.query(&sql).map(drop)
}

/// Returns the comment of a database, or `None` if there is no such database.
fn database_comment(
    questions: &mut QueryConnection<'_>,
    name: &str,
) -> Result<Option<String>, LoginError> {
    let rows = questions.query(&format!(
        "SELECT coalesce(pg_catalog.shobj_description(oid, 'pg_database'), '') FROM pg_catalog.pg_database WHERE datname = {}",
        quote_literal(name)
    ))?;
    let first = rows.into_iter().next();
    Ok(first.map(|row| row.into_iter().next().flatten().unwrap_or_default()))
}

impl Environment for TargetEnvironment {
    fn check(&mut self) -> Result<(), ExperimentError> {
        self.check_conditions()?;
        self.check_settings()
    }

    fn prepare(&mut self) -> Result<(), ExperimentError> {
        self.check_conditions()?;
        // Restoring may create the database that is queried for settings.
        self.restore()?;
        self.check_settings()?;
        for condition in 0..self.conditions.len() {
            if !self.conditions[condition].scripts.is_empty() {
                self.set_up(condition)?;
            }
        }
        Ok(())
    }

    fn set_up(&mut self, condition: usize) -> Result<(Target, Option<i32>), ExperimentError> {
        self.restore()?;
        let condition = &self.conditions[condition];
        for script in &condition.scripts {
            script.apply_as(&self.target, &self.login, &self.interrupt)?;
        }
        let mut target = self.target.clone();
        target.settings = merge_settings(target.settings.iter().chain(&condition.settings));
        Ok((target, None))
    }

    fn release(&mut self) -> Result<(), ExperimentError> {
        match (&self.data, self.at_end) {
            _ if !self.is_touched => Ok(()),
            (_, AtEnd::Leave) => Ok(()),
            (DataSource::Template(_), AtEnd::Restore) => self.recreate_database(None).map(drop),
            // Also after a stop request, which ends the runs.
            (DataSource::Command(command), AtEnd::Restore) => {
                let interrupt = self.interrupt.for_last_step();
                run_stoppable_command(command, &self.target, "--restore", &interrupt)
            }
            (DataSource::Unrestored, AtEnd::Restore) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn database_of_another_proof_is_not_dropped() {
        let (_sandbox, endpoint) = test_support::server().start();
        let make = |directory: &str| {
            let target = Target::parse(&endpoint.url("shop_proof"), |_| None).unwrap();
            let login = LoginMap::default().login(&target, "", "", "rehearse");
            let data = DataSource::Template("postgres".to_owned());
            let conditions = vec![Condition::default()];
            TargetEnvironment::new(target, login, data, conditions, AtEnd::Restore)
                .owned_by(Path::new(directory))
        };
        let mut first = make("/a.proof");
        first.set_up(0).unwrap();
        first.set_up(0).unwrap();
        let mut other = make("/b.proof");
        let error = other.set_up(0).unwrap_err().to_string();
        assert!(error.contains(":/a.proof"), "{error}");
        first.release().unwrap();
        other.set_up(0).unwrap();
        other.release().unwrap();
    }

    #[test]
    fn database_that_a_killed_process_began_is_dropped() {
        let (_sandbox, endpoint) = test_support::server().start();
        let target = Target::parse(&endpoint.url("shop_proof"), |_| None).unwrap();
        let login = LoginMap::default().login(&target, "", "", "rehearse");
        let data = DataSource::Template("postgres".to_owned());
        let conditions = vec![Condition::default()];
        let mut environment =
            TargetEnvironment::new(target.clone(), login, data, conditions, AtEnd::Restore)
                .owned_by(Path::new("/a.proof"));
        let begun = environment.unmarked_name();
        let (admin, _) = environment.administrator();
        let others = "SELECT datname FROM pg_database WHERE datname NOT LIKE 'template_' AND datname <> 'postgres'";
        let names = || {
            let rows = crate::environment::ask(&admin, others).unwrap();
            rows.into_iter().flatten().flatten().collect::<Vec<_>>()
        };
        let begin = || {
            crate::environment::ask(&admin, &format!("CREATE DATABASE {begun}")).unwrap();
        };
        begin();
        environment.set_up(0).unwrap();
        assert_eq!(names(), ["shop_proof"]);
        environment.release().unwrap();
        begin();
        environment.drop_leftover().unwrap();
        assert_eq!(names(), [""; 0]);
    }
}
