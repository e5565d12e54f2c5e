//! Headless Chromium, driven by the DevTools protocol over a pipe: JSON messages, each ended by a
//! zero byte, on the browser's file descriptors 3 and 4.
//!
//! Protocol: <https://chromedevtools.github.io/devtools-protocol/>.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

/// Maximum time for an answer before the test fails.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);
/// Environment variable that requires a browser.
const REQUIRE_VARIABLE: &str = "REHEARSE_TEST_BROWSER";
/// Names under which a browser is searched, unless `CHROMIUM` names one.
const NAMES: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];
/// Shell command that gives the pipes the expected file descriptors and then executes the browser.
const PIPES: &str = r#"exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#;

/// Browser of a test, with one tab.
pub struct Browser {
    process: Child,
    input: Option<ChildStdin>,
    messages: Receiver<Value>,
    asked: u64,
    session: Option<String>,
    events: VecDeque<Value>,
    /// Directory for the browser's files and the test's pages.
    directory: tempfile::TempDir,
}

/// Returns the program, or `None` if there is none and none is required.
fn program() -> Option<PathBuf> {
    let named = std::env::var_os("CHROMIUM").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = named.or_else(|| {
        NAMES
            .iter()
            .flat_map(|name| std::env::split_paths(&path).map(move |folder| folder.join(name)))
            .find(|file| file.is_file())
    });
    assert!(
        found.is_some() || std::env::var_os(REQUIRE_VARIABLE).is_none_or(|value| value != "1"),
        "{REQUIRE_VARIABLE}=1 asks for a browser, and there is no chromium in PATH"
    );
    found
}

impl Browser {
    /// Starts a browser. Returns `None` in the fast tier, or if the machine has none, and reports that.
    pub fn start() -> Option<Self> {
        if !test_support::is_set(REQUIRE_VARIABLE) && test_support::skip_in_fast_tier() {
            return None;
        }
        let Some(program) = program() else {
            test_support::report_skipped("there is no chromium in PATH, and CHROMIUM names none");
            return None;
        };
        let directory = tempfile::tempdir().unwrap();
        let mut process = Command::new("sh")
            .args(["-c", PIPES])
            .arg(&program)
            .args([
                "--headless=new",
                "--remote-debugging-pipe",
                // The pages are our own, and the browser's sandbox does not start for root.
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--disable-extensions",
                "--disable-background-networking",
                "--no-first-run",
                "--hide-scrollbars",
            ])
            .arg(format!(
                "--user-data-dir={}",
                directory.path().join("profile").display()
            ))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = process.stdin.take();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let (give, messages) = channel();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            while output.read_until(0, &mut bytes).is_ok_and(|read| read > 0) {
                bytes.pop();
                let message = serde_json::from_slice(&bytes).expect("a message is JSON");
                bytes.clear();
                if give.send(message).is_err() {
                    break;
                }
            }
        });
        let mut browser = Self {
            process,
            input,
            messages,
            asked: 0,
            session: None,
            events: VecDeque::new(),
            directory,
        };
        let tab = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let to = json!({"targetId": tab["targetId"], "flatten": true});
        let attached = browser.call("Target.attachToTarget", to);
        browser.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log", "Network", "Performance"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    /// Returns the path of a file in this browser's directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Calls a method and waits for the answer. Events that arrive before it are kept.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.asked += 1;
        let mut message = json!({"id": self.asked, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = serde_json::to_vec(&message).unwrap();
        bytes.push(0);
        let input = self.input.as_mut().expect("it runs");
        input.write_all(&bytes).unwrap();
        loop {
            let mut message = self.next(method);
            if message["id"] == json!(self.asked) {
                let error = &message["error"];
                assert!(error.is_null(), "{method}: {error}");
                return message["result"].take();
            }
            self.events.push_back(message);
        }
    }

    fn next(&self, waiting_for: &str) -> Value {
        let message = self.messages.recv_timeout(REPLY_TIMEOUT);
        message.unwrap_or_else(|error| panic!("the browser does not answer {waiting_for}: {error}"))
    }

    /// Waits for an event; earlier events are kept.
    pub fn wait_for(&mut self, event: &str) {
        let is = |message: &Value| message["method"] == event;
        if let Some(at) = self.events.iter().position(is) {
            self.events.remove(at);
            return;
        }
        loop {
            let message = self.next(event);
            if is(&message) {
                return;
            }
            self.events.push_back(message);
        }
    }

    /// Returns the parameters of all events of a kind so far.
    pub fn events(&self, method: &str) -> Vec<&Value> {
        let of = self.events.iter();
        of.filter(|message| message["method"] == method)
            .map(|message| &message["params"])
            .collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser ends when its pipe is closed, and its processes end with it.
        self.input = None;
        for _ in 0..100 {
            if matches!(self.process.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
