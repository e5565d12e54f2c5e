//! Private servers of tests, copied from a template cluster instead of made by `initdb`.

mod template;

use postgres::{Client, NoTls};
use sandbox::{Dirs, Endpoint, Installation, Options, Password, Sandbox, ServerRequirements};

/// Options of a test's server.
#[derive(Debug, Clone, Default)]
pub struct ServerBuilder {
    major: Option<u16>,
    places: Option<Dirs>,
    options: Options,
    /// Whether it offers TLS.
    #[cfg(feature = "tls")]
    tls: bool,
}

/// Returns the options of a server of any version, which listens on a socket for the current user only.
pub fn server() -> ServerBuilder {
    ServerBuilder::default()
}

/// Connects to the database `postgres` as superuser.
///
/// # Panics
/// If the server refuses the connection.
#[track_caller]
pub fn connect(server: &Endpoint) -> Client {
    Client::connect(&server.url("postgres"), NoTls).expect("a connection")
}

impl ServerBuilder {
    /// Requires a major version. A server that is not installed is downloaded once.
    pub fn major(mut self, major: u16) -> Self {
        self.major = Some(major);
        self
    }

    /// Listens on 127.0.0.1 as well. Connections there need the superuser's password, which is in the URL.
    pub fn tcp(mut self) -> Self {
        self.options.tcp = true;
        self
    }

    /// Listens on 127.0.0.1 as well, with this password of the superuser.
    pub fn password(mut self, password: &str) -> Self {
        self.options.password = Some(Password::new(password));
        self.tcp()
    }

    /// Adds settings of `postgresql.conf`.
    pub fn settings(mut self, settings: &[(&str, &str)]) -> Self {
        let settings = settings
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        self.options.settings.extend(settings);
        self
    }

    /// Offers TLS, with a certificate of its own.
    #[cfg(feature = "tls")]
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self.settings(&[("ssl", "on")])
    }

    /// Keeps the cluster and the template in other places than the usual ones.
    pub fn places(mut self, places: Dirs) -> Self {
        self.places = Some(places);
        self
    }

    /// Creates a server that is not started yet.
    ///
    /// # Panics
    /// If no server is found or its cluster cannot be created.
    #[track_caller]
    pub fn create(mut self) -> Sandbox {
        let usual = Dirs::from_environment().expect("a home directory");
        let found = find(self.major, &usual);
        let places = self.places.unwrap_or(usual);
        if self.options.tcp && self.options.password.is_none() {
            self.options.password = Some(template::shared_password(&places));
        }
        self.options.template = Some(template::of(&found, &self.options, &places));
        let server = Sandbox::create(&found, self.options, &places).expect("a cluster");
        #[cfg(feature = "tls")]
        if self.tls {
            crate::tls::write_certificate(server.data_dir());
        }
        server
    }

    /// Starts a server. Dropping the sandbox stops it.
    ///
    /// # Panics
    /// If no server is found or it does not start.
    #[track_caller]
    pub fn start(self) -> (Sandbox, Endpoint) {
        let mut sandbox = self.create();
        let endpoint = sandbox.start().expect("a running server");
        (sandbox, endpoint)
    }
}

fn find(major: Option<u16>, places: &Dirs) -> Installation {
    let wanted = ServerRequirements {
        major,
        dir: None,
        origin: Default::default(),
    };
    sandbox::find(&wanted, places, &mut |_| ()).expect("a server")
}
