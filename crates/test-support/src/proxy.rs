//! A proxy that captures, run by the program under test.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use sandbox::Endpoint;

/// A running `capture proxy`. It is killed when it is dropped.
pub struct CaptureProxy {
    child: Child,
    /// The server, through the proxy.
    pub endpoint: Endpoint,
}

impl CaptureProxy {
    /// Starts the program as a proxy to a server, with these additional options, and waits until it listens.
    ///
    /// # Panics
    /// If it does not start.
    #[track_caller]
    pub fn start(program: &str, upstream: &Endpoint, workload: &Path, options: &[&str]) -> Self {
        let mut child = Command::new(program)
            .args(["capture", "proxy", "--listen", "127.0.0.1:0"])
            .args(["--upstream", &upstream.url_to_show("postgres")])
            .args(options)
            .arg("-o")
            .arg(workload)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut said = BufReader::new(child.stderr.take().expect("it is piped")).lines();
        let line = said.find_map(|line| line.ok().filter(|line| line.contains("listening at")));
        let port = line
            .as_deref()
            .and_then(|line| line.split("127.0.0.1:").nth(1))
            .and_then(|rest| rest.split(',').next()?.parse().ok());
        // What it says later must have somewhere to go.
        std::thread::spawn(move || said.for_each(drop));
        let endpoint = Endpoint {
            host: Some("127.0.0.1".to_owned()),
            socket_dir: None,
            port: port.unwrap_or_else(|| panic!("it does not say where it listens: {line:?}")),
            ..upstream.clone()
        };
        CaptureProxy { child, endpoint }
    }

    /// Interrupts it, as Ctrl-C does, and waits for its end.
    ///
    /// # Panics
    /// If it fails.
    #[track_caller]
    pub fn interrupt(mut self) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-INT", &id]).status();
        assert!(sent.expect("kill runs").success());
        assert!(self.child.wait().expect("it ends").success());
    }
}

impl Drop for CaptureProxy {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
