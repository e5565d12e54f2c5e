//! A transaction that exports its snapshot, and stays open so that it can be imported.

use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use connect::Target;
use connect::login::{Dialer, Login, LoginError, QueryConnection};

/// A read-only transaction has no limit that would end it early.
const BEGIN_SQL: [&str; 3] = [
    "SET idle_in_transaction_session_timeout = 0",
    "BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
    "SELECT pg_export_snapshot()",
];

/// Holds an exported snapshot until its time is over or it is dropped. While it is held, vacuum keeps dead rows.
pub struct SnapshotHold {
    /// Its end tells the thread that holds the transaction.
    _end: Sender<()>,
}

impl SnapshotHold {
    /// Exports a snapshot, in a thread of its own. Returns its identifier.
    pub(super) fn begin(
        target: Target,
        login: Login,
        time: Duration,
    ) -> Result<(Self, String), String> {
        let (end, ended) = channel();
        let (tell, told) = channel();
        std::thread::spawn(move || {
            let opened = Dialer::new(&target).map_err(|error| error.to_string());
            let dialer = match opened {
                Ok(dialer) => dialer,
                Err(error) => return drop(tell.send(Err(error))),
            };
            match export(&dialer, &login) {
                Ok((_transaction, id)) => {
                    let _ = tell.send(Ok(id));
                    let _: Result<(), _> = ended.recv_timeout(time);
                }
                Err(error) => drop(tell.send(Err(error.to_string()))),
            }
        });
        let id = told.recv().map_err(|error| error.to_string())??;
        Ok((SnapshotHold { _end: end }, id))
    }
}

fn export<'d>(
    dialer: &'d Dialer,
    login: &Login,
) -> Result<(QueryConnection<'d>, String), LoginError> {
    let mut questions = dialer.open_query_connection(login)?;
    let mut rows = Vec::new();
    for sql in BEGIN_SQL {
        rows = questions.query(sql)?;
    }
    let id = rows.pop().and_then(|mut row| row.pop().flatten());
    Ok((questions, id.unwrap_or_default()))
}
