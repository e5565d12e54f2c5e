//! Connections to real servers: TLS with valid and invalid certificates, every authentication method,
//! several hosts, roles, and a replay over such connections.

mod certificates;
mod sslmode;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use certificates::{Authority, Validity};
use clock::{Clock, Speed, SystemClock};
use postgres::{Client, NoTls};
use replay::{LoginMap, Observer, Options, ReplayError, Snapshot, Target, check_target};
use run::{Execution, Outcome, RunReader};
use sandbox::{Endpoint, Sandbox};
use workload::{
    Event, EventKind, NoRedaction, Provenance, Session, WorkloadReader, WorkloadWriter,
    WriterOptions,
};

/// Newest supported server, with direct TLS negotiation, and an old one that reports few parameters.
const NEW: u16 = 18;
const OLD: u16 = 13;

/// Rules of `pg_hba.conf`. The superuser connects over the Unix socket, or without TLS.
const HBA: &str = "\
local all all trust
hostssl all with_certificate 127.0.0.1/32 cert
hostssl all with_tls 127.0.0.1/32 trust
hostnossl all without_tls 127.0.0.1/32 trust
host all with_scram 127.0.0.1/32 scram-sha-256
host all with_md5 127.0.0.1/32 md5
host all with_password 127.0.0.1/32 password
host all postgres 127.0.0.1/32 trust
host all gate 127.0.0.1/32 trust
";

const ROLES: &str = "
    SET password_encryption = 'scram-sha-256';
    CREATE ROLE with_scram LOGIN PASSWORD 'of scram';
    CREATE ROLE with_password LOGIN PASSWORD 'of password';
    SET password_encryption = 'md5';
    CREATE ROLE with_md5 LOGIN PASSWORD 'of md5';
    CREATE ROLE with_certificate LOGIN;
    CREATE ROLE with_tls LOGIN;
    CREATE ROLE without_tls LOGIN;
    CREATE ROLE gate LOGIN;
    CREATE ROLE \"an \"\"odd\"\" role\" NOLOGIN;
    CREATE ROLE foreigner NOLOGIN;
    GRANT \"an \"\"odd\"\" role\" TO gate;
";

/// A server with TLS, and the files around it.
struct Server {
    sandbox: Sandbox,
    endpoint: Endpoint,
    files: tempfile::TempDir,
}

impl Server {
    fn start(major: u16) -> Self {
        let mut sandbox = test_support::server().major(major).tcp().create();
        let files = tempfile::tempdir().unwrap();
        for (name, authority) in certificates::all() {
            fs::write(files.path().join(name), authority.pem()).unwrap();
        }
        let roots: Vec<String> = [certificates::first(), certificates::second()]
            .map(Authority::pem)
            .into();
        fs::write(files.path().join("roots.crt"), roots.concat()).unwrap();
        let client = certificates::first().issue(&[], "with_certificate", Validity::Now);
        private(&files.path().join("client.crt"), &client.chain);
        private(&files.path().join("client.key"), &client.key);
        let stranger = certificates::unknown().issue(&[], "with_certificate", Validity::Now);
        private(&files.path().join("stranger.crt"), &stranger.chain);
        private(&files.path().join("stranger.key"), &stranger.key);
        private(
            &files.path().join("list.crl"),
            &certificates::first().revoking(66),
        );

        let data = sandbox.data_dir().to_owned();
        fs::write(data.join("pg_hba.conf"), HBA).unwrap();
        of_server(&data, "root.crt", &roots.concat());
        sandbox
            .set(vec![
                ("ssl".to_owned(), "on".to_owned()),
                ("ssl_ca_file".to_owned(), "root.crt".to_owned()),
            ])
            .unwrap();
        let good = certificates::first().issue(&["localhost", "127.0.0.1"], "x", Validity::Now);
        of_server(&data, "server.crt", &good.chain);
        of_server(&data, "server.key", &good.key);
        let endpoint = sandbox.start().unwrap();
        let server = Server {
            sandbox,
            endpoint,
            files,
        };
        server.admin().batch_execute(ROLES).unwrap();
        server
    }

    fn admin(&self) -> Client {
        Client::connect(&self.endpoint.socket_url("postgres").unwrap(), NoTls).unwrap()
    }

    /// Gives the server another certificate.
    fn present(&mut self, certificate: &certificates::Issued) {
        let data = self.sandbox.data_dir().to_owned();
        of_server(&data, "server.crt", &certificate.chain);
        of_server(&data, "server.key", &certificate.key);
        self.endpoint = self.sandbox.restart().unwrap();
    }

    fn file(&self, name: &str) -> String {
        self.files.path().join(name).display().to_string()
    }

    /// The pairs of a target; `{dir}` in them stands for the files' directory.
    fn given(&self, further: &str) -> String {
        format!(
            "host=localhost hostaddr=127.0.0.1 port={} dbname=postgres connect_timeout=20 {}",
            self.endpoint.port,
            further.replace("{dir}", &self.files.path().display().to_string())
        )
    }

    /// Logs in as a role; what the target says if it cannot.
    fn login(&self, user: &str, further: &str) -> Result<(), String> {
        let given = self.given(further);
        login(&given, user, &LoginMap::default()).map(|_| ())
    }

    #[track_caller]
    fn takes(&self, user: &str, further: &str) {
        if let Err(error) = self.login(user, further) {
            panic!("{user} with '{further}' is refused: {error}");
        }
    }

    #[track_caller]
    fn refuses(&self, user: &str, further: &str, says: &str) {
        match self.login(user, further) {
            Ok(()) => panic!("{user} with '{further}' is taken, but should not: {says}"),
            Err(error) => assert!(error.contains(says), "{user} with '{further}': {error}"),
        }
    }
}

/// Returns where it was.
fn login(given: &str, user: &str, logins: &LoginMap) -> Result<String, String> {
    let target = Target::parse(given, |_| None).map_err(|error| error.to_string())?;
    let script = Script::new(user, "");
    let info = check_target(&script.workload(), &target, logins);
    info.map(|info| info.address)
        .map_err(|error| error.to_string())
}

fn private(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// A file that the server's own user owns.
fn of_server(data: &Path, name: &str, text: &str) {
    let owner = fs::metadata(data).unwrap();
    let path = data.join(name);
    private(&path, text);
    chown(&path, Some(owner.uid()), Some(owner.gid())).unwrap();
}

fn server(major: u16) -> MutexGuard<'static, Server> {
    static NEW_ONE: OnceLock<Mutex<Server>> = OnceLock::new();
    static OLD_ONE: OnceLock<Mutex<Server>> = OnceLock::new();
    let place = if major == NEW { &NEW_ONE } else { &OLD_ONE };
    let server = place.get_or_init(|| Mutex::new(Server::start(major)));
    // A test that failed has changed nothing that another relies on.
    server
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[test]
fn client_certificates_are_sent() {
    let server = server(NEW);
    let with = |name: &str| {
        format!("sslmode=require sslcert={{dir}}/{name}.crt sslkey={{dir}}/{name}.key")
    };
    server.takes("with_certificate", &with("client"));
    // Only without TLS 1.3 is it the handshake that fails.
    server.takes(
        "with_certificate",
        &format!("{} ssl_max_protocol_version=TLSv1.2", with("client")),
    );
    server.refuses(
        "with_certificate",
        "sslmode=require",
        "valid client certificate",
    );
    let early = format!("{} ssl_max_protocol_version=TLSv1.2", with("stranger"));
    server.refuses("with_certificate", &early, "alert");
    // With 1.3 the alert may be lost in the connection's end.
    server.refuses("with_certificate", &with("stranger"), "cannot connect");
    server.refuses("with_scram", &with("client"), "password");
    let swapped = "sslmode=require sslcert={dir}/client.crt sslkey={dir}/stranger.key";
    server.refuses("with_certificate", swapped, "does not go with the key");
    let missing = "sslmode=require sslcert={dir}/client.crt sslkey={dir}/none.key";
    server.refuses("with_certificate", missing, "none.key");
    let open = server.files.path().join("open.key");
    fs::copy(server.file("client.key"), &open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
    let given = "sslmode=require sslcert={dir}/client.crt sslkey={dir}/open.key";
    server.refuses("with_certificate", given, "chmod 600");
}

#[test]
fn passwords_work_with_every_method_and_channel_binding() {
    for major in [NEW, OLD] {
        let server = server(major);
        for (user, password) in [
            ("with_scram", "of scram"),
            ("with_md5", "of md5"),
            ("with_password", "of password"),
        ] {
            for mode in ["disable", "require"] {
                let right = format!("sslmode={mode} password='{password}'");
                server.takes(user, &right);
                let wrong = format!("sslmode={mode} password=wrong");
                server.refuses(user, &wrong, "password authentication failed");
                server.refuses(user, &format!("sslmode={mode}"), "none was given");
            }
        }
        let scram = |further: &str| format!("password='of scram' {further}");
        for binding in ["disable", "prefer", "require"] {
            server.takes(
                "with_scram",
                &scram(&format!("sslmode=require channel_binding={binding}")),
            );
        }
        let given = scram("sslmode=disable channel_binding=require");
        server.refuses("with_scram", &given, "no TLS");
        for (user, password) in [("with_md5", "of md5"), ("with_password", "of password")] {
            let given = format!("sslmode=require channel_binding=require password='{password}'");
            server.refuses(user, &given, "channel_binding=require");
        }
        server.refuses(
            "with_tls",
            "sslmode=require channel_binding=require",
            "none",
        );
        server.takes("with_scram", &scram("require_auth=scram-sha-256"));
        server.refuses(
            "with_scram",
            &scram("require_auth=!scram-sha-256"),
            "require_auth",
        );
        let cleartext = "password='of password' require_auth=md5,scram-sha-256";
        server.refuses("with_password", cleartext, "require_auth");
        server.refuses("with_tls", "sslmode=require require_auth=md5", "none");
    }
}

#[test]
fn tls_is_negotiated_directly_if_the_server_supports_it() {
    let direct = "sslmode=require sslnegotiation=direct";
    server(NEW).takes("with_tls", direct);
    server(OLD).refuses("with_tls", direct, "from version 17 on");
    server(OLD).takes("with_tls", "sslmode=require");
}

#[test]
fn connection_uses_the_first_matching_host() {
    let (new, old) = (server(NEW), server(OLD));
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let down = nobody.local_addr().unwrap().port();
    drop(nobody);
    let port = new.endpoint.port;
    let given =
        |further: &str| format!("postgres://127.0.0.1:{down},127.0.0.1:{port}/postgres{further}");
    let at = |given: &str| login(given, "postgres", &LoginMap::default());
    assert_eq!(at(&given("")).unwrap(), format!("127.0.0.1:{port}"));
    assert_eq!(
        at(&given("?load_balance_hosts=random")).unwrap(),
        format!("127.0.0.1:{port}")
    );
    let error = at(&given("?target_session_attrs=standby")).unwrap_err();
    assert!(
        error.contains("nothing listens") && error.contains("is no standby"),
        "{error}"
    );

    let old_port = old.endpoint.port;
    let both = |further: &str| {
        at(&format!(
            "postgres://127.0.0.1:{old_port},127.0.0.1:{port}/postgres?{further}"
        ))
    };
    let first = format!("127.0.0.1:{old_port}");
    for attributes in ["any", "read-write", "primary", "prefer-standby"] {
        assert_eq!(
            both(&format!("target_session_attrs={attributes}")),
            Ok(first.clone())
        );
    }
    for attributes in ["standby", "read-only"] {
        let error = both(&format!("target_session_attrs={attributes}")).unwrap_err();
        assert!(error.contains(&old_port.to_string()), "{error}");
        assert!(error.contains(&format!(":{port} ")), "{error}");
    }
    let read_only = "options=-c%20default_transaction_read_only%3Don&target_session_attrs=";
    assert_eq!(both(&format!("{read_only}read-only")), Ok(first));
    assert!(
        both(&format!("{read_only}read-write"))
            .unwrap_err()
            .contains("no writes")
    );
    // A login that is refused is not tried elsewhere.
    let given = format!("postgres://127.0.0.1:{old_port},127.0.0.1:{port}/?sslmode=disable");
    let error = login(&given, "nobody", &LoginMap::default()).unwrap_err();
    assert_eq!(error.matches("pg_hba.conf").count(), 1, "{error}");

    let services = new.files.path().join("services.conf");
    fs::write(
        &services,
        format!("[copy]\nhost=127.0.0.1\nport={port}\ndbname=postgres\n"),
    )
    .unwrap();
    let environment = |name: &str| match name {
        "PGSERVICEFILE" => Some(services.display().to_string()),
        _ => None,
    };
    let target = Target::parse("service=copy", environment).unwrap();
    let script = Script::new("postgres", "");
    let info = check_target(&script.workload(), &target, &LoginMap::default()).unwrap();
    assert_eq!(info.address, format!("127.0.0.1:{port}"));
}

#[test]
fn a_unix_socket_takes_no_tls_and_may_be_abstract() {
    let server = server(NEW);
    let directory = server.endpoint.socket_dir.clone().unwrap();
    let given = format!(
        "host={} port={} sslmode=verify-full sslrootcert={}",
        directory.display(),
        server.endpoint.port,
        server.file("roots.crt")
    );
    login(&given, "postgres", &LoginMap::default()).unwrap();
    let error = login("host=@nobody-is-here", "postgres", &LoginMap::default()).unwrap_err();
    assert!(
        error.contains("@nobody-is-here/.s.PGSQL.5432: nothing listens"),
        "{error}"
    );
}

#[test]
fn one_login_becomes_every_role() {
    let server = server(NEW);
    let logins = LoginMap {
        set_role: true,
        ..LoginMap::default()
    };
    let given = server.given("user=gate");
    login(&given, "an \"odd\" role", &logins).unwrap();
    let error = login(&given, "foreigner", &logins).unwrap_err();
    assert!(
        error.contains("foreigner") && error.contains("GRANT"),
        "{error}"
    );

    let mut script = Script::new("an \"odd\" role", "role");
    script.simple("SELECT 1 / (current_user = 'an \"odd\" role' AND session_user = 'gate')::int");
    let options = Options {
        logins,
        ..full_speed()
    };
    let executions = script.replay(&given, &options).unwrap();
    assert!(
        executions.iter().all(|row| row.outcome == Outcome::Done),
        "{executions:?}"
    );
}

#[test]
fn many_users_with_a_password_each() {
    let server = server(NEW);
    let path = server.files.path().join("passwords");
    private(
        &path,
        "*:*:*:with_scram:of scram\n*:*:*:with_md5:of md5\n*:*:*:with_password:of password\n",
    );
    let given = server.given(&format!("passfile={}", path.display()));
    let target = Target::parse(&given, |_| None).unwrap();
    for user in ["with_scram", "with_md5", "with_password"] {
        let script = Script::new(user, "");
        check_target(&script.workload(), &target, &LoginMap::default()).unwrap();
    }
}

#[test]
fn a_replay_over_tls_sends_and_reads_all() {
    let server = server(NEW);
    server
        .admin()
        .batch_execute("CREATE TABLE IF NOT EXISTS big (t text); GRANT ALL ON big TO with_tls")
        .unwrap();
    let mut script = Script::new("with_tls", "tls");
    let parameter = "p".repeat(6_000_000);
    for session in 1..=4 {
        script.session = session;
        script.execute("INSERT INTO big VALUES ($1)", &[&parameter]);
        script.simple("SELECT 1 / (ssl)::int FROM pg_stat_ssl WHERE pid = pg_backend_pid()");
        for number in 0..60 {
            script.execute(
                "SELECT repeat('x', $1::int)",
                &[&(number * 700).to_string()],
            );
        }
        script.simple("SELECT repeat('y', 3000000) FROM generate_series(1, 10)");
        script.simple("SELECT length(t), 1 / (length(t) = 6000000)::int FROM big LIMIT 1");
        script.simple("SELECT frobnicate");
    }
    for negotiation in ["postgres", "direct"] {
        let given = server.given(&format!("sslmode=require sslnegotiation={negotiation}"));
        let executions = script.replay(&given, &full_speed()).unwrap();
        let failed: Vec<&Execution> = executions
            .iter()
            .filter(|row| row.outcome != Outcome::Done)
            .collect();
        assert_eq!(failed.len(), 4, "{failed:?}");
        assert!(
            failed
                .iter()
                .all(|row| row.message.as_ref().unwrap().contains("frobnicate"))
        );
        let large: Vec<u64> = executions
            .iter()
            .filter(|row| row.rows == 10)
            .map(|row| row.bytes)
            .collect();
        assert_eq!(large.len(), 4);
        assert!(large.iter().all(|&bytes| bytes > 30_000_000), "{large:?}");
    }
}

fn full_speed() -> Options {
    Options {
        speed: Speed::Max,
        ..Options::default()
    }
}

/// Sessions of one user, one statement after the other.
struct Script {
    directory: tempfile::TempDir,
    user: String,
    events: Vec<Event>,
    session: u64,
}

impl Script {
    fn new(user: &str, application: &str) -> Self {
        let mut script = Script {
            directory: tempfile::tempdir().unwrap(),
            user: user.to_owned(),
            events: Vec::new(),
            session: 1,
        };
        if application.is_empty() {
            script.connect();
        }
        script
    }

    fn connect(&mut self) {
        let (database, user) = ("postgres".into(), self.user.as_str().into());
        self.push(EventKind::Connect {
            database,
            user,
            application: "test".into(),
        });
    }

    fn push(&mut self, kind: EventKind) {
        let mine = self
            .events
            .iter()
            .filter(|event| event.session == self.session);
        let sequence = mine.count() as u64;
        self.events.push(Event {
            session: self.session,
            sequence,
            due_us: 1_700_000_000_000_000 + self.events.len() as i64 * 1_000,
            kind,
            outcome: workload::Outcome::default(),
            unreplayable: None,
            source: 0,
            line: 0,
            prelude: false,
            wire_details: None,
        });
    }

    fn statement(&mut self, kind: EventKind) {
        if !self
            .events
            .iter()
            .any(|event| event.session == self.session)
        {
            self.connect();
        }
        self.push(kind);
    }

    fn simple(&mut self, sql: &str) {
        self.statement(EventKind::Simple { sql: sql.into() });
    }

    fn execute(&mut self, sql: &str, values: &[&str]) {
        self.statement(EventKind::Execute {
            statement: "".into(),
            portal: "".into(),
            sql: sql.into(),
            parameters: values.iter().map(|value| Some((*value).into())).collect(),
        });
    }

    fn workload(&self) -> WorkloadReader {
        let directory = tempfile::tempdir_in(self.directory.path()).unwrap().keep();
        let path = directory.join("script.workload");
        let mut writer =
            WorkloadWriter::create(&path, WriterOptions::default(), NoRedaction).unwrap();
        for event in &self.events {
            writer.event(&event.borrowed()).unwrap();
        }
        for event in &self.events {
            if let EventKind::Connect { database, user, .. } = &event.kind {
                let session = Session {
                    id: event.session,
                    database: database.clone(),
                    user: user.clone(),
                    application: "".into(),
                    client: "".into(),
                    start_us: event.due_us,
                    end_us: self.events.last().unwrap().due_us,
                    start_seen: true,
                    end_seen: true,
                    statements: 0,
                };
                writer.session(session).unwrap();
            }
        }
        writer.finish(Provenance::default()).unwrap();
        WorkloadReader::open(&path).unwrap()
    }

    fn replay(&self, given: &str, options: &Options) -> Result<Vec<Execution>, ReplayError> {
        let reader = self.workload();
        let target = Target::parse(given, |_| None).unwrap();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
        let info = check_target(&reader, &target, &options.logins)?;
        let path: PathBuf = reader.path().with_extension("run");
        replay::replay(
            &reader,
            &target,
            info,
            options,
            &path,
            &clock,
            &mut Unwatched,
        )?;
        let reader = RunReader::open(&path).unwrap();
        let executions = reader.executions().unwrap();
        Ok(executions.collect::<Result<_, _>>().unwrap())
    }
}

struct Unwatched;
impl Observer for Unwatched {
    fn on_progress(&mut self, _: &Snapshot) {}
    fn should_stop(&mut self) -> bool {
        false
    }
}
