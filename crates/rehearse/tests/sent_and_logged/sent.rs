//! The client's record of the statements it sent, to compare with the server's log.

use std::time::{SystemTime, UNIX_EPOCH};

use postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use postgres::{Client, SimpleQueryMessage, Statement};

use super::mixture::Class;

/// How something was sent.
#[derive(Debug, Clone, PartialEq)]
pub enum How {
    Simple,
    /// Statement that was parsed under a name and never executed.
    Prepare {
        name: usize,
    },
    /// Executes the unnamed statement (`None`), or the one prepared with this number, through a
    /// named portal or the unnamed one.
    Execute {
        name: Option<usize>,
        portal: bool,
    },
    /// Fetch of further rows of a portal.
    Fetch {
        name: usize,
    },
}

/// Step at which a statement failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Syntax error; the text is not logged at its start.
    Syntax,
    /// Error in analysis, or the transaction had failed before.
    Analysis {
        /// Whether the error has a position.
        positioned: bool,
    },
    Bind {
        /// Whether the server had read the values when it failed.
        values_read: bool,
    },
    Execution,
    /// Error at the end of the implicit transaction: the server no longer names the statement.
    Commit,
    /// Cancel request during the execution.
    Canceled,
}

/// Statement that was sent.
#[derive(Debug, Clone)]
pub struct Sent {
    pub how: How,
    pub sql: String,
    pub class: Class,
    /// Parameters as text; `None` is NULL.
    pub parameters: Vec<Option<String>>,
    /// Client's clock before the statement was sent and after its reply, in microseconds.
    pub before_us: i64,
    pub after_us: i64,
    /// The same times for the Parse of its name.
    pub prepared_us: Option<(i64, i64)>,
    /// Whether it is the first to use that Parse.
    pub first: bool,
    /// Shortest time that it slept in the server.
    pub slept_us: i64,
    pub failed: Option<(&'static str, Phase)>,
}

/// Named statement.
pub struct Prepared {
    pub statement: Statement,
    number: usize,
    sql: String,
    class: Class,
    parsed_us: (i64, i64),
    used: bool,
}

/// Value with the text that the server logs for it.
pub struct Value {
    value: Box<dyn ToSql + Sync>,
    text: Option<String>,
}

impl Value {
    pub fn text(text: &str) -> Self {
        Value {
            value: Box::new(text.to_owned()),
            text: Some(text.to_owned()),
        }
    }

    pub fn null() -> Self {
        Value {
            value: Box::new(None::<String>),
            text: None,
        }
    }

    pub fn int(number: i32) -> Self {
        Value {
            value: Box::new(number),
            text: Some(number.to_string()),
        }
    }

    pub fn long(number: i64) -> Self {
        Value {
            value: Box::new(number),
            text: Some(number.to_string()),
        }
    }

    pub fn float(number: f64, text: &str) -> Self {
        Value {
            value: Box::new(number),
            text: Some(text.to_owned()),
        }
    }

    pub fn truth(truth: bool) -> Self {
        Value {
            value: Box::new(truth),
            text: Some(if truth { "t" } else { "f" }.to_owned()),
        }
    }

    pub fn bytes(bytes: &[u8]) -> Self {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Value {
            value: Box::new(bytes.to_owned()),
            text: Some(format!("\\x{hex}")),
        }
    }

    /// Creates a `text[]`, with the text that `array_out` gives it.
    pub fn texts(values: Vec<Option<&str>>, text: &str) -> Self {
        let values: Vec<Option<String>> = values
            .into_iter()
            .map(|value| value.map(str::to_owned))
            .collect();
        Value {
            value: Box::new(values),
            text: Some(text.to_owned()),
        }
    }

    pub fn ints(values: Vec<i32>, text: &str) -> Self {
        Value {
            value: Box::new(values),
            text: Some(text.to_owned()),
        }
    }

    /// Creates bytes that are no value of the type.
    pub fn broken(bytes: &[u8]) -> Self {
        Value {
            value: Box::new(Broken(bytes.to_owned())),
            text: None,
        }
    }
}

#[derive(Debug)]
struct Broken(Vec<u8>);

impl ToSql for Broken {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut postgres::types::private::BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.extend_from_slice(&self.0);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// Returns microseconds since 1970, by the clock that the server also uses.
pub fn now_us() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_micros()).unwrap()
}

/// Client with a record of the statements it sent.
pub struct Driver {
    pub client: Client,
    pub sent: Vec<Sent>,
    prepared: usize,
}

type Answer<T> = Result<T, postgres::Error>;

fn failure(answer: Answer<()>, expected: Option<&str>, sql: &str) {
    let code = answer.err().map(|error| {
        // The library tells the end of a session by the server only as the connection's.
        if error.is_closed() {
            return "57P01".to_owned();
        }
        let code = error.code().map(|code| code.code().to_owned());
        code.unwrap_or_else(|| panic!("{sql}: {error:?}"))
    });
    assert_eq!(code.as_deref(), expected, "{sql}");
}

impl Driver {
    pub fn new(client: Client) -> Self {
        Driver {
            client,
            sent: Vec::new(),
            prepared: 0,
        }
    }

    fn note(
        &mut self,
        how: How,
        class: Class,
        sql: &str,
        values: &[Value],
        before_us: i64,
    ) -> &mut Sent {
        self.sent.push(Sent {
            how,
            sql: sql.to_owned(),
            class,
            parameters: values.iter().map(|value| value.text.clone()).collect(),
            before_us,
            after_us: now_us(),
            prepared_us: None,
            first: false,
            slept_us: 0,
            failed: None,
        });
        self.sent.last_mut().unwrap()
    }

    /// Sends a simple query that succeeds.
    pub fn simple(&mut self, class: Class, sql: &str) -> &mut Sent {
        self.query(class, sql, None)
    }

    /// Sends a simple query that fails with this code at this step.
    pub fn simple_fails(&mut self, class: Class, sql: &str, code: &'static str, phase: Phase) {
        self.query(class, sql, Some((code, phase)));
    }

    fn query(
        &mut self,
        class: Class,
        sql: &str,
        failed: Option<(&'static str, Phase)>,
    ) -> &mut Sent {
        let before_us = now_us();
        let answer = self.client.simple_query(sql);
        let answer = answer.map(|messages: Vec<SimpleQueryMessage>| drop(messages));
        failure(answer, failed.map(|(code, _)| code), sql);
        let sent = self.note(How::Simple, class, sql, &[], before_us);
        sent.failed = failed;
        sent
    }

    /// Prepares under a name. The Parse is recorded only if nothing uses it: see
    /// [`Driver::unused`].
    pub fn prepare(&mut self, class: Class, sql: &str) -> Prepared {
        let before_us = now_us();
        let statement = self.client.prepare(sql).unwrap();
        self.prepared += 1;
        Prepared {
            statement,
            number: self.prepared,
            sql: sql.to_owned(),
            class,
            parsed_us: (before_us, now_us()),
            used: false,
        }
    }

    /// Prepares a statement whose Parse fails.
    pub fn prepare_fails(&mut self, class: Class, sql: &str, code: &'static str, phase: Phase) {
        let before_us = now_us();
        let answer = self.client.prepare(sql).map(drop);
        failure(answer, Some(code), sql);
        let how = How::Execute {
            name: None,
            portal: false,
        };
        self.note(how, class, sql, &[], before_us).failed = Some((code, phase));
    }

    /// Records a prepared statement that nothing will use.
    pub fn unused(&mut self, prepared: Prepared) {
        let (before_us, after_us) = prepared.parsed_us;
        let how = How::Prepare {
            name: prepared.number,
        };
        self.note(how, prepared.class, &prepared.sql, &[], before_us)
            .after_us = after_us;
    }

    pub fn execute(&mut self, prepared: &mut Prepared, values: &[Value]) -> &mut Sent {
        self.run(prepared, values, None)
    }

    pub fn execute_fails(
        &mut self,
        prepared: &mut Prepared,
        values: &[Value],
        code: &'static str,
        phase: Phase,
    ) {
        self.run(prepared, values, Some((code, phase)));
    }

    fn run(
        &mut self,
        prepared: &mut Prepared,
        values: &[Value],
        failed: Option<(&'static str, Phase)>,
    ) -> &mut Sent {
        let before_us = now_us();
        let list: Vec<&(dyn ToSql + Sync)> =
            values.iter().map(|value| value.value.as_ref()).collect();
        let answer = self.client.query(&prepared.statement, &list).map(drop);
        failure(answer, failed.map(|(code, _)| code), &prepared.sql);
        let how = How::Execute {
            name: Some(prepared.number),
            portal: false,
        };
        let (class, sql) = (prepared.class, prepared.sql.clone());
        let sent = self.note(how, class, &sql, values, before_us);
        sent.prepared_us = Some(prepared.parsed_us);
        sent.first = !std::mem::replace(&mut prepared.used, true);
        sent.failed = failed;
        sent
    }

    /// Sends parse, bind and execute of the unnamed statement at once.
    pub fn unnamed(
        &mut self,
        class: Class,
        sql: &str,
        values: &[(Value, Type)],
        failed: Option<(&'static str, Phase)>,
    ) {
        let before_us = now_us();
        let list: Vec<(&(dyn ToSql + Sync), Type)> = values
            .iter()
            .map(|(value, kind)| (value.value.as_ref(), kind.clone()))
            .collect();
        let answer = self.client.query_typed(sql, &list).map(drop);
        failure(answer, failed.map(|(code, _)| code), sql);
        let texts = values.iter().map(|(value, _)| value.text.clone()).collect();
        let how = How::Execute {
            name: None,
            portal: false,
        };
        let sent = self.note(how, class, sql, &[], before_us);
        sent.parameters = texts;
        sent.failed = failed;
    }

    /// Executes a portal in a transaction, with as many fetches as `pages` says.
    pub fn pages(&mut self, prepared: &mut Prepared, values: &[Value], rows: i32, pages: usize) {
        let mut notes: Vec<(How, i64, i64)> = Vec::new();
        let mut before_us = now_us();
        let mut transaction = self.client.transaction().unwrap();
        notes.push((How::Simple, before_us, now_us()));
        before_us = now_us();
        let list: Vec<&(dyn ToSql + Sync)> =
            values.iter().map(|value| value.value.as_ref()).collect();
        let portal = transaction.bind(&prepared.statement, &list).unwrap();
        let name = prepared.number;
        for page in 0..=pages {
            let got = transaction.query_portal(&portal, rows).unwrap();
            assert_eq!(got.len(), rows as usize);
            let how = match page {
                0 => How::Execute {
                    name: Some(name),
                    portal: true,
                },
                _ => How::Fetch { name },
            };
            notes.push((how, before_us, now_us()));
            before_us = now_us();
        }
        drop(portal);
        before_us = now_us();
        transaction.commit().unwrap();
        let last = notes.len();
        notes.push((How::Simple, before_us, now_us()));
        for (index, (how, before_us, after_us)) in notes.into_iter().enumerate() {
            let sent = match how {
                How::Simple => {
                    let sql = if index == last {
                        "COMMIT"
                    } else {
                        "START TRANSACTION"
                    };
                    self.note(How::Simple, Class::All, sql, &[], before_us)
                }
                how => {
                    let (class, sql) = (prepared.class, prepared.sql.clone());
                    let executes = matches!(how, How::Execute { .. });
                    let sent = self.note(how, class, &sql, values, before_us);
                    if executes {
                        sent.prepared_us = Some(prepared.parsed_us);
                        sent.first = !std::mem::replace(&mut prepared.used, true);
                    }
                    sent
                }
            };
            sent.after_us = after_us;
        }
    }

    /// Sends `COPY … FROM STDIN`.
    pub fn copy_in(&mut self, sql: &str, rows: &[u8]) {
        let before_us = now_us();
        let mut writer = self.client.copy_in(sql).unwrap();
        std::io::Write::write_all(&mut writer, rows).unwrap();
        writer.finish().unwrap();
        self.copied(Class::Modification, sql, before_us);
    }

    /// Sends `COPY … TO STDOUT`.
    pub fn copy_out(&mut self, sql: &str) {
        let before_us = now_us();
        let mut rows = Vec::new();
        let mut reader = self.client.copy_out(sql).unwrap();
        std::io::Read::read_to_end(&mut reader, &mut rows).unwrap();
        drop(reader);
        self.copied(Class::All, sql, before_us);
    }

    fn copied(&mut self, class: Class, sql: &str, before_us: i64) {
        self.prepared += 1;
        let how = How::Execute {
            name: Some(self.prepared),
            portal: false,
        };
        let sent = self.note(how, class, sql, &[], before_us);
        (sent.prepared_us, sent.first) = (Some((before_us, sent.after_us)), true);
    }
}
