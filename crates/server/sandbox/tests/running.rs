//! Real servers: started, stopped, reached, configured, and as whom they run.

mod support;

use sandbox::{Error, Options, Password, Port, Sandbox, ServerRequirements, Stop};
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use support::{ask, connect, is_alive, places, server};

fn with_settings(settings: &[(&str, &str)]) -> Options {
    Options {
        settings: pairs(settings),
        ..Options::default()
    }
}

fn pairs(settings: &[(&str, &str)]) -> Vec<(String, String)> {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    settings.iter().map(own).collect()
}

#[test]
fn two_versions_start_take_settings_and_stop() {
    let (_top, places) = places();
    for major in [15, 17] {
        let options = with_settings(&[("work_mem", "7MB"), ("cluster_name", "it's \\ ours")]);
        let mut sandbox = Sandbox::create(&server(major), options, &places).unwrap();
        assert_eq!(sandbox.pid(), None);
        let endpoint = sandbox.start().unwrap();
        assert_eq!(
            sandbox.start().unwrap(),
            endpoint,
            "starting twice is starting once"
        );
        let pid = sandbox.pid().unwrap();

        let mut client = connect(&endpoint.url("postgres"));
        let version = ask(&mut client, "show server_version_num");
        assert!(version.starts_with(&major.to_string()), "{version}");
        assert_eq!(ask(&mut client, "show work_mem"), "7MB");
        assert_eq!(ask(&mut client, "show cluster_name"), "it's \\ ours");
        assert_eq!(ask(&mut client, "show server_encoding"), "UTF8");
        assert_eq!(
            ask(
                &mut client,
                "select datcollate::text from pg_database where datname='postgres'"
            ),
            "C"
        );
        client
            .batch_execute("alter system set work_mem = '9MB'")
            .unwrap();
        drop(client);
        // And by its socket.
        let mut client = connect(&endpoint.socket_url("postgres").unwrap());
        assert_eq!(
            ask(
                &mut client,
                "select coalesce(host(inet_client_addr()), 'local')"
            ),
            "local"
        );
        drop(client);

        sandbox
            .set(pairs(&[("work_mem", "8MB"), ("max_connections", "17")]))
            .unwrap();
        let endpoint = sandbox.restart().unwrap();
        assert!(!is_alive(pid));
        let mut client = connect(&endpoint.url("postgres"));
        assert_eq!(ask(&mut client, "show max_connections"), "17");
        assert_eq!(
            ask(&mut client, "show work_mem"),
            "9MB",
            "ALTER SYSTEM wins"
        );
        drop(client);

        let pid = sandbox.pid().unwrap();
        sandbox.stop(Stop::Immediate).unwrap();
        assert!(!is_alive(pid));
        assert!(postgres::Client::connect(&endpoint.url("postgres"), postgres::NoTls).is_err());
        // After a stop as in a crash it recovers.
        sandbox.start().unwrap();
        let pid = sandbox.pid().unwrap();
        let root = sandbox.root().to_owned();
        sandbox.close().unwrap();
        assert!(!is_alive(pid));
        assert!(!root.exists());
    }
}

#[test]
fn the_server_is_never_roots() {
    let (_top, places) = places();
    let mut sandbox = Sandbox::create(&server(17), Options::default(), &places).unwrap();
    sandbox.start().unwrap();
    let process = format!("/proc/{}", sandbox.pid().unwrap());
    let server = std::fs::metadata(process).unwrap().uid();
    let own = std::fs::metadata("/proc/self").unwrap().uid();
    let data = std::fs::metadata(sandbox.data_dir()).unwrap();
    if own == 0 {
        let user = |name: &str| std::process::Command::new("id").args(["-u", name]).output();
        let postgres = user("postgres").unwrap().stdout;
        let server = server.to_string();
        assert!(server != "0" && server.as_bytes() != postgres.trim_ascii());
    } else {
        assert_eq!(server, own);
    }
    assert_eq!(data.uid(), server);
    assert_eq!(data.mode() & 0o777, 0o700);
}

#[test]
fn password_over_tcp_is_required_and_in_its_private_file_only() {
    let (_top, places) = places();
    let options = Options {
        tcp: true,
        password: Some(Password::new("p@ss:wo\\rd")),
        ..Options::default()
    };
    let mut sandbox = Sandbox::create(&server(17), options, &places).unwrap();
    let mut endpoint = sandbox.start().unwrap();
    connect(&endpoint.url("postgres"));
    connect(&endpoint.socket_url("postgres").unwrap());
    let shown = endpoint.url_to_show("postgres");
    let file = endpoint.password_file.clone().unwrap();
    assert!(shown.contains("passfile=") && !shown.contains("p%40ss"));
    assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    endpoint.password = Some("wrong".to_owned());
    assert!(postgres::Client::connect(&endpoint.url("postgres"), postgres::NoTls).is_err());
    for entry in std::fs::read_dir(sandbox.root()).unwrap().flatten() {
        if entry.file_type().unwrap().is_file() && entry.path() != file {
            let text = std::fs::read(entry.path()).unwrap();
            assert!(
                !String::from_utf8_lossy(&text).contains("p@ss"),
                "{entry:?}"
            );
        }
    }
    assert!(!format!("{sandbox:?}").contains("p@ss"));
}

#[test]
fn without_tcp_only_the_socket_is_there() {
    let (_top, places) = places();
    let mut sandbox = Sandbox::create(&server(17), Options::default(), &places).unwrap();
    let endpoint = sandbox.start().unwrap();
    assert_eq!(endpoint.host, None);
    assert_eq!(
        ask(
            &mut connect(&endpoint.url("postgres")),
            "show listen_addresses"
        ),
        ""
    );
}

#[test]
fn a_long_path_still_has_a_socket() {
    let (top, mut places) = places();
    places.state = top.path().join("a-rather-long-name".repeat(5));
    let mut sandbox = Sandbox::create(&server(17), Options::default(), &places).unwrap();
    let endpoint = sandbox.start().unwrap();
    connect(&endpoint.socket_url("postgres").unwrap());
    let dir = endpoint.socket_dir.unwrap();
    assert!(!dir.starts_with(top.path()));
    sandbox.close().unwrap();
    assert!(!dir.exists());
}

#[test]
fn a_taken_port_is_passed_over_or_named() {
    let (_top, places) = places();
    let held = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let taken = held.local_addr().unwrap().port();
    let mut ports = vec![taken];
    ports.extend((0..3).map(|_| {
        let free = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        free.local_addr().unwrap().port()
    }));
    let options = |port| Options {
        port,
        tcp: true,
        ..Options::default()
    };
    let first_of = options(Port::FirstOf(ports.clone()));
    let mut sandbox = Sandbox::create(&server(17), first_of, &places).unwrap();
    let endpoint = sandbox.start().unwrap();
    assert!(ports[1..].contains(&endpoint.port), "{endpoint:?}");
    connect(&endpoint.url("postgres"));
    // It stays where it is.
    assert_eq!(sandbox.restart().unwrap().port, endpoint.port);

    let fixed = options(Port::Fixed(taken));
    let mut sandbox = Sandbox::create(&server(17), fixed, &places).unwrap();
    match sandbox.start() {
        Err(error @ Error::PortTaken { .. }) => {
            assert!(error.to_string().contains(&taken.to_string()), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_server_that_does_not_start_says_why() {
    let (_top, places) = places();
    let options = with_settings(&[("shared_buffers", "a lot")]);
    let mut sandbox = Sandbox::create(&server(17), options, &places).unwrap();
    let error = sandbox.start().unwrap_err();
    assert!(matches!(error, Error::RefusedSetting { .. }), "{error}");
    assert!(error.to_string().contains("shared_buffers"), "{error}");
    for (name, value) in [("wrk_mem", "1MB"), ("work_mem", "1kB"), ("jit", "maybe")] {
        sandbox
            .set(vec![(name.to_owned(), value.to_owned())])
            .unwrap();
        let error = sandbox.start().unwrap_err().to_string();
        assert!(error.contains("refuses a setting: "), "{error}");
        assert!(error.contains(&format!("\"{name}\"")), "{error}");
        assert!(!error.contains("in file"), "{error}");
    }
    // And it can be mended.
    sandbox.set(Vec::new()).unwrap();
    sandbox.start().unwrap();

    let options = with_settings(&[("port", "1")]);
    let error = Sandbox::create(&server(17), options, &places).unwrap_err();
    assert!(matches!(error, Error::Setting { .. }), "{error}");

    let options = Options {
        locale: "no_such_locale".to_owned(),
        ..Options::default()
    };
    let error = Sandbox::create(&server(17), options, &places).unwrap_err();
    assert!(matches!(error, Error::Initdb { .. }), "{error}");
    assert!(error.to_string().contains("no_such_locale"), "{error}");
}

#[test]
fn failed_creation_leaves_no_directory() {
    let (_top, places) = places();
    let options = Options {
        initdb: vec!["--no-such-option".to_owned()],
        ..Options::default()
    };
    Sandbox::create(&server(17), options, &places).unwrap_err();
    let left = std::fs::read_dir(places.state.join("sandboxes")).unwrap();
    assert_eq!(left.count(), 0);
}

#[test]
fn a_sandbox_runs_from_a_given_directory() {
    let (_top, places) = places();
    let usual = server(17);
    let wanted = ServerRequirements {
        dir: Some(usual.bin_dir.clone()),
        major: Some(17),
        origin: sandbox::Origin::Present,
    };
    let given = sandbox::find(&wanted, &places, &mut |_| ()).unwrap();
    assert_eq!(given.bin_dir, usual.bin_dir);
    let mut sandbox = Sandbox::create(&given, Options::default(), &places).unwrap();
    sandbox.start().unwrap();
}
