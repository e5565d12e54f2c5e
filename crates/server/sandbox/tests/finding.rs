//! Finding and fetching, with a mirror of our own that has one small archive.

mod support;

use sandbox::{Dirs, Error, Origin, Progress, ServerRequirements, Source, fetch_from};
use sha2::{Digest, Sha512};
use std::io::{BufRead, BufReader, Cursor, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;
use support::{other_process, places, server};

const ARTIFACT_PARTS: &str = "/io/zonky/test/postgres/embedded-postgres-binaries-";

/// An archive as the real ones are, whose programs are two lines of shell.
fn archive() -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for name in ["bin/postgres", "bin/initdb"] {
        let script = b"#!/bin/sh\necho 'postgres (PostgreSQL) 17.99'\n";
        let mut header = tar::Header::new_gnu();
        header.set_size(script.len() as u64);
        // Stricter than it should be, as a umask might make it.
        header.set_mode(0o700);
        tar.append_data(&mut header, name, &script[..]).unwrap();
    }
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
    xz.write_all(&tar.into_inner().unwrap()).unwrap();
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let stored =
        zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    zip.start_file("postgres.txz", stored).unwrap();
    zip.write_all(&xz.finish().unwrap()).unwrap();
    zip.finish().unwrap().into_inner()
}

struct Mirror {
    url: String,
    downloads: Arc<AtomicUsize>,
}

/// A mirror that gives the archive only once it may.
fn mirror(right_checksum: bool, may_give: mpsc::Receiver<()>) -> Mirror {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("http://{}/base/", listener.local_addr().unwrap());
    let downloads = Arc::new(AtomicUsize::new(0));
    let counted = downloads.clone();
    thread::spawn(move || {
        let archive = archive();
        let digest = Sha512::digest(if right_checksum {
            &archive[..]
        } else {
            b"other"
        });
        let checksum: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let path = requested(&mut stream);
            assert!(
                path.starts_with(&format!("/base{ARTIFACT_PARTS}")),
                "{path}"
            );
            let artifact = path.split('/').nth(6).unwrap();
            let metadata = format!(
                "<metadata><groupId>g</groupId><artifactId>{artifact}</artifactId><versioning>\
                 <latest>18.1.0</latest><release>18.1.0</release><versions>\
                 <version>17.2.0</version><version>17.99.0</version><version>17.10.0</version>\
                 <version>18.1.0</version></versions>\
                 <lastUpdated>20250101000000</lastUpdated></versioning></metadata>"
            );
            let body = if path.ends_with("maven-metadata.xml") {
                metadata.as_bytes()
            } else if path.ends_with("-17.99.0.jar.sha512") {
                checksum.as_bytes()
            } else {
                assert!(path.ends_with("-17.99.0.jar"), "{path}");
                counted.fetch_add(1, Ordering::SeqCst);
                // An error means that nobody holds it back (any more): the test judges the rest.
                let _ = may_give.recv_timeout(Duration::from_secs(60));
                &archive
            };
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(head.as_bytes());
            let _ = stream.write_all(body);
        }
    });
    Mirror { url, downloads }
}

fn requested(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    head.split(' ').nth(1).unwrap().to_owned()
}

fn at_once() -> mpsc::Receiver<()> {
    mpsc::channel().1
}

fn names(places: &Dirs) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(places.cache.join("postgresql"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn the_newest_minor_version_is_fetched_once() {
    let (_top, places) = places();
    let mirror = mirror(true, at_once());
    let mut told = Vec::new();
    let mut progress = |step: &Progress| told.push(step.clone());
    let found = fetch_from(Some(&mirror.url), 17, &places, &mut progress).unwrap();
    assert_eq!((found.major, found.source), (17, Source::Cache));
    assert_eq!(found.bin_dir, places.cache.join("postgresql/17.99.0/bin"));
    assert_eq!(told.len(), 4, "{told:?}");
    let version = "17.99.0".to_owned();
    assert_eq!(told[0], Progress::Resolving { major: 17 });
    assert_eq!(told[3], Progress::Done { version });
    // All users may run it, regardless of the user that fetched it.
    use std::os::unix::fs::PermissionsExt;
    let mode = found
        .bin_dir
        .join("postgres")
        .metadata()
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o755);

    assert_eq!(
        fetch_from(Some(&mirror.url), 17, &places, &mut |_| ()).unwrap(),
        found
    );
    assert_eq!(mirror.downloads.load(Ordering::SeqCst), 1);
    assert!(sandbox::installed(&places).contains(&found));
    assert_eq!(names(&places), [".17.lock", "17.99.0"]);
}

#[test]
fn a_wrong_checksum_is_refused() {
    let (_top, places) = places();
    let mirror = mirror(false, at_once());
    let error = fetch_from(Some(&mirror.url), 17, &places, &mut |_| ()).unwrap_err();
    assert!(error.to_string().contains("does not match"), "{error}");
    assert_eq!(names(&places), [".17.lock"]);
}

#[test]
fn a_version_that_the_mirror_lacks_is_named() {
    let (_top, places) = places();
    let mirror = mirror(true, at_once());
    let error = fetch_from(Some(&mirror.url), 16, &places, &mut |_| ()).unwrap_err();
    let said = error.to_string();
    assert!(
        said.contains("PostgreSQL 16") && said.contains(&mirror.url),
        "{said}"
    );
}

#[test]
fn two_processes_fetch_at_once() {
    let (top, places) = places();
    let (give, may_give) = mpsc::channel();
    let mirror = mirror(true, may_give);
    let mut both: Vec<_> = (0..2)
        .map(|_| {
            other_process("fetch", top.path())
                .arg(&mirror.url)
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    // The archive is held back until one of them has said that it waits for the other.
    let readers: Vec<_> = both
        .iter_mut()
        .map(|process| {
            let lines = BufReader::new(process.stdout.take().unwrap()).lines();
            let give = give.clone();
            thread::spawn(move || {
                lines
                    .map(|line| line.unwrap())
                    .inspect(|line| {
                        if line.contains("waiting for another process") {
                            give.send(()).unwrap();
                        }
                    })
                    .collect::<Vec<_>>()
            })
        })
        .collect();
    drop(give);
    let said: Vec<String> = readers
        .into_iter()
        .flat_map(|reader| reader.join().unwrap())
        .collect();
    for process in &mut both {
        assert!(process.wait().unwrap().success(), "{said:?}");
    }
    let count = |word: &str| said.iter().filter(|line| line.contains(word)).count();
    assert_eq!(
        (count("waiting for"), count("unpacking")),
        (1, 1),
        "{said:?}"
    );
    assert_eq!(mirror.downloads.load(Ordering::SeqCst), 1);
    assert_eq!(names(&places), [".17.lock", "17.99.0"]);
}

#[test]
fn fetch_without_network_error_names_the_remedy() {
    let (_top, places) = places();
    // A port that nobody listens on.
    let nowhere = "http://127.0.0.1:9";
    let said = fetch_from(Some(nowhere), 17, &places, &mut |_| ())
        .unwrap_err()
        .to_string();
    for part in [
        "PostgreSQL 17",
        nowhere,
        "on the PATH",
        "REHEARSE_MAVEN_MIRROR",
    ] {
        assert!(said.contains(part), "{said}");
    }
    assert_eq!(names(&places), [".17.lock"]);
}

#[test]
fn a_wrong_directory_is_refused() {
    let (top, places) = places();
    let find = |dir: PathBuf, major| {
        let wanted = ServerRequirements {
            dir: Some(dir),
            major,
            origin: Origin::Any,
        };
        sandbox::find(&wanted, &places, &mut |_| panic!("nothing is fetched"))
    };
    let error = find(top.path().to_owned(), None).unwrap_err();
    assert!(matches!(error, Error::NotAnInstallation { .. }), "{error}");
    assert!(error.to_string().contains("--postgres"), "{error}");

    let real = server(17);
    let error = find(real.bin_dir.clone(), Some(16)).unwrap_err();
    assert!(
        matches!(error, Error::OtherVersion { wanted: 16, .. }),
        "{error}"
    );
    assert_eq!(sandbox::server_major(&real.bin_dir).unwrap(), 17);
    let above = real.bin_dir.parent().unwrap().to_owned();
    assert_eq!(find(above, Some(17)).unwrap().bin_dir, real.bin_dir);
}

#[test]
fn old_or_offline_server_is_refused() {
    let (_top, places) = places();
    let wanted = |major, origin| ServerRequirements {
        major: Some(major),
        dir: None,
        origin,
    };
    let error = sandbox::find(&wanted(9, Origin::Any), &places, &mut |_| ()).unwrap_err();
    assert!(matches!(error, Error::TooOld { .. }), "{error}");
    // No such version exists.
    let error = sandbox::find(&wanted(999, Origin::Present), &places, &mut |_| ()).unwrap_err();
    assert!(matches!(error, Error::NotInstalled { .. }), "{error}");
}
