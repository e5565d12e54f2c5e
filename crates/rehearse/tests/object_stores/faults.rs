//! A link to a server that fails in chosen ways.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Failure of a connection.
#[derive(Debug, Clone, Copy)]
pub enum Fault {
    /// Everything is passed on.
    None,
    /// The request is answered with 503, as a throttling store does.
    Throttled,
    /// The connection is closed after this many bytes of answers.
    CutAfter(usize),
    /// Requests that write are answered with 403.
    DeniesWrites,
}

/// A running link.
pub struct FaultyLink {
    /// Port on this machine.
    pub port: u16,
    faults: Arc<AtomicUsize>,
}

impl FaultyLink {
    /// Starts a link to a port of this machine. Connections take the faults in turn.
    pub fn start(server: u16, faults: &[Fault]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let count = Arc::new(AtomicUsize::new(0));
        let (counted, faults) = (count.clone(), faults.to_vec());
        std::thread::spawn(move || {
            for (number, client) in listener.incoming().enumerate() {
                let fault = faults[number % faults.len()];
                if !matches!(fault, Fault::None) {
                    counted.fetch_add(1, Ordering::Relaxed);
                }
                std::thread::spawn(move || {
                    // A client that closes its connection first is no failure of the test.
                    let _ = serve(client.unwrap(), server, fault);
                });
            }
        });
        FaultyLink {
            port,
            faults: count,
        }
    }

    /// Returns the number of connections with a fault.
    pub fn faults(&self) -> usize {
        self.faults.load(Ordering::Relaxed)
    }
}

fn serve(mut client: TcpStream, server: u16, fault: Fault) -> io::Result<()> {
    let mut first = [0; 16 << 10];
    let read = client.read(&mut first)?;
    let answer = |status: &str| {
        format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    };
    let limit = match fault {
        Fault::Throttled => {
            return client.write_all(answer("503 Slow Down").as_bytes());
        }
        Fault::DeniesWrites if first.starts_with(b"PUT") || first.starts_with(b"POST") => {
            return client.write_all(answer("403 Forbidden").as_bytes());
        }
        Fault::CutAfter(bytes) => bytes,
        _ => usize::MAX,
    };
    let mut upstream = TcpStream::connect(("127.0.0.1", server))?;
    upstream.write_all(&first[..read])?;
    let (mut from, mut to) = (client.try_clone()?, upstream.try_clone()?);
    std::thread::spawn(move || io::copy(&mut from, &mut to));
    let passed = io::copy(&mut (&mut upstream).take(limit as u64), &mut client);
    client.shutdown(Shutdown::Both)?;
    passed.map(|_| ())
}
