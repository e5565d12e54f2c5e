//! Fetches an image: HTTP over one connection that is kept.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Whoever answers later is given up for now.
const PATIENCE: Duration = Duration::from_secs(5);

/// What became of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fetched {
    /// An image of so many bytes.
    Image(usize),
    /// It is not there, and will not be: with what the server said.
    Missing(String),
    /// It may be there another time.
    Failed(String),
}

/// A worker's connection to the links. All hosts are one server here.
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

    /// One attempt; its number goes with it, so that the server can tell two from one that came twice.
    pub(super) fn fetch(&mut self, link: &str, attempt: u32) -> Fetched {
        match self.asked(link, attempt) {
            Ok((200, bytes)) => Fetched::Image(bytes),
            Ok((status @ (404 | 410), _)) => Fetched::Missing(format!("HTTP {status}")),
            Ok((status, _)) => Fetched::Failed(format!("HTTP {status}")),
            Err(error) => {
                self.open = None;
                Fetched::Failed(error.to_string())
            }
        }
    }

    fn asked(&mut self, link: &str, attempt: u32) -> std::io::Result<(u16, usize)> {
        let mut reader = match self.open.take() {
            Some(open) => open,
            None => {
                let stream = TcpStream::connect_timeout(&self.address, PATIENCE)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(PATIENCE))?;
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
