//! Connection strings, and what completes them.

use super::*;

fn host(target: &Target) -> Host {
    target.servers[0].host.clone().unwrap()
}

fn target(given: &str) -> Result<Target, TargetError> {
    Target::parse(given, |_| None)
}

#[test]
fn value_of_a_pair_may_contain_an_address() {
    let target = target("host=h password='a://b' dbname=shop").unwrap();
    assert_eq!(target.database.as_deref(), Some("shop"));
}

#[test]
fn urls_and_pairs_say_the_same() {
    let url = target("postgres://app:s%40cret@db.example:6543/shop?connect_timeout=3").unwrap();
    let pairs = target(
        "host=db.example port=6543 user=app password='s@cret' dbname=shop connect_timeout = 3",
    )
    .unwrap();
    assert_eq!(url, pairs);
    assert_eq!(url.password.as_deref(), Some("s@cret"));
    assert_eq!(url.address(), "db.example:6543");
    assert_eq!(url.connect_timeout, Duration::from_secs(3));
}

#[test]
fn sockets_and_addresses() {
    let socket = target("postgresql:///shop?host=/var/run/postgresql").unwrap();
    assert_eq!(host(&socket), Host::Unix("/var/run/postgresql".into()));
    assert_eq!(socket.address(), "/var/run/postgresql/.s.PGSQL.5432");
    assert_eq!(
        host(&target("postgres://%2Ftmp%2Fpg:5433/x").unwrap()),
        Host::Unix("/tmp/pg".into())
    );
    let v6 = target("postgres://[::1]:5433/x").unwrap();
    assert_eq!(
        (host(&v6), v6.servers[0].port),
        (Host::Tcp("::1".into()), 5433)
    );
    assert_eq!(v6.address(), "[::1]:5433");
}

#[test]
fn the_environment_fills_in() {
    let environment = |name: &str| match name {
        "PGHOST" => Some("db".to_owned()),
        "PGUSER" => Some("me".to_owned()),
        "PGPASSWORD" => Some("secret".to_owned()),
        _ => None,
    };
    let target = Target::parse("postgres://", environment).unwrap();
    assert_eq!(target.address(), "db:5432");
    assert_eq!(target.user.as_deref(), Some("me"));
    assert!(!format!("{target:?}").contains("secret"));
    let named = Target::parse("postgres://you@other/x", environment).unwrap();
    assert_eq!(
        (named.user.as_deref(), named.address().as_str()),
        (Some("you"), "other:5432")
    );
}

#[test]
fn unsupported_parameter_is_refused_without_showing_a_password() {
    for (given, says) in [
        ("mysql://x", "not a target"),
        ("localhost", "not a target"),
        ("postgres://u:secret@h:99999/x", "no port"),
        // Scheme forgotten or misspelt.
        ("u:secret@127.0.0.1:5432/db", "not a target"),
        ("u:secret", "not a target"),
        ("postgres:u:secret@h/db", "not a target"),
        ("postgres:/u:secret@h/db", "not a target"),
        ("postgres//u:secret@h/db", "not a target"),
        ("//u:secret@h/db", "not a target"),
        ("mysql://u:secret@h/db", "not postgres"),
        (
            "jdbc:postgresql://h/db?user=u&password=secret",
            "not postgres",
        ),
        // Special characters in the password, and parts forgotten.
        ("postgres://u:secret", "a port is not a number"),
        ("postgres://u:secret/db", "a port is not a number"),
        ("postgres://u:secret:5432/db", "a port is not a number"),
        ("postgres://u:se/secret@h/db", "%2F"),
        ("postgres://u:1/secret@h/db", "%2F"),
        ("postgres://u:1?secret@h/db", "%3F"),
        ("postgres://u:1?secret=x@h/db", "%3F"),
        ("postgres://u:a@b?secret=x@h/db", "%3F"),
        ("postgres://u:a@b?secret@h/db", "lacks its '='"),
        ("postgres://u:a#secret@h:x/db", "not a number"),
        ("postgres://u:secret@[::1/db", "']'"),
        // Pairs.
        ("host=h password=my secret", "lacks its '='"),
        ("host=h passwd=secret", "passwd"),
        ("host=h PASSWORD = 'secret", "quote"),
        ("host=h pwd='x secret", "quote"),
        ("host=h:secret@x y", "lacks its '='"),
        ("postgres://u:secret@h:0/x", "no port"),
        ("postgres://u:sec%zzret@h/x", "percent"),
        ("postgres://u@h/x?sslmode=verify-most", "verify-full"),
        (
            "postgres://u@h1:1,h2:2,h3/x?hostaddr=::1",
            "1 addresses for 3",
        ),
        ("host=a,b port=1,2,3", "3 ports for 2"),
        ("hostaddr=localhost", "no address"),
        ("postgres://u@h/x?frobnicate=1", "frobnicate"),
        ("host=h password='secret", "quote"),
        ("host=h port", "lacks its '='"),
    ] {
        let error = target(given).unwrap_err().to_string();
        assert!(error.contains(says), "{given}: {error}");
        assert!(!error.contains("secret"), "{given}: {error}");
    }
}

#[test]
fn several_hosts_each_with_its_port() {
    let both = |given: &str| target(given).unwrap().address();
    assert_eq!(both("postgres://a:1,b:2,[::1]:3/x"), "a:1, b:2, [::1]:3");
    assert_eq!(both("postgres://a,b:2/x"), "a:5432, b:2");
    assert_eq!(
        both("host=a,/tmp,@pg port=7"),
        "a:7, /tmp/.s.PGSQL.7, @pg/.s.PGSQL.7"
    );
    let addressed = target("host=db.example hostaddr=10.0.0.1,::1 port=1,2");
    assert!(addressed.unwrap_err().to_string().contains("1 hosts for 2"));
    let addressed = target("hostaddr=10.0.0.1,::1 port=1,2").unwrap();
    assert_eq!(addressed.address(), "10.0.0.1:1, [::1]:2");
    assert_eq!(addressed.servers[0].host, None);
}

#[test]
fn every_parameter_is_taken_or_refused_by_name() {
    let taken = target(
        "host=h sslmode=verify-full sslnegotiation=direct sslrootcert=/r sslcert=/c sslkey=/k \
         sslcrl=/l sslsni=0 ssl_min_protocol_version=TLSv1.3 channel_binding=require \
         require_auth=scram-sha-256 target_session_attrs=read-write load_balance_hosts=random \
         keepalives=0 keepalives_idle=5 tcp_user_timeout=100 options='-c geqo=off' \
         application_name=a client_encoding=LATIN1 gssencmode=disable connect_timeout=0",
    )
    .unwrap();
    let security = &taken.security;
    assert_eq!(
        (security.mode, security.direct),
        (SslMode::VerifyFull, true)
    );
    assert_eq!(security.roots, TrustedRoots::File("/r".into()));
    assert_eq!(security.certificate, Some(("/c".into(), "/k".into())));
    assert_eq!(security.revoked, Some("/l".into()));
    assert!(!security.tell_name);
    assert_eq!(security.versions, TlsVersions::Tls13);
    assert_eq!(security.binding, ChannelBindingMode::Require);
    assert_eq!(security.methods, Some(vec![AuthMethod::Scram]));
    assert_eq!(taken.session, SessionAttributes::ReadWrite);
    assert!(taken.in_random_order && !taken.keep_alive.on);
    assert_eq!(taken.keep_alive.idle_s, Some(5));
    assert_eq!(taken.keep_alive.user_timeout_ms, Some(100));
    assert_eq!(taken.options.as_deref(), Some("-c geqo=off"));
    assert_eq!(taken.encoding.as_deref(), Some("LATIN1"));
    for (given, says) in [
        ("host=h sslpassword=geheim", "openssl pkey"),
        ("host=h gssencmode=require", "GSSAPI"),
        ("host=h krbsrvname=x", "GSSAPI"),
        ("host=h requirepeer=postgres", "socket directory"),
        ("host=h replication=database", "not replayed"),
        ("host=h sslcrldir=/x", "sslcrl"),
        ("host=h sslcertmode=require", "leave it out"),
        ("host=h scram_client_key=x", "the password"),
        ("host=h oauth_issuer=x", "OAuth"),
        ("host=h max_protocol_version=3.2", "3.0"),
        ("host=h ssl_max_protocol_version=TLSv1.1", "TLSv1.2"),
        ("host=h sslnegotiation=direct", "sslmode=require"),
        ("host=h sslrootcert=system sslmode=require", "verify-full"),
        ("host=h require_auth=md5,!none", "require_auth"),
        ("host=h keepalives=yes", "whole number"),
        ("host=h target_session_attrs=master", "prefer-standby"),
        ("host=h dbnam=x", "dbname, user"),
    ] {
        let error = target(given).unwrap_err().to_string();
        assert!(error.contains(says), "{given}: {error}");
        assert!(!error.contains("geheim"), "{given}: {error}");
    }
    let system = target("host=h sslrootcert=system").unwrap();
    assert_eq!(system.security.mode, SslMode::VerifyFull);
    let negated = target("host=h require_auth=!password,!md5").unwrap();
    assert_eq!(
        negated.security.methods,
        Some(vec![AuthMethod::Scram, AuthMethod::None])
    );
}

#[test]
fn the_string_is_stronger_than_its_service_and_that_than_the_environment() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("services");
    std::fs::write(&file, "[s]\nhost=service\nport=1\nsslmode=require\n").unwrap();
    let environment = |name: &str| match name {
        "PGSERVICEFILE" => Some(file.display().to_string()),
        "PGPORT" => Some("2".to_owned()),
        "PGUSER" => Some("me".to_owned()),
        "PGSSLMODE" => Some("disable".to_owned()),
        _ => None,
    };
    let target = Target::parse("service=s sslmode=allow", environment).unwrap();
    assert_eq!(target.address(), "service:1");
    assert_eq!(target.user.as_deref(), Some("me"));
    assert_eq!(target.security.mode, SslMode::Allow);
    let refused = |name: &'static str, value: &'static str| {
        let environment = move |asked: &str| (asked == name).then(|| value.to_owned());
        Target::parse("host=h", environment)
            .unwrap_err()
            .to_string()
    };
    assert!(refused("PGKRBSRVNAME", "x").contains("PGKRBSRVNAME"));
    assert!(refused("PGTZ", "UTC").contains("TimeZone"));
    assert!(refused("PGSERVICE", "s").contains("service file"));
}

#[test]
fn target_password_file_has_a_password_for_each_role_and_host() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("passwords");
    let given = format!("host=db,/tmp passfile={}", path.display());
    let target = target(&given).unwrap();
    std::fs::write(&path, "db:5432:*:app:one\n/tmp:*:*:app:two\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let open = target.password_file.check().unwrap_err().to_string();
    assert!(open.contains("others than its owner"), "{open}");
    assert_eq!(target.password_for(&target.servers[0], "app", "x"), None);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let password = |place: usize, user| target.password_for(&target.servers[place], user, "x");
    assert_eq!(password(0, "app").as_deref(), Some("one"));
    assert_eq!(password(1, "app").as_deref(), Some("two"));
    assert_eq!(password(0, "other"), None);
}

#[test]
fn password_that_became_part_of_another_value_is_refused_and_not_shown() {
    for given in [
        r"host=/x\ password=S3cret",
        "host='/x password=S3cret'",
        r"user=a\ password=S3cret",
        r"dbname=d\ password\ =\ S3cret",
        r"host=h application_name=a\ sslpassword=S3cret",
        r"passfile=/x\ password=S3cret",
        "postgres://h%20password=S3cret/d",
        "postgres://h?host=/x%20password=S3cret",
        "host=h;password=S3cret",
        "host=h,password=S3cret",
        "dbname=postgres://u:S3cret@h/d",
    ] {
        let error = Target::parse(given, |_| None).unwrap_err().to_string();
        assert!(!error.contains("S3cret"), "{error}");
        assert!(error.contains("a password in the value of"), "{error}");
    }
    for given in [
        r"host=h password=a\ password=b",
        r"host=h options=-c\ app.password=x",
    ] {
        assert!(Target::parse(given, |_| None).is_ok(), "{given}");
    }
}

#[test]
fn name_of_a_private_server_is_refused_with_its_url() {
    let error = Target::parse("sandbox:a", |_| None)
        .unwrap_err()
        .to_string();
    assert!(error.contains("rehearse sandbox url NAME"), "{error}");
}
