//! Receiver of webhooks that records requests and gives prepared answers.

#![allow(dead_code)] // each test file uses a part of it

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::Value;

/// Recorded request.
#[derive(Debug, Clone)]
pub struct Received {
    /// Method and target, as in the first line.
    pub line: String,
    /// Names in lower case, with values.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Received {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{self:?}"))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// Receiver at a port of this machine.
pub struct Receiver {
    /// `http://127.0.0.1:PORT`.
    pub origin: String,
    requests: Arc<Mutex<Vec<Received>>>,
}

impl Receiver {
    /// Starts a receiver. Each answer is the status line and headers for one request. The last is given
    /// to all further requests.
    pub fn start(answers: &'static [&'static str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let recorded = Arc::clone(&requests);
        std::thread::spawn(move || {
            let mut left = answers.iter().chain(answers.last().into_iter().cycle());
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                recorded.lock().unwrap().push(read_request(&stream));
                let head = left.next().unwrap();
                let answer =
                    format!("HTTP/1.1 {head}\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        Receiver { origin, requests }
    }

    pub fn requests(&self) -> Vec<Received> {
        self.requests.lock().unwrap().clone()
    }
}

fn read_request(stream: &TcpStream) -> Received {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let line = lines.remove(0);
    let headers = lines.iter().map(|line| {
        let (name, value) = line.split_once(':').unwrap();
        (name.to_ascii_lowercase(), value.trim().to_owned())
    });
    let headers: Vec<_> = headers.collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut body = vec![0; length.map_or(0, |(_, value)| value.parse().unwrap())];
    reader.read_exact(&mut body).unwrap();
    Received {
        line,
        headers,
        body,
    }
}
