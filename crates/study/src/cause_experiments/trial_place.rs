//! Server of the trials: sessions in its databases, and what these must not execute.

use std::collections::HashMap;
use std::sync::Arc;

use observe::Example;
use replay::{LoginMap, Target};

use super::outside_effects::OutsideEffects;
use super::statement_trial::TrialConnection;
use super::trial_session::TrialSession;

/// Server of the trials, with what its databases must not execute.
pub(crate) struct TrialPlace<'a> {
    target: &'a Target,
    logins: &'a LoginMap,
    outside: HashMap<Arc<str>, OutsideEffects>,
}

impl<'a> TrialPlace<'a> {
    pub(crate) fn new(target: &'a Target, logins: &'a LoginMap) -> Self {
        TrialPlace {
            target,
            logins,
            outside: HashMap::new(),
        }
    }

    /// Takes a session of the sandbox's owner.
    pub(crate) fn enter_as_owner(&self, connection: &mut TrialConnection<'_>, database: &str) {
        connection.use_session(TrialSession::of_owner(self.target, database));
    }

    /// Takes the session of an example, if the example may be executed.
    ///
    /// # Errors
    /// With the reason why it must not be executed.
    pub(crate) fn enter(
        &mut self,
        connection: &mut TrialConnection<'_>,
        example: &Example,
    ) -> Result<(), String> {
        connection.use_session(TrialSession::of_example(self.logins, self.target, example));
        let database = connection.login().database.clone();
        if !self.outside.contains_key(&database) {
            let read = OutsideEffects::read(self.target, connection);
            let read = read.map_err(|reason| {
                format!("the catalogue of {database} cannot be read: {reason}")
            })?;
            self.outside.insert(database.clone(), read);
        }
        match self
            .outside
            .get(&database)
            .and_then(|outside| outside.refusal(example))
        {
            Some(reason) => Err(reason),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clock::SystemClock;
    use connect::login::Dialer;

    const OBJECTS: &str = "
        CREATE EXTENSION dblink;
        CREATE TABLE plain (id int PRIMARY KEY, body text);
        CREATE TABLE noted (id int PRIMARY KEY);
        CREATE TABLE sent (id int PRIMARY KEY);
        CREATE FUNCTION add_one(value int) RETURNS int LANGUAGE sql AS 'SELECT value + 1';
        CREATE FUNCTION save() RETURNS void LANGUAGE plpgsql AS
            $$ BEGIN COPY plain TO PROGRAM 'cat >/dev/null'; END $$;
        CREATE FUNCTION save_indirectly() RETURNS void LANGUAGE sql AS 'SELECT save()';
        CREATE FUNCTION assemble(text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE $1; END $$;
        CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN INSERT INTO plain VALUES (NEW.id); RETURN NEW; END $$;
        CREATE TRIGGER note BEFORE INSERT ON noted FOR EACH ROW EXECUTE PROCEDURE note();
        CREATE FUNCTION send() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN EXECUTE 'COPY plain TO PROGRAM ''cat >/dev/null'''; RETURN NEW; END $$;
        CREATE TRIGGER send BEFORE INSERT ON sent FOR EACH ROW EXECUTE PROCEDURE send();
        CREATE TABLE forwarded (id int PRIMARY KEY);
        CREATE FUNCTION forward() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN INSERT INTO sent VALUES (NEW.id); RETURN NEW; END $$;
        CREATE TRIGGER forward BEFORE INSERT ON forwarded FOR EACH ROW EXECUTE PROCEDURE forward();
        CREATE TABLE ruled (id int);
        CREATE RULE also AS ON INSERT TO ruled DO ALSO INSERT INTO forwarded VALUES (NEW.id);
        CREATE TABLE parts (id int) PARTITION BY RANGE (id);
        CREATE TABLE part PARTITION OF parts FOR VALUES FROM (0) TO (9);
        CREATE TRIGGER send AFTER INSERT ON part FOR EACH ROW EXECUTE PROCEDURE send();
        CREATE VIEW saved AS SELECT save_indirectly() IS NULL AS done;";

    fn example(sql: &str) -> Example {
        Example {
            session: 1,
            sequence: 1,
            database: "postgres".into(),
            user: "".into(),
            settings: [].into(),
            sql: sql.into(),
            parameters: Vec::new(),
            types: Vec::new(),
            is_prepared: false,
            captured_us: None,
        }
    }

    #[test]
    fn statements_that_reach_outside_of_their_transaction_are_refused() {
        let (_sandbox, endpoint) = test_support::server().start();
        let target = Target::parse(&endpoint.url("postgres"), |_| None).unwrap();
        let dialer = Dialer::new(&target).unwrap();
        let clock = SystemClock::start();
        let session = TrialSession::of_owner(&target, "postgres");
        let mut connection = TrialConnection::new(&dialer, session, (&clock, i64::MAX));
        connection.query(OBJECTS).unwrap();
        let logins = LoginMap::default();
        let mut place = TrialPlace::new(&target, &logins);
        for refused in [
            "SELECT dblink_exec('dbname=postgres', 'DELETE FROM plain')",
            "SELECT * FROM dblink('dbname=postgres', 'SELECT 1') AS t (a int)",
            "SELECT lo_export(1, '/tmp/x')",
            "SELECT pg_read_file('PG_VERSION')",
            "SELECT pg_reload_conf()",
            "SELECT save()",
            "SELECT save_indirectly()",
            "SELECT * FROM saved",
            "SELECT assemble('SELECT 1')",
            "INSERT INTO sent VALUES (1)",
            "INSERT INTO forwarded VALUES (1)",
            "INSERT INTO ruled VALUES (1)",
            "INSERT INTO parts VALUES (1)",
        ] {
            let reason = place.enter(&mut connection, &example(refused));
            let reason = reason.expect_err(refused);
            assert!(
                reason.contains("a rollback does not undo"),
                "{refused}: {reason}"
            );
        }
        for allowed in [
            "SELECT body FROM plain WHERE id = add_one(1)",
            "INSERT INTO plain VALUES (2, 'copy to program')",
            "INSERT INTO noted VALUES (1)",
            "SELECT id FROM sent",
        ] {
            let entered = place.enter(&mut connection, &example(allowed));
            assert_eq!(entered, Ok(()), "{allowed}");
        }
    }
}
