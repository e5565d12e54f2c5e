//! Fetches an image by HTTP over a persistent connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Timeout of a response. The link is retried later.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Result of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FetchResult {
    /// An image, with its size in bytes.
    Image(usize),
    /// The image does not exist, a permanent failure; with the server's message.
    Missing(String),
    /// A temporary failure, with its reason.
    Failed(String),
}

/// A worker's connection to the links. All hosts are served by one server here.
#[derive(Debug)]
pub(super) struct Fetcher {
    address: SocketAddr,
    open: Option<BufReader<TcpStream>>,
}

impl Fetcher {
    pub(super) fn new(address: SocketAddr) -> Self {
        Fetcher {
            address,
            open: None,
        }
    }

    /// Makes one attempt. Its number is part of the request, so that the server can tell a new attempt from a
    /// duplicate.
    pub(super) fn fetch(&mut self, link: &str, attempt: u32) -> FetchResult {
        match self.request(link, attempt) {
            Ok((200, bytes)) => FetchResult::Image(bytes),
            Ok((status @ (404 | 410), _)) => FetchResult::Missing(format!("HTTP {status}")),
            Ok((status, _)) => FetchResult::Failed(format!("HTTP {status}")),
            Err(error) => {
                self.open = None;
                FetchResult::Failed(error.to_string())
            }
        }
    }

    fn request(&mut self, link: &str, attempt: u32) -> std::io::Result<(u16, usize)> {
        let mut reader = match self.open.take() {
            Some(open) => open,
            None => {
                let stream = TcpStream::connect_timeout(&self.address, TIMEOUT)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(TIMEOUT))?;
                BufReader::new(stream)
            }
        };
        let rest = link.strip_prefix("http://").unwrap_or(link);
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let request = format!("GET /{path}?attempt={attempt} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        reader.get_mut().write_all(request.as_bytes())?;
        let cut = || std::io::Error::other("the answer is cut off");
        let mut line = String::new();
        let mut status: Option<u16> = None;
        let mut length = 0;
        loop {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Err(cut());
            }
            let header = line.trim();
            if header.is_empty() {
                break;
            }
            match (status, header.split_once(": ")) {
                (None, _) => status = header.split(' ').nth(1).and_then(|one| one.parse().ok()),
                (_, Some((name, value))) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.parse().map_err(std::io::Error::other)?;
                }
                _ => {}
            }
        }
        let mut image = vec![0; length];
        reader.read_exact(&mut image)?;
        self.open = Some(reader);
        Ok((status.ok_or_else(cut)?, length))
    }
}
