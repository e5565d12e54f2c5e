//! How far a target's server is trusted: TLS, and which authentication will do. Source: PostgreSQL
//! documentation, 34.1.2 and 34.19.

use std::path::PathBuf;

use super::TargetError;
use super::parameters::Settings;

/// `sslmode`, the weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum SslMode {
    /// Without TLS.
    Disable,
    /// Without TLS, unless the server refuses that.
    Allow,
    /// With TLS, unless the server has none.
    #[default]
    Prefer,
    /// With TLS; verified only if there is a file of roots.
    Require,
    /// The server's certificate must come from a known authority.
    VerifyCa,
    /// And be for the host's name.
    VerifyFull,
}

/// Where the authorities are from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Roots {
    /// The system's (`sslrootcert=system`).
    System,
    /// A file of certificates (PEM).
    File(PathBuf),
    /// Neither was named, and there is no home to have libpq's default file in.
    Unknown,
}

/// `channel_binding`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Binding {
    /// Not used.
    Disable,
    /// Used where the server offers it.
    #[default]
    Prefer,
    /// A server that does not offer it is refused.
    Require,
}

/// A method of authentication, as `require_auth` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// `password`: the password itself.
    Password,
    /// `md5`.
    Md5,
    /// `scram-sha-256`, with and without channel binding.
    Scram,
    /// `none`: the server asks for nothing (or for a certificate).
    None,
    /// `gss`, `sspi` and `oauth`, which are not done.
    Other,
}

impl Method {
    /// As `require_auth` names it.
    pub fn name(self) -> &'static str {
        match self {
            Method::Password => "password",
            Method::Md5 => "md5",
            Method::Scram => "scram-sha-256",
            Method::None => "none",
            Method::Other => "gss, sspi or oauth",
        }
    }
}

/// How far a server is trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Security {
    /// Whether there is TLS, and what is verified.
    pub mode: SslMode,
    /// Whether it begins at once (`sslnegotiation=direct`), not with a question.
    pub direct: bool,
    /// The authorities.
    pub roots: Roots,
    /// What they have revoked, if the file is named or libpq's default file is there.
    pub revoked: Option<PathBuf>,
    /// The client's certificate and key, if named or in libpq's default files.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Whether the server is told the host's name (`sslsni`).
    pub tell_name: bool,
    /// Whether TLS 1.2 will do.
    pub tls_1_2: bool,
    /// Whether TLS 1.3 may be used.
    pub tls_1_3: bool,
    /// Channel binding.
    pub binding: Binding,
    /// The methods that will do; `None`: all.
    pub methods: Option<Vec<Method>>,
}

/// From which version of the protocol on.
const VERSIONS: [(&str, u8); 4] = [("TLSv1", 0), ("TLSv1.1", 1), ("TLSv1.2", 2), ("TLSv1.3", 3)];

impl Security {
    pub(super) fn from(
        settings: &mut Settings,
        environment: &impl Fn(&str) -> Option<String>,
    ) -> Result<Self, TargetError> {
        let default_file = |name: &str| {
            environment("HOME").map(|home| PathBuf::from(home).join(".postgresql").join(name))
        };
        let roots = match settings.take("sslrootcert") {
            Some(word) if word == "system" => Roots::System,
            Some(path) => Roots::File(path.into()),
            None => default_file("root.crt").map_or(Roots::Unknown, Roots::File),
        };
        let modes = [
            ("disable", SslMode::Disable),
            ("allow", SslMode::Allow),
            ("prefer", SslMode::Prefer),
            ("require", SslMode::Require),
            ("verify-ca", SslMode::VerifyCa),
            ("verify-full", SslMode::VerifyFull),
        ];
        let mode = settings.choice("sslmode", &modes)?;
        let weak = |given: &str, instead: &'static str| TargetError::Unsupported {
            what: format!("{given} with an sslmode that is weaker than it"),
            instead,
        };
        let mode = match (mode, &roots) {
            (None, Roots::System) => SslMode::VerifyFull,
            (Some(mode), Roots::System) if mode < SslMode::VerifyFull => {
                return Err(weak("sslrootcert=system", "use sslmode=verify-full"));
            }
            (mode, _) => mode.unwrap_or_default(),
        };
        let direct = settings
            .choice("sslnegotiation", &[("postgres", false), ("direct", true)])?
            .unwrap_or(false);
        if direct && mode < SslMode::Require {
            return Err(weak(
                "sslnegotiation=direct",
                "use sslmode=require, verify-ca or verify-full",
            ));
        }
        let revoked = settings
            .take("sslcrl")
            .map(PathBuf::from)
            .or_else(|| default_file("root.crl").filter(|path| path.exists()));
        let certificate = settings
            .take("sslcert")
            .map(PathBuf::from)
            .or_else(|| default_file("postgresql.crt").filter(|path| path.exists()));
        let key = settings
            .take("sslkey")
            .map(PathBuf::from)
            .or_else(|| default_file("postgresql.key"));
        let lowest = settings
            .choice("ssl_min_protocol_version", &VERSIONS)?
            .unwrap_or(2);
        let highest = settings
            .choice("ssl_max_protocol_version", &VERSIONS)?
            .unwrap_or(3);
        if highest < 2 || highest < lowest {
            return Err(TargetError::Unsupported {
                what: "no version of TLS that is spoken here".to_owned(),
                instead: "allow TLSv1.2 or TLSv1.3 with ssl_min_protocol_version and ssl_max_protocol_version",
            });
        }
        let bindings = [
            ("disable", Binding::Disable),
            ("prefer", Binding::Prefer),
            ("require", Binding::Require),
        ];
        Ok(Security {
            mode,
            direct,
            roots,
            revoked,
            certificate: match (certificate, key) {
                (Some(certificate), Some(key)) => Some((certificate, key)),
                (Some(certificate), None) => {
                    return Err(TargetError::File {
                        what: "client certificate",
                        path: certificate,
                        reason: "its key is not known".to_owned(),
                        instead: "name the key's file as sslkey",
                    });
                }
                (None, _) => None,
            },
            tell_name: settings
                .choice("sslsni", &[("0", false), ("1", true)])?
                .unwrap_or(true),
            tls_1_2: lowest <= 2,
            tls_1_3: highest >= 3,
            binding: settings
                .choice("channel_binding", &bindings)?
                .unwrap_or_default(),
            methods: methods(settings)?,
        })
    }
}

/// `require_auth`: a list of methods, or of methods with `!` that will not do.
fn methods(settings: &mut Settings) -> Result<Option<Vec<Method>>, TargetError> {
    let Some(value) = settings.take("require_auth") else {
        return Ok(None);
    };
    const KNOWN: [(&str, Method); 7] = [
        ("password", Method::Password),
        ("md5", Method::Md5),
        ("scram-sha-256", Method::Scram),
        ("none", Method::None),
        ("gss", Method::Other),
        ("sspi", Method::Other),
        ("oauth", Method::Other),
    ];
    let refused = || {
        TargetError::Value {
        name: "require_auth".to_owned(),
        value: value.clone(),
        allowed: "a list of password, md5, scram-sha-256 and none, either all or none with a '!' before it".to_owned(),
    }
    };
    let words: Vec<&str> = value.split(',').map(str::trim).collect();
    let negated = words.iter().filter(|word| word.starts_with('!')).count();
    if negated != 0 && negated != words.len() {
        return Err(refused());
    }
    let mut listed = Vec::new();
    for word in words {
        let word = word.trim_start_matches('!');
        let (_, method) = KNOWN
            .iter()
            .find(|(name, _)| *name == word)
            .ok_or_else(refused)?;
        listed.push(*method);
    }
    if negated == 0 {
        return Ok(Some(listed));
    }
    let others = [Method::Password, Method::Md5, Method::Scram, Method::None];
    Ok(Some(
        others
            .into_iter()
            .filter(|method| !listed.contains(method))
            .collect(),
    ))
}
