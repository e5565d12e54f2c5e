//! A separate process that works with sandboxes, for tests of what happens between processes.
//!
//! - `fetch TOP MIRROR` fetches PostgreSQL 17 from a mirror and prints each step;
//! - `hold TOP` starts a sandbox, writes PID and directory of its server to `TOP/server`, and waits to be killed;
//! - `up TOP` starts the named sandbox `steady` and ends.

use std::path::{Path, PathBuf};

use sandbox::{Dirs, Installation, Options, Progress, Sandbox, ServerRequirements, fetch_from};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["fetch", top, mirror] => fetch(&places_in(top), mirror),
        ["hold", top] => hold(Path::new(top)),
        ["up", top] => up(&places_in(top)),
        _ => panic!("unknown arguments {arguments:?}; see the documentation of this file"),
    }
}

fn places_in(top: &str) -> Dirs {
    let top = PathBuf::from(top);
    Dirs {
        cache: top.join("cache"),
        state: top.join("state"),
    }
}

fn server() -> Installation {
    let places = Dirs::from_environment().unwrap();
    sandbox::find(&ServerRequirements::major(17), &places, &mut |_| ()).unwrap()
}

fn fetch(places: &Dirs, mirror: &str) {
    let mut report = |step: &Progress| println!("step: {step}");
    let found = fetch_from(Some(mirror), 17, places, &mut report).unwrap();
    assert_eq!(found.version, "17.99");
}

fn hold(top: &Path) {
    let places = places_in(top.to_str().unwrap());
    let mut sandbox = Sandbox::create(&server(), Options::default(), &places).unwrap();
    sandbox.start().unwrap();
    let text = format!("{}\n{}", sandbox.pid().unwrap(), sandbox.root().display());
    std::fs::write(top.join("server.new"), text).unwrap();
    std::fs::rename(top.join("server.new"), top.join("server")).unwrap();
    loop {
        std::thread::park();
    }
}

fn up(places: &Dirs) {
    let options = Options {
        settings: vec![("work_mem".to_owned(), "7MB".to_owned())],
        ..Options::default()
    };
    sandbox::up("steady", &server(), options, places).unwrap();
}
