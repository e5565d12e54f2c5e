//! The conversation from the first message to the first ReadyForQuery, and what the server is:
//! who the client is. The questions behind it are asked in `asking.rs`.

use std::io::{Read, Write};

use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{
    ChannelBinding, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, ScramSha256,
};
use protocol::backend::Authentication;
use protocol::frontend::{PasswordMessage, SaslInitialResponse, SaslResponse, startup};
use protocol::{PROTOCOL_3_0, backend, next_frame};

use super::{Dialer, Failure, Known, Login, LoginError, NO_PASSWORD, NO_POSTGRESQL};
use crate::dial::{Channel, is_timeout};
use crate::tls::end_point;
use crate::{Binding, Method, Server, SessionAttributes};

/// Start-up answers are small; a server that sends more is none.
const STARTUP_MESSAGE_BYTES_MAX: usize = 1 << 20;

pub(super) struct StartUp<'a> {
    dialer: &'a Dialer,
    pub(super) server: Server,
    pub(super) channel: Channel,
    unread: Vec<u8>,
    pub(super) out: Vec<u8>,
    pub(super) known: Known,
    /// The connection is gone.
    pub(super) over: bool,
}

/// A message of the server's, copied out of the buffer.
pub(super) struct Reply {
    pub(super) tag: u8,
    pub(super) body: Vec<u8>,
}

/// The server's refusal, if that is what it is.
pub(super) fn refusal(reply: &Reply) -> Option<LoginError> {
    match backend::Message::decode(reply.tag, &reply.body) {
        Ok(backend::Message::ErrorResponse(error)) => {
            let sqlstate = error.sqlstate().unwrap_or(NO_POSTGRESQL);
            let message = error.message().unwrap_or_default();
            Some(LoginError::new(sqlstate, message))
        }
        _ => None,
    }
}

impl<'a> StartUp<'a> {
    pub(super) fn new(dialer: &'a Dialer, server: &Server, channel: Channel) -> Self {
        StartUp {
            dialer,
            server: server.clone(),
            channel,
            unread: Vec::new(),
            out: Vec::new(),
            known: Known::default(),
            over: false,
        }
    }

    pub(super) fn finish(self) -> (Vec<u8>, Known, Channel) {
        (self.unread, self.known, self.channel)
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.channel.tls().is_some()
    }

    pub(super) fn begin(&mut self, login: &Login) -> Result<(), Failure> {
        let mut parameters: Vec<(&[u8], &[u8])> = vec![
            (b"user", login.user.as_bytes()),
            (b"database", login.database.as_bytes()),
        ];
        let is_encoding = |name: &str| name.eq_ignore_ascii_case("client_encoding");
        if !login.settings.iter().any(|(name, _)| is_encoding(name)) {
            // Texts of our own, and those of a log, are UTF-8.
            parameters.push((b"client_encoding", b"UTF8"));
        }
        let mut options = self.dialer.target.start_up_options();
        for (name, value) in login.settings.iter() {
            match &**name {
                // The target's come last: they are what the user asks of this replay.
                "options" => options = format!("{value} {options}").trim_end().to_owned(),
                name if is_encoding(name) && value.is_empty() => {}
                // The server would take it, and not what `options` says (`process_startup_options`).
                name if self.dialer.target.sets(name) => {}
                name => parameters.push((name.as_bytes(), value.as_bytes())),
            }
        }
        if !login.application.is_empty() {
            parameters.push((b"application_name", login.application.as_bytes()));
        }
        if !options.is_empty() {
            parameters.push((b"options", options.as_bytes()));
        }
        startup::encode(PROTOCOL_3_0, parameters, &mut self.out)
            .map_err(|error| LoginError::new(NO_POSTGRESQL, error.to_string()))?;
        self.send()
    }

    fn violated(&self, reason: impl std::fmt::Display) -> LoginError {
        LoginError::new(
            NO_POSTGRESQL,
            format!("{} does not answer like PostgreSQL: {reason}", self.server),
        )
    }

    fn failed(&self, error: std::io::Error) -> Failure {
        let another_host = is_timeout(&error);
        Failure {
            another_host,
            ..Failure::from(self.dialer.failed(&self.server, error))
        }
    }

    pub(super) fn send(&mut self) -> Result<(), Failure> {
        let result = self
            .channel
            .write_all(&self.out)
            .and_then(|()| self.channel.flush());
        self.out.clear();
        result.map_err(|error| self.failed(error))
    }

    /// The next message; the server's refusal as an error, notices left out.
    fn receive(&mut self) -> Result<Reply, Failure> {
        let reply = self.receive_any(STARTUP_MESSAGE_BYTES_MAX)?;
        match refusal(&reply) {
            Some(error) => Err(error.into()),
            None => Ok(reply),
        }
    }

    /// The next message, notices left out.
    pub(super) fn receive_any(&mut self, bytes_max: usize) -> Result<Reply, Failure> {
        loop {
            let frame =
                next_frame(&self.unread, bytes_max).map_err(|error| self.violated(error))?;
            if let Some(frame) = frame {
                let reply = Reply {
                    tag: frame.tag,
                    body: frame.body.to_vec(),
                };
                let taken = frame.message_bytes();
                self.unread.drain(..taken);
                match backend::Message::decode(reply.tag, &reply.body) {
                    Ok(backend::Message::NoticeResponse(_)) => continue,
                    Ok(_) => return Ok(reply),
                    Err(error) => return Err(self.violated(error).into()),
                }
            }
            let mut buffer = [0; 16_384];
            let read = self
                .channel
                .read(&mut buffer)
                .map_err(|error| self.failed(error))?;
            if read == 0 {
                return Err(self.violated("it closed the connection").into());
            }
            self.unread.extend_from_slice(&buffer[..read]);
        }
    }

    pub(super) fn authenticate(&mut self, login: &Login) -> Result<(), Failure> {
        let mut scram: Option<ScramSha256> = None;
        let mut is_bound = false;
        // What the server has asked for, and whether it has proved that it knows it.
        let mut method = Method::None;
        let mut proved = true;
        loop {
            let reply = self.receive()?;
            if reply.tag == backend::tag::NEGOTIATE_PROTOCOL_VERSION {
                continue;
            }
            if reply.tag != backend::tag::AUTHENTICATION {
                let tag = reply.tag as char;
                return Err(self
                    .violated(format!("message '{tag}' before authentication"))
                    .into());
            }
            let request =
                Authentication::decode(&reply.body).map_err(|error| self.violated(error))?;
            match request {
                Authentication::Ok => {
                    if !proved {
                        return Err(self.violated("it ended SCRAM half-way").into());
                    }
                    self.check_binding(is_bound, method)?;
                    self.check_method(method)?;
                    return Ok(());
                }
                Authentication::CleartextPassword => {
                    method = Method::Password;
                    self.check_binding(false, method)?;
                    self.check_method(method)?;
                    let password = self.password(login)?;
                    self.send_password(password.as_bytes())?;
                }
                Authentication::Md5Password { salt } => {
                    method = Method::Md5;
                    self.check_binding(false, method)?;
                    self.check_method(method)?;
                    let password = self.password(login)?;
                    let hashed = md5_hash(login.user.as_bytes(), password.as_bytes(), salt);
                    self.send_password(hashed.as_bytes())?;
                }
                Authentication::Sasl { mechanisms } => {
                    method = Method::Scram;
                    self.check_method(method)?;
                    let offers =
                        |wanted: &str| mechanisms.iter().any(|name| name == wanted.as_bytes());
                    let (mechanism, binding) =
                        if offers(SCRAM_SHA_256_PLUS) || offers(SCRAM_SHA_256) {
                            self.mechanism(offers(SCRAM_SHA_256_PLUS))
                        } else {
                            return Err(self.violated("it offers no SCRAM-SHA-256").into());
                        };
                    is_bound = mechanism == SCRAM_SHA_256_PLUS;
                    self.check_binding(is_bound, method)?;
                    if !offers(mechanism) {
                        return Err(self.violated("it offers SCRAM-SHA-256-PLUS alone").into());
                    }
                    proved = false;
                    let password = self.password(login)?;
                    let exchange = ScramSha256::new(password.as_bytes(), binding);
                    SaslInitialResponse {
                        mechanism: mechanism.as_bytes(),
                        data: Some(exchange.message()),
                    }
                    .encode(&mut self.out)
                    .map_err(|error| self.violated(error))?;
                    scram = Some(exchange);
                    self.send()?;
                }
                Authentication::SaslContinue { data } => {
                    let exchange = scram
                        .as_mut()
                        .ok_or_else(|| self.violated("SASL out of order"))?;
                    exchange
                        .update(data)
                        .map_err(|error| self.violated(error))?;
                    SaslResponse {
                        data: exchange.message(),
                    }
                    .encode(&mut self.out)
                    .map_err(|error| self.violated(error))?;
                    self.send()?;
                }
                Authentication::SaslFinal { data } => {
                    let exchange = scram
                        .as_mut()
                        .ok_or_else(|| self.violated("SASL out of order"))?;
                    exchange.finish(data).map_err(|_| {
                        self.violated("it does not know the password that it asks for")
                    })?;
                    proved = true;
                }
                _ => {
                    return Err(LoginError::new(
                        NO_PASSWORD,
                        format!(
                            "{} asks for an authentication that replay cannot do (GSSAPI or SSPI); allow scram-sha-256 for role \"{}\" in pg_hba.conf",
                            self.server, login.user
                        ),
                    )
                    .into());
                }
            }
        }
    }

    /// With which mechanism, and bound to what. Where a channel could be bound and the server does
    /// not offer it, it is told so: it finds out if that was somebody else's doing.
    fn mechanism(&self, offers_plus: bool) -> (&'static str, ChannelBinding) {
        let wanted = self.dialer.target.security.binding != Binding::Disable;
        let end_point = self.channel.tls().filter(|_| wanted).and_then(end_point);
        match end_point {
            Some(hash) if offers_plus => (
                SCRAM_SHA_256_PLUS,
                ChannelBinding::tls_server_end_point(hash),
            ),
            Some(_) => (SCRAM_SHA_256, ChannelBinding::unrequested()),
            None => (SCRAM_SHA_256, ChannelBinding::unsupported()),
        }
    }

    fn check_binding(&self, is_bound: bool, method: Method) -> Result<(), LoginError> {
        if is_bound || self.dialer.target.security.binding != Binding::Require {
            return Ok(());
        }
        let why = match (self.channel.tls(), method) {
            (None, _) => "the connection has no TLS".to_owned(),
            (_, Method::Scram) => "its server or its certificate does not allow it".to_owned(),
            (_, method) => format!("the server asks for {}", method.name()),
        };
        Err(LoginError::new(
            NO_PASSWORD,
            format!(
                "{} cannot be authenticated with channel binding (channel_binding=require): {why}; use TLS and scram-sha-256, or channel_binding=prefer",
                self.server
            ),
        ))
    }

    fn check_method(&self, method: Method) -> Result<(), LoginError> {
        match &self.dialer.target.security.methods {
            Some(allowed) if !allowed.contains(&method) => Err(LoginError::new(
                NO_PASSWORD,
                format!(
                    "{} asks for the authentication {}, which require_auth does not allow",
                    self.server,
                    method.name()
                ),
            )),
            _ => Ok(()),
        }
    }

    fn password(&self, login: &Login) -> Result<String, LoginError> {
        let target = &self.dialer.target;
        if let Some(password) = target.password_for(&self.server, &login.user, &login.database) {
            return Ok(password);
        }
        // libpq warns of a file that it does not use; here that may be the reason.
        let unused = match (target.password_file.path(), target.password_file.check()) {
            (Some(path), Err(problem)) if path.exists() => {
                format!(" ({} was not used: {problem})", path.display())
            }
            _ => String::new(),
        };
        Err(LoginError::new(
            NO_PASSWORD,
            format!(
                "the server asks for the password of role \"{}\" and none was given{unused}; put it into PGPASSWORD, the password file (.pgpass) or the URL",
                login.user
            ),
        ))
    }

    fn send_password(&mut self, password: &[u8]) -> Result<(), Failure> {
        PasswordMessage { password }
            .encode(&mut self.out)
            .map_err(|error| LoginError::new(NO_PASSWORD, error.to_string()))?;
        self.send()
    }

    /// Reads what the server says of itself, until the first ReadyForQuery.
    pub(super) fn until_ready(&mut self) -> Result<(), Failure> {
        loop {
            let reply = self.receive()?;
            match backend::Message::decode(reply.tag, &reply.body) {
                Ok(backend::Message::ReadyForQuery(_)) => return Ok(()),
                Ok(backend::Message::ParameterStatus(status)) => {
                    self.known.parameter(status.name, status.value);
                }
                Ok(backend::Message::KeyData(key)) => self.known.key(&key),
                _ => {}
            }
        }
    }

    /// Is the server what it should be?
    pub(super) fn check_session(&mut self, wanted: SessionAttributes) -> Result<(), Failure> {
        let (fits, what) = match wanted {
            SessionAttributes::Any | SessionAttributes::PreferStandby => return Ok(()),
            SessionAttributes::ReadWrite => (!self.is_read_only()?, "takes no writes"),
            SessionAttributes::ReadOnly => (self.is_read_only()?, "takes writes"),
            SessionAttributes::Primary => (!self.is_standby()?, "is a standby"),
            SessionAttributes::Standby => (self.is_standby()?, "is no standby"),
        };
        if fits {
            return Ok(());
        }
        Err(Failure::other_session(format!(
            "{} {what}, which target_session_attrs does not allow",
            self.server
        )))
    }

    fn is_standby(&mut self) -> Result<bool, Failure> {
        match self.known.in_hot_standby {
            Some(is) => Ok(is),
            None => Ok(self.ask("SELECT pg_catalog.pg_is_in_recovery()")? == "t"),
        }
    }

    fn is_read_only(&mut self) -> Result<bool, Failure> {
        match (self.known.default_read_only, self.known.in_hot_standby) {
            (Some(by_default), Some(standby)) => Ok(by_default || standby),
            _ => Ok(self.ask("SHOW transaction_read_only")? == "on"),
        }
    }

    /// Becomes another role, for the whole session.
    pub(super) fn become_role(&mut self, role: &str) -> Result<(), Failure> {
        let sql = format!("SET ROLE \"{}\"", role.replace('"', "\"\""));
        self.ask(&sql).map(|_| ()).map_err(|failure| Failure {
            error: LoginError::new(
                failure.error.sqlstate,
                format!(
                    "the role \"{role}\" cannot be set after the login: {}; GRANT it to the login's role, or leave --set-role out",
                    failure.error.message
                ),
            ),
            another_way: false,
            another_host: failure.another_host,
        })
    }

    /// The first value of the answer to a statement.
    fn ask(&mut self, sql: &str) -> Result<String, Failure> {
        let rows = self.question(sql)?;
        let first = rows
            .into_iter()
            .next()
            .and_then(|row| row.into_iter().next());
        Ok(first.flatten().unwrap_or_default())
    }
}
