//! Messages on standard input and output, one per line.
//!
//! A thread reads and a thread writes, so that no read can be cancelled half-way. A line that is no message gets a
//! protocol error, and the next line is read.

use std::io::{self, BufRead, Read, Write};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// Longest line that is read, in bytes.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// Messages that wait for their reader or writer.
const QUEUED_MAX: usize = 16;
/// Methods that a client may call before the session is initialised.
const BEFORE_SESSION: [&str; 3] = ["initialize", "ping", "server/discover"];

/// JSON-RPC: the text is not JSON.
const PARSE_ERROR: i32 = -32_700;
/// JSON-RPC: the JSON is no request.
const INVALID_REQUEST: i32 = -32_600;

/// The ends of both threads that the service uses.
pub struct Stdio {
    received: mpsc::Receiver<RxJsonRpcMessage<RoleServer>>,
    lines: mpsc::Sender<String>,
}

/// Thread that writes lines to standard output.
pub struct Writer(std::thread::JoinHandle<()>);

impl Stdio {
    /// Starts both threads.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn start() -> io::Result<(Self, Writer)> {
        let (lines, mut to_write) = mpsc::channel::<String>(QUEUED_MAX);
        let (messages, received) = mpsc::channel(QUEUED_MAX);
        let writer = std::thread::Builder::new().name("mcp-output".to_owned());
        let writer = writer.spawn(move || {
            while let Some(mut line) = to_write.blocking_recv() {
                line.push('\n');
                let mut out = io::stdout().lock();
                if out
                    .write_all(line.as_bytes())
                    .and_then(|()| out.flush())
                    .is_err()
                {
                    return;
                }
            }
        })?;
        // Weak, so that the writer ends although this thread still waits for input.
        let errors = lines.downgrade();
        let reader = std::thread::Builder::new().name("mcp-input".to_owned());
        reader.spawn(move || {
            let mut input = LineParser::default();
            let mut stdin = io::stdin().lock();
            while let Some(line) = read_line(&mut stdin) {
                let sent = match input.parse(&line) {
                    Ok(None) => true,
                    Ok(Some(message)) => messages.blocking_send(*message).is_ok(),
                    Err(error) => errors
                        .upgrade()
                        .is_some_and(|errors| errors.blocking_send(error.to_string()).is_ok()),
                };
                if !sent {
                    return;
                }
            }
        })?;
        Ok((Stdio { received, lines }, Writer(writer)))
    }
}

impl Writer {
    /// Waits until all lines are written, or the client has not read them for `limit`.
    pub fn finish(self, limit: Duration) {
        const STEP: Duration = Duration::from_millis(10);
        for _ in 0..limit.as_millis() / STEP.as_millis() {
            if self.0.is_finished() {
                return;
            }
            std::thread::sleep(STEP);
        }
    }
}

impl Transport<RoleServer> for Stdio {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let lines = self.lines.clone();
        async move {
            let line = serde_json::to_string(&message)?;
            let closed = |_| io::Error::from(io::ErrorKind::BrokenPipe);
            lines.send(line).await.map_err(closed)
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        self.received.recv().await
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.received.close();
        Ok(())
    }
}

/// A line of standard input.
enum Line {
    Text(Vec<u8>),
    TooLong,
}

/// Reads a line; `None` at the end of the input. The rest of a line that is too long is skipped.
fn read_line(input: &mut impl BufRead) -> Option<Line> {
    let mut text = Vec::new();
    let mut limited = input.take(LINE_BYTES_MAX + 1);
    if limited.read_until(b'\n', &mut text).ok()? == 0 {
        return None;
    }
    if text.len() as u64 <= LINE_BYTES_MAX {
        return Some(Line::Text(text));
    }
    while text.last() != Some(&b'\n') {
        text.clear();
        let mut limited = input.take(LINE_BYTES_MAX);
        if limited.read_until(b'\n', &mut text).ok()? == 0 {
            break;
        }
    }
    Some(Line::TooLong)
}

/// Converts lines to messages.
#[derive(Default)]
struct LineParser {
    /// Whether the session was begun by a request that may begin it.
    is_begun: bool,
}

impl LineParser {
    /// Parses a line; `None` for an empty one. The error is the answer to the client.
    fn parse(&mut self, line: &Line) -> Result<Option<Box<RxJsonRpcMessage<RoleServer>>>, Value> {
        let text = match line {
            Line::Text(text) => text.trim_ascii(),
            Line::TooLong => {
                let reason = format!(
                    "a message is longer than {LINE_BYTES_MAX} bytes; it was not read: send a shorter one"
                );
                return Err(error(None, INVALID_REQUEST, &reason));
            }
        };
        if text.is_empty() {
            return Ok(None);
        }
        let value: Value = serde_json::from_slice(text).map_err(|reason| {
            let reason =
                format!("a line is not JSON ({reason}); send one JSON-RPC message per line");
            error(None, PARSE_ERROR, &reason)
        })?;
        let id = value.get("id").cloned();
        let method = value["method"].as_str().unwrap_or_default().to_owned();
        let has_version = value["params"]["_meta"].get("io.modelcontextprotocol/protocolVersion");
        if !self.is_begun {
            let may_begin = BEFORE_SESSION.contains(&method.as_str()) || has_version.is_some();
            if !may_begin {
                let Some(id) = id else { return Ok(None) };
                let reason = "the session is not initialised; send `initialize` first";
                return Err(error(Some(id), INVALID_REQUEST, reason));
            }
            self.is_begun = method == "initialize" || has_version.is_some();
        }
        match serde_json::from_value(value) {
            Ok(message) => Ok(Some(Box::new(message))),
            Err(reason) => {
                let reason = format!(
                    "a message is no JSON-RPC request ({reason}); see the protocol's schema"
                );
                Err(error(id, INVALID_REQUEST, &reason))
            }
        }
    }
}

fn error(id: Option<Value>, code: i32, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_longer_than_the_limit_is_skipped_and_the_next_one_is_read() {
        let long = vec![b'x'; 2 * LINE_BYTES_MAX as usize + 3];
        let input = [b"{}\n".as_slice(), &long, b"\n[]\n"].concat();
        let mut input = input.as_slice();
        let mut lines = std::iter::from_fn(|| read_line(&mut input));
        assert!(matches!(lines.next(), Some(Line::Text(text)) if text == b"{}\n"));
        assert!(matches!(lines.next(), Some(Line::TooLong)));
        assert!(matches!(lines.next(), Some(Line::Text(text)) if text == b"[]\n"));
        assert!(lines.next().is_none());
    }

    #[test]
    fn line_that_is_no_message_gets_an_error_with_its_id_if_it_has_one() {
        let mut parser = LineParser { is_begun: true };
        let mut code = |text: &str| {
            let answer = parser
                .parse(&Line::Text(text.as_bytes().to_vec()))
                .unwrap_err();
            (
                answer["error"]["code"].as_i64().unwrap(),
                answer["id"].clone(),
            )
        };
        assert_eq!(code("{"), (-32_700, Value::Null));
        assert_eq!(code("[1]"), (-32_600, Value::Null));
        assert_eq!(code(r#"{"id": 7}"#), (-32_600, json!(7)));
        let mut parser = LineParser::default();
        let early = br#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#.to_vec();
        let answer = parser.parse(&Line::Text(early)).unwrap_err();
        assert!(
            answer["error"]["message"]
                .as_str()
                .unwrap()
                .contains("initialize")
        );
    }
}
