//! Facts of a server of the user: its identity, and its use by others.

use std::time::Duration;

use connect::Target;
use connect::login::{Dialer, QueryConnection};
use replay::LoginMap;

use crate::failure::Failure;

/// Time limit of the queries of one connection.
const TIME_MAX: Duration = Duration::from_secs(600);
/// Time after which sessions of others are counted again. Sessions of this program may still end.
const END_OF_SESSIONS: Duration = Duration::from_secs(1);

const IDENTITY: &str = "SELECT current_setting('server_version_num'), current_setting('server_version'), \
     to_char(pg_catalog.pg_postmaster_start_time() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US'), \
     current_setting('port'), pg_catalog.host(pg_catalog.inet_server_addr())";

/// Identifier of the running kernel (`random(4)`), on Linux and from version 11 on, for superusers. Containers of one machine share it,
/// except those of LXC and systemd-nspawn. Before version 14, a file of unknown size needs a length.
const BOOT_ID: &str = "SELECT pg_catalog.btrim(pg_catalog.pg_read_file('/proc/sys/kernel/random/boot_id', 0, 64), E'\\n ')";

/// Some providers do not permit it.
const SYSTEM_IDENTIFIER: &str =
    "SELECT system_identifier::text FROM pg_catalog.pg_control_system()";

/// Sessions of other programs, standbys and other receivers, and slots in use. Sessions of the provider's own roles do not
/// count. A role that may not see a session's kind sees its database and role.
const USE: &str = "SELECT (SELECT count(*) FROM pg_catalog.pg_stat_activity a WHERE pid <> pg_catalog.pg_backend_pid() \
       AND datname IS NOT NULL AND usesysid IS NOT NULL \
       AND coalesce(pg_catalog.to_jsonb(a) ->> 'backend_type', 'client backend') = 'client backend' \
       AND coalesce(application_name, '') NOT LIKE 'rehearse%' \
       AND usename NOT IN ('rdsadmin', 'cloudsqladmin', 'azuresu')), \
     (SELECT count(*) FROM pg_catalog.pg_stat_replication), \
     (SELECT count(*) FROM pg_catalog.pg_replication_slots WHERE active)";

/// Rows of the database's tables that were changed, and not by this connection.
const CHANGED_ROWS: &str = "SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::text FROM pg_catalog.pg_stat_user_tables";

/// Opens a connection to the target's database.
///
/// # Errors
/// If the server cannot be reached, or refuses the role or the database.
pub(super) fn open<'d>(
    target: &Target,
    dialer: &'d Dialer,
) -> Result<QueryConnection<'d>, Failure> {
    let login = LoginMap::default().login(target, "", "", "rehearse upgrade");
    let opened = dialer.open_query_connection(&login);
    let mut connection = opened.map_err(|error| {
        Failure::could_not(format!(
            "cannot connect to the database {} of {}: {error}",
            login.database,
            target.address()
        ))
    })?;
    connection.limit(TIME_MAX);
    Ok(connection)
}

/// Rows of text.
pub(super) type Rows = Vec<Vec<Option<String>>>;

/// Returns the rows of a query for this subject.
///
/// # Errors
/// If the server refuses it.
pub(super) fn rows(
    connection: &mut QueryConnection<'_>,
    (subject, address): (&str, &str),
    query: &str,
) -> Result<Rows, Failure> {
    connection.query(query).map_err(|error| {
        Failure::could_not(format!(
            "the server at {address} refuses the query for its {subject}: {error}"
        ))
    })
}

/// Returns the columns of the first row.
pub(super) fn columns(rows: Rows) -> impl Iterator<Item = Option<String>> {
    rows.into_iter().next().unwrap_or_default().into_iter()
}

/// Identity of a running server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ServerIdentity {
    /// Version as a number, such as 150004.
    pub(super) number: u32,
    /// Version as text.
    pub(super) version: String,
    /// Start time, in microseconds as text.
    started: String,
    port: String,
    /// Address that the server accepted the connection on; `None` for a socket file, which is on this machine.
    host: Option<String>,
    /// Identifier of the running kernel, if the role may read it.
    boot_id: Option<String>,
    /// System identifier, if the role may read it. Physical copies have that of the original.
    pub(super) system_identifier: Option<String>,
}

impl ServerIdentity {
    /// Reads the identity.
    ///
    /// # Errors
    /// If the server cannot be reached, or refuses the query.
    pub(super) fn read(target: &Target) -> Result<Self, Failure> {
        let dialer = Dialer::new(target)?;
        let mut connection = open(target, &dialer)?;
        let address = target.address();
        let mut values = columns(rows(&mut connection, ("version", &address), IDENTITY)?);
        let mut next = || values.next().flatten();
        let mut identity = ServerIdentity {
            number: next().and_then(|number| number.parse().ok()).unwrap_or(0),
            version: next().unwrap_or_default(),
            started: next().unwrap_or_default(),
            port: next().unwrap_or_default(),
            host: next(),
            boot_id: None,
            system_identifier: None,
        };
        let boot_id = connection.query(BOOT_ID);
        identity.boot_id = boot_id.ok().and_then(|rows| columns(rows).next()?);
        let identifier = connection.query(SYSTEM_IDENTIFIER);
        identity.system_identifier = identifier.ok().and_then(|rows| columns(rows).next()?);
        Ok(identity)
    }

    /// Returns the major version; for versions before 10, the first number.
    pub(super) fn major(&self) -> u32 {
        self.number / 10_000
    }

    /// Whether both are one server. Two servers do not start in the same microsecond with the same port and identifier.
    pub(super) fn is_same_server(&self, other: &Self) -> bool {
        let may_be_same = match (&self.system_identifier, &other.system_identifier) {
            (Some(one), Some(other)) => one == other,
            _ => true,
        };
        may_be_same && self.started == other.started && self.port == other.port
    }

    /// Compares the machines of both servers. Equal addresses show nothing: containers of two machines have them, and a tunnel ends
    /// on this machine.
    pub(super) fn machines(&self, other: &Self) -> Machines {
        match (&self.boot_id, &other.boot_id) {
            (Some(one), Some(other)) if one == other => Machines::Same,
            (Some(_), Some(_)) => Machines::Different,
            _ => match (&self.host, &other.host) {
                (None, None) => Machines::Same,
                (Some(one), Some(other))
                    if one != other && ![one, other].into_iter().any(|one| is_loopback(one)) =>
                {
                    Machines::Different
                }
                _ => Machines::Unknown,
            },
        }
    }
}

fn is_loopback(address: &str) -> bool {
    let address: Result<std::net::IpAddr, _> = address.parse();
    address.is_ok_and(|address| address.is_loopback())
}

/// Machines of two servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Machines {
    /// It is one machine.
    Same,
    /// They are two.
    Different,
    /// The role may not read what would show it.
    Unknown,
}

/// Use of a server by others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ServerUse {
    sessions: u64,
    receivers: u64,
    active_slots: u64,
}

impl ServerUse {
    /// Reads the number of rows that sessions changed in the tables of the database since its counters began.
    ///
    /// # Errors
    /// If the server cannot be reached, or refuses the query.
    pub(super) fn changed_rows(target: &Target) -> Result<u64, Failure> {
        let dialer = Dialer::new(target)?;
        let mut connection = open(target, &dialer)?;
        let rows = rows(
            &mut connection,
            ("changed rows", &target.address()),
            CHANGED_ROWS,
        )?;
        let number = columns(rows).next().flatten();
        Ok(number.and_then(|number| number.parse().ok()).unwrap_or(0))
    }

    /// Reads the use of a server. Sessions that end within a second do not count.
    ///
    /// # Errors
    /// If the server cannot be reached, or refuses the query.
    pub(super) fn read(target: &Target) -> Result<Self, Failure> {
        let dialer = Dialer::new(target)?;
        let mut connection = open(target, &dialer)?;
        let mut read = || {
            let rows = rows(&mut connection, ("sessions", &target.address()), USE)?;
            let mut values = columns(rows).map(|value| value?.parse::<u64>().ok());
            let mut next = || values.next().flatten().unwrap_or(0);
            Ok(ServerUse {
                sessions: next(),
                receivers: next(),
                active_slots: next(),
            })
        };
        let known: Result<ServerUse, Failure> = read();
        match known {
            Ok(used) if used.sessions > 0 => {
                std::thread::sleep(END_OF_SESSIONS);
                read()
            }
            other => other,
        }
    }

    /// Returns the use in words; `None` if the server is not in use.
    pub(super) fn describe(self) -> Option<String> {
        let count = |number: u64, name: &str| match number {
            0 => None,
            1 => Some(format!("1 {name}")),
            _ => Some(format!("{number} {name}s")),
        };
        let parts = [
            count(self.sessions, "session"),
            count(self.receivers, "replication connection"),
            count(self.active_slots, "active replication slot"),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::super::server_state::{Restoring, ServerState};
    use super::*;

    fn identity(identifier: Option<&str>) -> ServerIdentity {
        ServerIdentity {
            started: "2026-03-01 08:00:00.123456".to_owned(),
            port: "5432".to_owned(),
            system_identifier: identifier.map(str::to_owned),
            ..ServerIdentity::default()
        }
    }

    #[test]
    fn server_under_two_addresses_is_the_same_and_a_restarted_copy_is_not() {
        let by_socket = identity(Some("7"));
        let by_network = ServerIdentity {
            host: Some("10.0.0.5".to_owned()),
            ..identity(None)
        };
        assert!(by_socket.is_same_server(&by_network));
        let copy = ServerIdentity {
            started: "2026-03-01 08:00:01.000000".to_owned(),
            ..identity(Some("7"))
        };
        assert!(!by_socket.is_same_server(&copy));
        assert!(!by_socket.is_same_server(&identity(Some("8"))));
    }

    #[test]
    fn machines_are_told_apart_by_their_kernels_and_not_by_addresses() {
        let server = |boot_id: Option<&str>, host: Option<&str>| ServerIdentity {
            boot_id: boot_id.map(str::to_owned),
            host: host.map(str::to_owned),
            ..identity(None)
        };
        for (one, other, machines) in [
            (
                (Some("a"), None),
                (Some("a"), Some("10.0.0.5")),
                Machines::Same,
            ),
            // The socket file of one of them may be forwarded.
            ((Some("a"), None), (Some("b"), None), Machines::Different),
            ((None, None), (None, None), Machines::Same),
            (
                (None, Some("10.0.0.5")),
                (None, Some("10.0.0.6")),
                Machines::Different,
            ),
            (
                (None, Some("172.17.0.2")),
                (None, Some("172.17.0.2")),
                Machines::Unknown,
            ),
            (
                (None, Some("127.0.0.1")),
                (None, Some("10.0.0.6")),
                Machines::Unknown,
            ),
            (
                (Some("a"), None),
                (None, Some("10.0.0.6")),
                Machines::Unknown,
            ),
        ] {
            let (one, other) = (server(one.0, one.1), server(other.0, other.1));
            assert_eq!(one.machines(&other), machines, "{one:?} {other:?}");
        }
    }

    #[test]
    fn server_in_use_is_described_and_an_idle_one_is_not() {
        assert_eq!(ServerUse::default().describe(), None);
        let used = ServerUse {
            sessions: 2,
            receivers: 1,
            active_slots: 0,
        };
        assert_eq!(
            used.describe().unwrap(),
            "2 sessions, 1 replication connection"
        );
    }

    #[test]
    fn server_reports_one_identity_its_sessions_and_what_analyze_changes() {
        let (_sandbox, endpoint) = test_support::server().start();
        let url = endpoint.url("postgres");
        let target = Target::parse(&url, |_| None).unwrap();
        let alias = Target::parse(&url.replace("%2Fsocket", "%2F%2Fsocket"), |_| None).unwrap();
        let known = ServerIdentity::read(&target).unwrap();
        assert_ne!(alias.address(), target.address());
        assert!(known.is_same_server(&ServerIdentity::read(&alias).unwrap()));
        assert!(known.major() >= 10 && known.system_identifier.is_some());
        assert!(known.host.is_none() && known.boot_id.as_ref().is_some_and(|id| id.len() == 36));
        assert_eq!(ServerUse::read(&target).unwrap().describe(), None);
        let login = LoginMap::default().login(&target, "", "", "shop");
        let dialer = Dialer::new(&target).unwrap();
        let mut session = dialer.open_query_connection(&login).unwrap();
        assert_eq!(ServerUse::read(&target).unwrap().sessions, 1);
        let mut execute = |sql: &str| session.query(sql).unwrap();
        execute("CREATE TABLE items AS SELECT 1 AS id");
        let before = ServerState::read(&target, Restoring::Nothing).unwrap();
        execute("INSERT INTO items SELECT generate_series(1, 200000)");
        let after = ServerState::read(&target, Restoring::Nothing).unwrap();
        assert_eq!(after.differences(&before), [""; 0]);
        execute("ANALYZE items");
        execute("ALTER DATABASE postgres SET work_mem = '5MB'");
        let after = ServerState::read(&target, Restoring::Nothing).unwrap();
        assert_eq!(
            after.differences(&before),
            [
                "settings: settings of all roles in the database postgres, work_mem",
                "presence of statistics: public.items"
            ]
        );
    }
}
