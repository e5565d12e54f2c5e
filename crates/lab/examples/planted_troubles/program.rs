//! The built program, driven as a user drives it.

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value as Json;

/// Result of a step.
pub type Outcome<T> = Result<T, Box<dyn Error>>;

/// The program.
#[derive(Debug, Clone)]
pub struct Program(pub PathBuf);

impl Program {
    /// Runs a command, and returns what it printed. These exit codes are no failure.
    fn run(&self, arguments: &[&str], codes: &[i32]) -> Outcome<Output> {
        let output = Command::new(&self.0)
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("cannot start {}: {error}", self.0.display()))?;
        match output.status.code() {
            Some(code) if codes.contains(&code) => Ok(output),
            code => Err(format!(
                "rehearse {}: exit code {code:?}: {}",
                arguments.join(" "),
                String::from_utf8_lossy(&output.stderr)
            )
            .into()),
        }
    }

    /// Starts a private server with settings.
    pub fn start_server(
        &self,
        name: &str,
        major: Option<u16>,
        settings: &[(&str, String)],
    ) -> Outcome<Server> {
        let mut arguments = vec!["sandbox".to_owned(), "up".to_owned(), name.to_owned()];
        if let Some(major) = major {
            arguments.push("--postgres-version".to_owned());
            arguments.push(major.to_string());
        }
        for (name, value) in settings {
            arguments.push("--set".to_owned());
            arguments.push(format!("{name}={value}"));
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        self.run(&arguments, &[0])?;
        Ok(Server {
            program: self.clone(),
            name: name.to_owned(),
        })
    }

    /// Replays a workload on its own server, with all observations.
    pub fn replay(&self, workload: &Path, url: &str, run: &Path) -> Outcome<()> {
        let (workload, run) = (workload.display().to_string(), run.display().to_string());
        // The data were restored since the capture.
        let server = address(url)?;
        let mut arguments = vec!["replay", &workload, "--target", url, "-o", &run];
        arguments.extend(["--observe", "--explain", "--allow-captured-server", &server]);
        self.run(&arguments, &[0, 1])?;
        Ok(())
    }

    /// Diagnoses a run.
    pub fn diagnose(&self, run: &Path, suspects: &[String]) -> Outcome<Json> {
        let run = run.display().to_string();
        let mut arguments = vec!["diagnose", &run, "--json"];
        for suspect in suspects {
            arguments.extend(["--impact-of", suspect]);
        }
        let output = self.run(&arguments, &[0, 1])?;
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// Diagnoses a workload with experiments in a private server.
    pub fn diagnose_with_experiments(
        &self,
        workload: &Path,
        server: &str,
        directory: &Path,
        suspects: &[String],
    ) -> Outcome<Json> {
        let (workload, directory) = (
            workload.display().to_string(),
            directory.display().to_string(),
        );
        let mut arguments = vec![
            "diagnose",
            &workload,
            "--prove",
            "--sandbox",
            server,
            "--json",
            "-o",
            &directory,
        ];
        // The changes are measured by the clients, not by the program.
        arguments.extend(["--max-findings", "0"]);
        for suspect in suspects {
            arguments.extend(["--impact-of", suspect]);
        }
        let output = self.run(&arguments, &[0, 1])?;
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}

/// Returns the path of a server's socket.
fn address(url: &str) -> Outcome<String> {
    let config: postgres::Config = url.parse()?;
    match (config.get_hosts().first(), config.get_ports().first()) {
        (Some(postgres::config::Host::Unix(directory)), Some(port)) => {
            Ok(format!("{}/.s.PGSQL.{port}", directory.display()))
        }
        _ => Err(format!("{url} has no socket").into()),
    }
}

/// A private server. It is deleted when it is dropped.
pub struct Server {
    program: Program,
    /// Its name.
    pub name: String,
}

impl Server {
    /// Returns its URL.
    pub fn url(&self) -> Outcome<String> {
        let arguments = ["sandbox", "url", &self.name];
        let output = self.program.run(&arguments, &[0])?;
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let arguments = ["sandbox", "down", &self.name];
        if let Err(error) = self.program.run(&arguments, &[0]) {
            eprintln!("{error}");
        }
    }
}

/// A proxy that captures.
pub struct Proxy {
    child: Child,
    port: u16,
}

impl Proxy {
    /// Starts it between clients and a server.
    pub fn start(program: &Program, upstream: &str, workload: &Path) -> Outcome<Self> {
        let mut child = Command::new(&program.0)
            .args(["capture", "proxy", "--listen", "127.0.0.1:0"])
            .args(["--upstream", upstream])
            .arg("-o")
            .arg(workload)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let messages = child.stderr.take().ok_or("no messages")?;
        let mut lines = BufReader::new(messages).lines();
        let line = lines.find_map(|line| line.ok().filter(|line| line.contains("listening at")));
        let port = line
            .as_deref()
            .and_then(|line| line.split("127.0.0.1:").nth(1))
            .and_then(|rest| rest.split(',').next()?.parse().ok());
        std::thread::spawn(move || lines.for_each(drop));
        match port {
            Some(port) => Ok(Self { child, port }),
            None => Err(format!("the proxy does not listen: {line:?}").into()),
        }
    }

    /// Returns its URL.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Stops it, as Ctrl-C does.
    pub fn stop(mut self) -> Outcome<()> {
        let id = self.child.id().to_string();
        Command::new("kill").args(["-INT", &id]).status()?;
        match self.child.wait()?.success() {
            true => Ok(()),
            false => Err("the proxy failed".into()),
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
