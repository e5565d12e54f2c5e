//! Address and user of a sandbox.

use std::fmt;
use std::path::PathBuf;

/// Address and user of a sandbox.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Address `127.0.0.1`, if it listens on TCP.
    pub host: Option<String>,
    /// Directory of its Unix socket, if it has one.
    pub socket_dir: Option<PathBuf>,
    /// Port, which is also part of the socket's name.
    pub port: u16,
    /// Superuser.
    pub user: String,
    /// Password of the superuser over TCP, if known.
    pub password: Option<String>,
    /// File with that password, as libpq reads it (`passfile`), if there is one.
    pub password_file: Option<PathBuf>,
}

impl Endpoint {
    /// Returns a `postgres://` URL of one of its databases, over TCP if it listens there, otherwise over its
    /// Unix socket. The one over TCP includes the password, so it is not to be shown.
    pub fn url(&self, database: &str) -> String {
        match (&self.host, self.socket_url(database)) {
            (Some(host), _) => self.url_at(host, self.password.as_deref(), database),
            (None, Some(url)) => url,
            (None, None) => unreachable!("a sandbox listens somewhere"),
        }
    }

    /// Returns such a URL over its Unix socket, if it has one. No password is needed there.
    pub fn socket_url(&self, database: &str) -> Option<String> {
        let dir = self.socket_dir.as_ref()?;
        let host = encode(dir.as_os_str().as_encoded_bytes());
        Some(self.url_at(&host, None, database))
    }

    /// Returns such a URL without a password. Over TCP it names the password file instead.
    pub fn url_to_show(&self, database: &str) -> String {
        let shown = Self {
            password: None,
            ..self.clone()
        };
        let url = shown.url(database);
        match (&self.host, &self.password_file) {
            (Some(_), Some(file)) => {
                let file = encode(file.as_os_str().as_encoded_bytes());
                format!("{url}?passfile={file}")
            }
            _ => url,
        }
    }

    fn url_at(&self, host: &str, password: Option<&str>, database: &str) -> String {
        let password = match password {
            Some(password) => format!(":{}", encode(password.as_bytes())),
            None => String::new(),
        };
        format!(
            "postgres://{}{password}@{host}:{}/{}",
            encode(self.user.as_bytes()),
            self.port,
            encode(database.as_bytes())
        )
    }
}

impl fmt::Debug for Endpoint {
    /// Omits the password, which must not appear in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("host", &self.host)
            .field("socket_dir", &self.socket_dir)
            .field("port", &self.port)
            .field("user", &self.user)
            .field("password", &self.password.as_ref().map(|_| "…"))
            .field("password_file", &self.password_file)
            .finish()
    }
}

fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(byte as char);
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_back_as_they_were_meant() {
        let mut endpoint = Endpoint {
            host: Some("127.0.0.1".to_owned()),
            socket_dir: Some("/tmp/a b".into()),
            port: 6543,
            user: "postgres".to_owned(),
            password: Some("p@ss/wörd".to_owned()),
            password_file: Some("/tmp/a b/password".into()),
        };
        let config: postgres::Config = endpoint.url("my db").parse().unwrap();
        assert_eq!(
            config.get_hosts(),
            [postgres::config::Host::Tcp("127.0.0.1".to_owned())]
        );
        assert_eq!(config.get_ports(), [6543]);
        assert_eq!(config.get_dbname(), Some("my db"));
        assert_eq!(config.get_password(), Some("p@ss/wörd".as_bytes()));

        let shown = endpoint.url_to_show("my db");
        assert_eq!(
            shown,
            "postgres://postgres@127.0.0.1:6543/my%20db?passfile=%2Ftmp%2Fa%20b%2Fpassword"
        );

        endpoint.host = None;
        let config: postgres::Config = endpoint.url("postgres").parse().unwrap();
        assert_eq!(
            config.get_hosts(),
            [postgres::config::Host::Unix("/tmp/a b".into())]
        );
        assert!(!format!("{endpoint:?}").contains("p@ss"));
    }
}
