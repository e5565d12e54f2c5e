//! A server within this process that answers each message at once and executes nothing. A replay against it measures the
//! tool alone.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

use event_loop::{Interest, Poller};
use protocol::EncodeError;
use protocol::backend::{
    Acknowledgement, Authentication, CommandComplete, FunctionCallResponse, KeyData,
    ParameterStatus, ReadyForQuery, TransactionStatus, data_row, parameter_description,
    row_description,
};
use protocol::format::Format;
use protocol::frame::next_frame;
use protocol::frontend::{StartupPacket, tag};

/// Token of the listener; connections have higher ones.
const LISTENER: u64 = 0;
/// Time after which the server looks whether it is to stop, in nanoseconds.
const STOP_CHECK_NS: i64 = 50_000_000;
/// Largest message that is accepted, in bytes.
const MESSAGE_BYTES_MAX: usize = 1 << 30;
/// Largest value of a row of an answer, in bytes.
const VALUE_BYTES_MAX: u64 = 8 << 10;
/// Largest answer of a statement, in bytes. Above it, reading costs little for each byte.
const ANSWER_BYTES_MAX: u64 = 1 << 20;
/// OID of `text` (`pg_type.dat`).
const TEXT_OID: u32 = 25;

/// Running server. It stops when it is dropped.
pub(super) struct AnsweringServer {
    port: u16,
    stop: Arc<AtomicBool>,
    /// Directory of its thread in `/proc`, if the system has one.
    thread_directory: Option<PathBuf>,
    thread: Option<JoinHandle<()>>,
}

impl AnsweringServer {
    /// Starts a server on a free port of the loopback interface. It answers each statement with rows of `answer_bytes` in
    /// total.
    ///
    /// # Errors
    /// If the system refuses the socket or the thread.
    pub(super) fn start(answer_bytes: u64) -> io::Result<Self> {
        let answers = Answers::new(answer_bytes).map_err(io::Error::other)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let mut event_loop = ServerLoop::new(listener, answers)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stops = stop.clone();
        let (started, directory) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("answering".to_owned())
            .spawn(move || {
                // The reader is there until it has read.
                let _ = started.send(thread_directory());
                while !stops.load(Ordering::Relaxed) && event_loop.step().is_ok() {}
            })?;
        Ok(AnsweringServer {
            port,
            stop,
            thread_directory: directory.recv().ok().flatten(),
            thread: Some(thread),
        })
    }

    /// Returns its port.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Returns the directory of its thread in `/proc`.
    pub(super) fn thread_directory(&self) -> Option<&PathBuf> {
        self.thread_directory.as_ref()
    }
}

impl Drop for AnsweringServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic was printed.
            let _ = thread.join();
        }
    }
}

fn thread_directory() -> Option<PathBuf> {
    let link = std::fs::read_link("/proc/thread-self").ok()?;
    let number = link.file_name()?;
    Some(PathBuf::from("/proc/self/task").join(number))
}

/// Encoded answers.
struct Answers {
    /// After the start-up message.
    start: Vec<u8>,
    /// Description of the rows.
    described: Vec<u8>,
    /// Rows and completion of a statement.
    executed: Vec<u8>,
    called: Vec<u8>,
    ready: Vec<u8>,
}

impl Answers {
    fn new(answer_bytes: u64) -> Result<Self, EncodeError> {
        let mut ready = Vec::new();
        let status = TransactionStatus::Idle;
        ReadyForQuery { status }.encode(&mut ready);
        let mut start = Vec::new();
        Authentication::Ok.encode(&mut start)?;
        for (name, value) in [
            ("server_version", "18.0"),
            ("server_encoding", "UTF8"),
            ("client_encoding", "UTF8"),
            ("standard_conforming_strings", "on"),
        ] {
            let (name, value) = (name.as_bytes(), value.as_bytes());
            ParameterStatus { name, value }.encode(&mut start)?;
        }
        KeyData {
            process_id: 1,
            secret_key: &[0; 4],
        }
        .encode(&mut start)?;
        start.extend(&ready);
        let mut described = Vec::new();
        let field = row_description::FieldDescription {
            name: b"value",
            table_oid: 0,
            column_number: 0,
            type_oid: TEXT_OID,
            type_bytes: -1,
            type_modifier: -1,
            format: Format::Text,
        };
        row_description::encode([field], &mut described)?;
        let mut executed = Vec::new();
        let mut rest = answer_bytes.min(ANSWER_BYTES_MAX);
        let mut rows: u64 = 0;
        while rest > 0 {
            let bytes = rest.min(VALUE_BYTES_MAX);
            data_row::encode([Some(vec![b'x'; bytes as usize])], &mut executed)?;
            (rest, rows) = (rest - bytes, rows + 1);
        }
        let tag = format!("SELECT {rows}");
        let tag = tag.as_bytes();
        CommandComplete { tag }.encode(&mut executed)?;
        let mut called = Vec::new();
        FunctionCallResponse { result: None }.encode(&mut called)?;
        called.extend(&ready);
        Ok(Answers {
            start,
            described,
            executed,
            called,
            ready,
        })
    }

    /// Appends the answer to a message of this tag. Returns `false` for the end of the session.
    fn answer(&self, message: u8, body: &[u8], output: &mut Vec<u8>) -> bool {
        match message {
            tag::QUERY => {
                output.extend(&self.described);
                output.extend(&self.executed);
                output.extend(&self.ready);
            }
            tag::PARSE => Acknowledgement::ParseComplete.encode(output),
            tag::BIND => Acknowledgement::BindComplete.encode(output),
            tag::CLOSE => Acknowledgement::CloseComplete.encode(output),
            tag::DESCRIBE => {
                if body.first() == Some(&b'S') {
                    // No parameters always fit.
                    let _ = parameter_description::encode([], output);
                }
                output.extend(&self.described);
            }
            tag::EXECUTE => output.extend(&self.executed),
            tag::FUNCTION_CALL => output.extend(&self.called),
            tag::SYNC => output.extend(&self.ready),
            tag::TERMINATE => return false,
            // Flush, and data of a COPY, which was never begun.
            _ => {}
        }
        true
    }
}

/// State of a connection.
struct Connection {
    stream: TcpStream,
    has_started: bool,
    input: Vec<u8>,
    output: Vec<u8>,
    waits_to_write: bool,
}

/// The server's event loop.
struct ServerLoop {
    listener: TcpListener,
    poller: Poller,
    connections: HashMap<u64, Connection>,
    next_token: u64,
    buffer: Vec<u8>,
    answers: Answers,
}

impl ServerLoop {
    fn new(listener: TcpListener, answers: Answers) -> io::Result<Self> {
        let poller = Poller::new()?;
        poller.add(listener.as_raw_fd(), LISTENER, Interest::Read)?;
        Ok(ServerLoop {
            listener,
            poller,
            connections: HashMap::new(),
            next_token: LISTENER + 1,
            buffer: vec![0; 1 << 16],
            answers,
        })
    }

    /// Waits for messages, and answers them.
    fn step(&mut self) -> io::Result<()> {
        self.poller.wait(STOP_CHECK_NS)?;
        for place in 0..self.poller.ready_count() {
            let token = self.poller.ready(place).token;
            if token == LISTENER {
                self.accept();
                continue;
            }
            let Some(connection) = self.connections.get_mut(&token) else {
                continue;
            };
            let served = connection.serve(&mut self.buffer, &self.answers);
            let is_kept = served.and_then(|is_open| match is_open {
                true => connection.set_interest(&self.poller, token).map(|()| true),
                false => Ok(false),
            });
            if !matches!(is_kept, Ok(true)) {
                // Closing the socket removes it from the poller.
                self.connections.remove(&token);
            }
        }
        Ok(())
    }

    fn accept(&mut self) {
        // An error other than "none waits" concerns one client only, or the limit of open files, and is tried again.
        while let Ok((stream, _)) = self.listener.accept() {
            let token = self.next_token;
            self.next_token += 1;
            let added = stream
                .set_nonblocking(true)
                .and_then(|()| stream.set_nodelay(true))
                .and_then(|()| self.poller.add(stream.as_raw_fd(), token, Interest::Read));
            if added.is_ok() {
                self.connections.insert(
                    token,
                    Connection {
                        stream,
                        has_started: false,
                        input: Vec::new(),
                        output: Vec::new(),
                        waits_to_write: false,
                    },
                );
            }
        }
    }
}

impl Connection {
    /// Reads the available messages, answers them, and writes the bytes that fit. Returns whether the connection stays open.
    fn serve(&mut self, buffer: &mut [u8], answers: &Answers) -> io::Result<bool> {
        loop {
            match event_loop::read(self.stream.as_raw_fd(), buffer) {
                Ok(0) => return Ok(false),
                Ok(read) => {
                    self.input.extend(&buffer[..read]);
                    if read < buffer.len() {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        let is_open = self.answer_input(answers)?;
        self.write()?;
        Ok(is_open)
    }

    fn answer_input(&mut self, answers: &Answers) -> io::Result<bool> {
        let mut used = 0;
        let mut is_open = true;
        while is_open {
            let rest = &self.input[used..];
            if !self.has_started {
                let Some((length, body)) = rest.split_first_chunk::<4>() else {
                    break;
                };
                let bytes = (u32::from_be_bytes(*length) as usize).saturating_sub(4);
                let Some(body) = body.get(..bytes) else {
                    break;
                };
                match StartupPacket::decode(body).map_err(io::Error::other)? {
                    StartupPacket::SslRequest | StartupPacket::GssEncRequest => {
                        self.output.push(b'N');
                    }
                    StartupPacket::Cancel(_) => is_open = false,
                    StartupPacket::Startup(_) => {
                        self.has_started = true;
                        self.output.extend(&answers.start);
                    }
                }
                used += 4 + bytes;
                continue;
            }
            let frame = next_frame(rest, MESSAGE_BYTES_MAX).map_err(io::Error::other)?;
            let Some(frame) = frame else { break };
            is_open = answers.answer(frame.tag, frame.body, &mut self.output);
            used += frame.message_bytes();
        }
        self.input.drain(..used);
        Ok(is_open)
    }

    fn write(&mut self) -> io::Result<()> {
        let mut written = 0;
        while written < self.output.len() {
            match event_loop::write(self.stream.as_raw_fd(), &self.output[written..]) {
                Ok(bytes) => written += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        self.output.drain(..written);
        Ok(())
    }

    /// Waits for room only while there is something to write.
    fn set_interest(&mut self, poller: &Poller, token: u64) -> io::Result<()> {
        let waits = !self.output.is_empty();
        if waits != self.waits_to_write {
            self.waits_to_write = waits;
            let interest = match waits {
                true => Interest::ReadAndWrite,
                false => Interest::Read,
            };
            poller.change(self.stream.as_raw_fd(), token, interest)?;
        }
        Ok(())
    }
}
