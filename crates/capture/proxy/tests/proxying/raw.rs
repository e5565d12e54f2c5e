//! A client under full control of the test, with or without TLS, that logs in by SCRAM.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use postgres_protocol::authentication::sasl::{
    ChannelBinding, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, ScramSha256,
};
use protocol::backend;
use protocol::backend::Authentication;
use protocol::frontend::{Query, SaslInitialResponse, SaslResponse, StartupPacket, startup};
use protocol::{PROTOCOL_3_0, next_frame};
use rustls::{ClientConnection, StreamOwned};

use super::recordings::PATIENCE;

enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

pub struct Raw {
    stream: Stream,
    unread: Vec<u8>,
}

/// Kind and body of a message.
pub type Said = (u8, Vec<u8>);

impl Raw {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Raw {
            stream: Stream::Plain(stream),
            unread: Vec::new(),
        }
    }

    /// Sends a request for encryption, and returns the answer.
    pub fn ask(&mut self, packet: StartupPacket<'_>) -> u8 {
        let mut out = Vec::new();
        packet.encode(&mut out).unwrap();
        self.send(&out);
        let mut answer = [0];
        self.read_exact(&mut answer).unwrap();
        answer[0]
    }

    /// Continues with TLS.
    pub fn encrypt(self, connection: ClientConnection) -> Self {
        let Stream::Plain(stream) = self.stream else {
            panic!("it has TLS already")
        };
        Raw {
            stream: Stream::Tls(Box::new(StreamOwned::new(connection, stream))),
            unread: Vec::new(),
        }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        match &mut self.stream {
            Stream::Plain(stream) => stream.write_all(bytes).unwrap(),
            Stream::Tls(stream) => {
                stream.write_all(bytes).unwrap();
                stream.flush().unwrap();
            }
        }
    }

    /// Shuts down sending.
    pub fn end_writing(&mut self) {
        let Stream::Plain(stream) = &self.stream else {
            panic!("it has TLS")
        };
        stream.shutdown(std::net::Shutdown::Write).unwrap();
    }

    pub fn begin(&mut self, user: &str, further: &[(&str, &str)]) {
        let all = [("user", user), ("database", "postgres")];
        let parameters = all
            .iter()
            .chain(further)
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let mut out = Vec::new();
        startup::encode(PROTOCOL_3_0, parameters, &mut out).unwrap();
        self.send(&out);
    }

    /// Begins a session of the superuser, and logs in.
    pub fn begin_as_superuser(&mut self, further: &[(&str, &str)]) {
        self.begin("postgres", further);
        self.offered();
        self.log_in("proxy", ChannelBinding::unsupported(), false)
            .unwrap();
    }

    pub fn query(&mut self, sql: &str) {
        let mut out = Vec::new();
        let sql = sql.as_bytes();
        Query { sql }.encode(&mut out).unwrap();
        self.send(&out);
    }

    /// Returns the next message; `None` at the end.
    pub fn next(&mut self) -> Option<Said> {
        loop {
            if let Some(frame) = next_frame(&self.unread, 1 << 24).unwrap() {
                let said = (frame.tag, frame.body.to_vec());
                let taken = frame.message_bytes();
                self.unread.drain(..taken);
                return Some(said);
            }
            let mut buffer = [0; 1 << 16];
            match self.read(&mut buffer) {
                Ok(0) => return None,
                Ok(read) => self.unread.extend_from_slice(&buffer[..read]),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return None,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Returns everything up to the end, or the next ReadyForQuery.
    pub fn until_ready(&mut self) -> Vec<Said> {
        let mut all = Vec::new();
        while let Some(said) = self.next() {
            let ready = said.0 == backend::tag::READY_FOR_QUERY;
            all.push(said);
            if ready {
                break;
            }
        }
        all
    }

    /// Returns the mechanisms that the server offers.
    pub fn offered(&mut self) -> Vec<String> {
        let (tag, body) = self.next().unwrap();
        let decoded = backend::Message::decode(tag, &body).unwrap();
        let backend::Message::Authentication(Authentication::Sasl { mechanisms }) = decoded else {
            panic!("{decoded:?}")
        };
        let names = mechanisms.iter();
        names
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .collect()
    }

    /// Logs in by SCRAM with this channel binding, or without. Returns the server's refusal, if
    /// there is one.
    pub fn log_in(
        &mut self,
        password: &str,
        binding: ChannelBinding,
        bound: bool,
    ) -> Result<(), String> {
        let mechanism = match bound {
            true => SCRAM_SHA_256_PLUS,
            false => SCRAM_SHA_256,
        };
        let mut scram = ScramSha256::new(password.as_bytes(), binding);
        let mut out = Vec::new();
        SaslInitialResponse {
            mechanism: mechanism.as_bytes(),
            data: Some(scram.message()),
        }
        .encode(&mut out)
        .unwrap();
        self.send(&out);
        loop {
            let (tag, body) = self.next().expect("an answer");
            match backend::Message::decode(tag, &body).unwrap() {
                backend::Message::Authentication(Authentication::SaslContinue { data }) => {
                    scram.update(data).unwrap();
                    out.clear();
                    let data = scram.message();
                    SaslResponse { data }.encode(&mut out).unwrap();
                    self.send(&out);
                }
                backend::Message::Authentication(Authentication::SaslFinal { data }) => {
                    scram.finish(data).unwrap();
                }
                backend::Message::ErrorResponse(error) => {
                    return Err(error.message().unwrap_or_default().into_owned());
                }
                backend::Message::ReadyForQuery(_) => return Ok(()),
                _ => {}
            }
        }
    }
}

impl Read for Raw {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.stream {
            Stream::Plain(stream) => stream.read(buffer),
            Stream::Tls(stream) => stream.read(buffer),
        }
    }
}
