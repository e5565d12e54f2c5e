//! As much of HTTP/1.1 as one page and its stream need (RFC 9112): a request a connection, without a body.
//!
//! Each connection has a thread and time-outs of its own. The library that serves the metrics shares threads
//! among connections, and one that comes in a burst may wait there until another goes, which a viewer's
//! does not.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// More connections at once are not answered.
const CONNECTIONS_MAX: usize = 64;
/// A request's head is no longer than this.
const HEAD_MAX: usize = 16 << 10;
/// It is here after so long.
const HEAD_PATIENCE: Duration = Duration::from_secs(5);
/// After a refusal of the system, such as for want of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// What was asked.
pub struct Request {
    /// `GET`, say.
    pub method: String,
    /// Without what stands behind a `?`.
    pub path: String,
    headers: Vec<(String, String)>,
    stream: TcpStream,
}

impl Request {
    /// A header; where there are several, or none, an empty text, which is nothing anybody means.
    pub fn header(&self, name: &str) -> &str {
        let mut found = self.headers.iter().filter(|(known, _)| known == name);
        match (found.next(), found.next()) {
            (Some((_, value)), None) => value,
            _ => "",
        }
    }

    /// Answers with a text, and ends the connection.
    ///
    /// # Errors
    /// Where nobody takes it.
    pub fn answer(mut self, status: &str, headers: &[(&str, &str)], body: &str) -> io::Result<()> {
        let mut text = head(status, headers);
        text.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        if self.method != "HEAD" {
            text.push_str(body);
        }
        self.stream.write_all(text.as_bytes())
    }

    /// Begins an answer that ends with the connection.
    ///
    /// # Errors
    /// Where nobody takes it.
    pub fn begin(mut self, status: &str, headers: &[(&str, &str)]) -> io::Result<TcpStream> {
        let mut text = head(status, headers);
        text.push_str("\r\n");
        self.stream.write_all(text.as_bytes())?;
        Ok(self.stream)
    }
}

fn head(status: &str, headers: &[(&str, &str)]) -> String {
    let mut text = format!("HTTP/1.1 {status}\r\nConnection: close\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text
}

/// Takes connections until it is dropped.
pub struct Listening {
    address: SocketAddr,
    closing: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Listening {
    /// Has each request answered on a thread of its own. A connection that takes nothing for `patience` is
    /// given up.
    ///
    /// # Errors
    /// Where the system has no room for a thread.
    pub fn start(
        listener: TcpListener,
        patience: Duration,
        answer: impl Fn(Request) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let closing = Arc::new(AtomicBool::new(false));
        let thread = {
            let closing = closing.clone();
            let answer = Arc::new(answer);
            std::thread::Builder::new()
                .name("page".to_owned())
                .spawn(move || {
                    readiness::let_others_go_first();
                    take(&listener, patience, &closing, &answer);
                })?
        };
        Ok(Listening {
            address,
            closing,
            thread: Some(thread),
        })
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Release);
        // Wakes the one that waits for connections.
        let _ = TcpStream::connect_timeout(&self.address, HEAD_PATIENCE);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn take<F: Fn(Request) + Send + Sync + 'static>(
    listener: &TcpListener,
    patience: Duration,
    closing: &AtomicBool,
    answer: &Arc<F>,
) {
    let connections = Arc::new(AtomicUsize::new(0));
    loop {
        let stream = listener.accept();
        if closing.load(Ordering::Acquire) {
            return;
        }
        let Ok((stream, _)) = stream else {
            std::thread::sleep(PAUSE);
            continue;
        };
        if connections.load(Ordering::Acquire) >= CONNECTIONS_MAX {
            continue;
        }
        connections.fetch_add(1, Ordering::AcqRel);
        let (answer, counted) = (answer.clone(), connections.clone());
        let serve = move || {
            readiness::let_others_go_first();
            if let Ok(Some(request)) = read(stream, patience) {
                answer(request);
            }
            counted.fetch_sub(1, Ordering::AcqRel);
        };
        let thread = std::thread::Builder::new().name("viewer".to_owned());
        if thread.spawn(serve).is_err() {
            connections.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Reads a request's head; `None` where it is none, or too long.
fn read(mut stream: TcpStream, patience: Duration) -> io::Result<Option<Request>> {
    stream.set_write_timeout(Some(patience))?;
    stream.set_nodelay(true)?;
    let until = Instant::now() + HEAD_PATIENCE;
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    let end = loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || bytes.len() > HEAD_MAX {
            return Ok(None);
        }
        stream.set_read_timeout(Some(left))?;
        let count = stream.read(&mut piece)?;
        if count == 0 {
            return Ok(None);
        }
        bytes.extend_from_slice(&piece[..count]);
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
    };
    let Ok(head) = std::str::from_utf8(&bytes[..end]) else {
        return Ok(None);
    };
    Ok(parse(head).map(|(method, path, headers)| Request {
        method,
        path,
        headers,
        stream,
    }))
}

type Head = (String, String, Vec<(String, String)>);

fn parse(head: &str) -> Option<Head> {
    let mut lines = head.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    if words.next().is_some() || !version.starts_with("HTTP/1.") || !target.starts_with('/') {
        return None;
    }
    let path = target.split('?').next().unwrap_or_default();
    let headers = lines
        .map(|line| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_ascii_lowercase(), value.trim().to_owned()))
        })
        .collect::<Option<Vec<_>>>()?;
    Some((method.to_owned(), path.to_owned(), headers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_and_what_is_none_is_not() {
        let (method, path, headers) =
            parse("GET /a/b?c=d HTTP/1.1\r\nHost: 127.0.0.1:80\r\nX-A:  b ").unwrap();
        assert_eq!((method.as_str(), path.as_str()), ("GET", "/a/b"));
        let of = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(headers, [of("host", "127.0.0.1:80"), of("x-a", "b")]);
        for wrong in [
            "",
            "GET",
            "GET /",
            "GET / HTTP/2",
            "GET http://a/ HTTP/1.1",
            "GET / HTTP/1.1 more",
            "GET / HTTP/1.1\r\nno header",
        ] {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn what_says_nothing_or_too_much_holds_up_nobody() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answer = |request: Request| {
            let twice = request.header("x-twice").to_owned();
            let _ = request.answer("200 OK", &[("X-Seen", &twice)], "here");
        };
        let listening = Listening::start(listener, HEAD_PATIENCE, answer).unwrap();
        let _silent = TcpStream::connect(address).unwrap();
        let ask = |text: &str| {
            let mut stream = TcpStream::connect(address).unwrap();
            // It may be turned away before all of it is written.
            let _ = stream.write_all(text.as_bytes());
            let mut answer = String::new();
            let _ = stream.read_to_string(&mut answer);
            answer
        };
        assert!(ask("GET / HTTP/1.1\r\n\r\n").ends_with("Content-Length: 4\r\n\r\nhere"));
        assert!(ask("HEAD / HTTP/1.1\r\n\r\n").ends_with("Content-Length: 4\r\n\r\n"));
        // Two of a header are none.
        let twice = ask("GET / HTTP/1.1\r\nX-Twice: a\r\nX-Twice: b\r\n\r\n");
        assert!(twice.contains("X-Seen: \r\n"), "{twice}");
        assert_eq!(ask(&"x".repeat(HEAD_MAX * 2)), "");
        drop(listening);
        assert!(TcpStream::connect(address).is_err());
    }
}
