//! Start-up of a connection, from the first message to the first ReadyForQuery, with authentication and the
//! check of the server's state. Later queries are in `query.rs`.

use std::io::{Read, Write};

use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{
    ChannelBinding, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, ScramSha256,
};
use protocol::backend::{Authentication, Mechanisms};
use protocol::frontend::{PasswordMessage, SaslInitialResponse, SaslResponse, startup};
use protocol::{PROTOCOL_3_0, backend, next_frame};

use super::{Dialer, Failure, Login, LoginError, NO_PASSWORD, NO_POSTGRESQL, ServerFacts};
use crate::dial::{Channel, is_timeout};
use crate::tls::end_point;
use crate::warning::warn_once;
use crate::{AuthMethod, ChannelBindingMode, Host, Server, SessionAttributes};

/// Maximum size of all messages between two requests, notices included. No query of this program has a larger answer.
const ANSWER_BYTES_MAX: u64 = 256 << 20;
/// Maximum size of a start-up reply. A PostgreSQL server sends none that is larger.
const STARTUP_MESSAGE_BYTES_MAX: usize = 1 << 20;

pub(super) struct StartUp<'a> {
    dialer: &'a Dialer,
    pub(super) server: Server,
    pub(super) channel: Channel,
    unread: Vec<u8>,
    /// Bytes received since the last request.
    answer_bytes: u64,
    pub(super) out: Vec<u8>,
    pub(super) facts: ServerFacts,
    /// The connection is closed.
    pub(super) is_closed: bool,
}

/// State of a SCRAM authentication.
struct Scram {
    exchange: ScramSha256,
    /// It is bound to the TLS channel.
    is_bound: bool,
    /// The server has proved that it knows the password.
    is_proved: bool,
}

/// A message of the server, copied out of the buffer.
pub(super) struct Reply {
    pub(super) tag: u8,
    pub(super) body: Vec<u8>,
}

/// Returns the server's error, if the message is one.
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
            answer_bytes: 0,
            out: Vec::new(),
            facts: ServerFacts::default(),
            is_closed: false,
        }
    }

    pub(super) fn finish(self) -> (Vec<u8>, ServerFacts, Channel) {
        (self.unread, self.facts, self.channel)
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
            // Queries of this program and texts of a log are UTF-8.
            parameters.push((b"client_encoding", b"UTF8"));
        }
        let mut options = self.dialer.target.start_up_options();
        for (name, value) in login.settings.iter() {
            match &**name {
                // The target's options come last, since the user chose them for this replay.
                "options" => options = format!("{value} {options}").trim_end().to_owned(),
                name if is_encoding(name) && value.is_empty() => {}
                // The server would use it instead of the value in `options` (`process_startup_options`).
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
        self.answer_bytes = 0;
        result.map_err(|error| self.failed(error))
    }

    /// Returns the next message, except notices. An error message is returned as an error.
    fn receive(&mut self) -> Result<Reply, Failure> {
        let reply = self.receive_any(STARTUP_MESSAGE_BYTES_MAX)?;
        match refusal(&reply) {
            Some(error) => Err(error.into()),
            None => Ok(reply),
        }
    }

    /// Returns the next message, except notices.
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
            self.answer_bytes += read as u64;
            if self.answer_bytes > ANSWER_BYTES_MAX {
                return Err(self.violated("its answer is larger than 256 MiB").into());
            }
            self.unread.extend_from_slice(&buffer[..read]);
        }
    }

    pub(super) fn authenticate(&mut self, login: &Login) -> Result<(), Failure> {
        let mut scram: Option<Scram> = None;
        // The method that the server requested.
        let mut method = AuthMethod::None;
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
                    if scram.as_ref().is_some_and(|scram| !scram.is_proved) {
                        return Err(self.violated("it ended SCRAM half-way").into());
                    }
                    let is_bound = scram.as_ref().is_some_and(|scram| scram.is_bound);
                    self.check_binding(is_bound, method)?;
                    self.check_method(method)?;
                    return Ok(());
                }
                Authentication::CleartextPassword => {
                    method = AuthMethod::Password;
                    self.check_binding(false, method)?;
                    self.check_method(method)?;
                    let password = self.password(login)?;
                    self.warn_of_clear_text(login);
                    self.send_password(password.as_bytes())?;
                }
                Authentication::Md5Password { salt } => {
                    method = AuthMethod::Md5;
                    self.check_binding(false, method)?;
                    self.check_method(method)?;
                    let password = self.password(login)?;
                    let hashed = md5_hash(login.user.as_bytes(), password.as_bytes(), salt);
                    self.send_password(hashed.as_bytes())?;
                }
                Authentication::Sasl { mechanisms } => {
                    method = AuthMethod::Scram;
                    self.check_method(method)?;
                    scram = Some(self.begin_scram(&mechanisms, login)?);
                }
                Authentication::SaslContinue { data } => {
                    let exchange = &mut scram
                        .as_mut()
                        .ok_or_else(|| self.violated("SASL out of order"))?
                        .exchange;
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
                    let scram = scram
                        .as_mut()
                        .ok_or_else(|| self.violated("SASL out of order"))?;
                    scram.exchange.finish(data).map_err(|_| {
                        self.violated("it does not know the password that it asks for")
                    })?;
                    scram.is_proved = true;
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

    /// Sends the first message of SCRAM.
    fn begin_scram(
        &mut self,
        mechanisms: &Mechanisms<'_>,
        login: &Login,
    ) -> Result<Scram, Failure> {
        let offers = |wanted: &str| mechanisms.iter().any(|name| name == wanted.as_bytes());
        if !offers(SCRAM_SHA_256_PLUS) && !offers(SCRAM_SHA_256) {
            return Err(self.violated("it offers no SCRAM-SHA-256").into());
        }
        let (mechanism, binding) = self.mechanism(offers(SCRAM_SHA_256_PLUS));
        let is_bound = mechanism == SCRAM_SHA_256_PLUS;
        self.check_binding(is_bound, AuthMethod::Scram)?;
        if !offers(mechanism) {
            return Err(self.violated("it offers SCRAM-SHA-256-PLUS alone").into());
        }
        let password = self.password(login)?;
        let exchange = ScramSha256::new(password.as_bytes(), binding);
        SaslInitialResponse {
            mechanism: mechanism.as_bytes(),
            data: Some(exchange.message()),
        }
        .encode(&mut self.out)
        .map_err(|error| self.violated(error))?;
        self.send()?;
        Ok(Scram {
            exchange,
            is_bound,
            is_proved: false,
        })
    }

    /// Returns the mechanism and its channel binding. If binding is possible and the server does not offer
    /// it, the server is notified, so that it can detect an attacker who removed the offer.
    fn mechanism(&self, offers_plus: bool) -> (&'static str, ChannelBinding) {
        let wanted = self.dialer.target.security.binding != ChannelBindingMode::Disable;
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

    fn check_binding(&self, is_bound: bool, method: AuthMethod) -> Result<(), LoginError> {
        if is_bound || self.dialer.target.security.binding != ChannelBindingMode::Require {
            return Ok(());
        }
        let why = match (self.channel.tls(), method) {
            (None, _) => "the connection has no TLS".to_owned(),
            (_, AuthMethod::Scram) => "its server or its certificate does not allow it".to_owned(),
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

    fn check_method(&self, method: AuthMethod) -> Result<(), LoginError> {
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
        // libpq warns about a file that it does not use, which may be the reason here.
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

    /// Warns before a password is sent that everybody on the way can read.
    fn warn_of_clear_text(&self, login: &Login) {
        let is_socket = matches!(self.server.host, Some(Host::Unix(_) | Host::Abstract(_)));
        if !self.is_encrypted() && !is_socket {
            warn_once(format!(
                "the password of role \"{}\" goes to {} in clear text, since the server asks for it so and the \
                 connection has no TLS; use sslmode=verify-full, or require_auth=scram-sha-256 to refuse this",
                login.user, self.server
            ));
        }
    }

    fn send_password(&mut self, password: &[u8]) -> Result<(), Failure> {
        PasswordMessage { password }
            .encode(&mut self.out)
            .map_err(|error| LoginError::new(NO_PASSWORD, error.to_string()))?;
        self.send()
    }

    /// Reads the server's parameters until the first ReadyForQuery.
    pub(super) fn until_ready(&mut self) -> Result<(), Failure> {
        loop {
            let reply = self.receive()?;
            match backend::Message::decode(reply.tag, &reply.body) {
                Ok(backend::Message::ReadyForQuery(_)) => return Ok(()),
                Ok(backend::Message::ParameterStatus(status)) => {
                    self.facts.parameter(status.name, status.value);
                }
                Ok(backend::Message::KeyData(key)) => self.facts.key(&key),
                _ => {}
            }
        }
    }

    /// Checks whether the server has the required state.
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
        match self.facts.in_hot_standby {
            Some(is) => Ok(is),
            None => Ok(self.ask("SELECT pg_catalog.pg_is_in_recovery()")? == "t"),
        }
    }

    fn is_read_only(&mut self) -> Result<bool, Failure> {
        match (self.facts.default_read_only, self.facts.in_hot_standby) {
            (Some(by_default), Some(standby)) => Ok(by_default || standby),
            _ => Ok(self.ask("SHOW transaction_read_only")? == "on"),
        }
    }

    /// Sets the role for the whole session.
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

    /// Returns the first value of the result of a statement.
    fn ask(&mut self, sql: &str) -> Result<String, Failure> {
        let rows = self.query(sql)?;
        let first = rows
            .into_iter()
            .next()
            .and_then(|row| row.into_iter().next());
        Ok(first.flatten().unwrap_or_default())
    }
}
