//! Security options of a target: TLS, and acceptable methods of authentication. Source: PostgreSQL
//! documentation, 34.1.2 and 34.19.

use std::path::PathBuf;

use super::TargetError;
use super::parameters::Settings;
use super::parse::hide_password;

/// Value of `sslmode`, the weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum SslMode {
    /// Without TLS.
    Disable,
    /// Without TLS, unless the server requires it.
    Allow,
    /// With TLS, unless the server does not support it.
    #[default]
    Prefer,
    /// With TLS; verified only if there is a file of root certificates.
    Require,
    /// The server's certificate must be signed by a trusted authority.
    VerifyCa,
    /// The certificate must also match the host name.
    VerifyFull,
}

/// Modes by their value of `sslmode`.
const MODES: [(&str, SslMode); 6] = [
    ("disable", SslMode::Disable),
    ("allow", SslMode::Allow),
    ("prefer", SslMode::Prefer),
    ("require", SslMode::Require),
    ("verify-ca", SslMode::VerifyCa),
    ("verify-full", SslMode::VerifyFull),
];

impl SslMode {
    /// Returns the value of `sslmode`.
    pub fn name(self) -> &'static str {
        let mut modes = MODES.into_iter();
        let found = modes.find(|(_, mode)| *mode == self);
        found.map_or("prefer", |(name, _)| name)
    }
}

/// Source of the trusted authorities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrustedRoots {
    /// Those of the system (`sslrootcert=system`).
    System,
    /// A file of certificates (PEM).
    File(PathBuf),
    /// None: no file was named, and there is no home directory for libpq's default file.
    Unknown,
}

/// Value of `channel_binding`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChannelBindingMode {
    /// Not used.
    Disable,
    /// Used if the server offers it.
    #[default]
    Prefer,
    /// A server that does not offer it is refused.
    Require,
}

/// Method of authentication, with the names of `require_auth`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthMethod {
    /// `password`: in clear text.
    Password,
    /// `md5`.
    Md5,
    /// `scram-sha-256`, with and without channel binding.
    Scram,
    /// `none`: no authentication, or by certificate.
    None,
    /// `gss`, `sspi` and `oauth`, which are not supported.
    Other,
}

impl AuthMethod {
    /// Returns the name in `require_auth`.
    pub fn name(self) -> &'static str {
        match self {
            AuthMethod::Password => "password",
            AuthMethod::Md5 => "md5",
            AuthMethod::Scram => "scram-sha-256",
            AuthMethod::None => "none",
            AuthMethod::Other => "gss, sspi or oauth",
        }
    }
}

/// Acceptable versions of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsVersions {
    /// TLS 1.2 only.
    Tls12,
    /// TLS 1.3 only.
    Tls13,
    /// TLS 1.2 and 1.3.
    All,
}

/// Security options of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecurityOptions {
    /// Use of TLS, and verification.
    pub mode: SslMode,
    /// Whether TLS begins at once (`sslnegotiation=direct`), without an SSLRequest.
    pub direct: bool,
    /// Trusted authorities.
    pub roots: TrustedRoots,
    /// Revocation list, if named or in libpq's default file.
    pub revoked: Option<PathBuf>,
    /// Client certificate and key, if named or in libpq's default files.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Whether the host name is sent to the server (`sslsni`).
    pub tell_name: bool,
    /// Acceptable versions of TLS.
    pub versions: TlsVersions,
    /// Use of channel binding.
    pub binding: ChannelBindingMode,
    /// Acceptable methods; `None` for all.
    pub methods: Option<Vec<AuthMethod>>,
}

/// Versions of the protocol with their order.
const VERSIONS: [(&str, u8); 4] = [("TLSv1", 0), ("TLSv1.1", 1), ("TLSv1.2", 2), ("TLSv1.3", 3)];

impl SecurityOptions {
    pub(super) fn from(
        settings: &mut Settings,
        environment: &impl Fn(&str) -> Option<String>,
    ) -> Result<Self, TargetError> {
        let default_file = |name: &str| {
            environment("HOME").map(|home| PathBuf::from(home).join(".postgresql").join(name))
        };
        let roots = match settings.take("sslrootcert") {
            Some(word) if word == "system" => TrustedRoots::System,
            Some(path) => TrustedRoots::File(path.into()),
            None => default_file("root.crt").map_or(TrustedRoots::Unknown, TrustedRoots::File),
        };
        let mode = settings.choice("sslmode", &MODES)?;
        let weak = |given: &str, instead: &'static str| TargetError::Unsupported {
            what: format!("{given} with an sslmode that is weaker than it"),
            instead,
        };
        let mode = match (mode, &roots) {
            (None, TrustedRoots::System) => SslMode::VerifyFull,
            (Some(mode), TrustedRoots::System) if mode < SslMode::VerifyFull => {
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
        let certificate = client_certificate(settings, default_file)?;
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
            ("disable", ChannelBindingMode::Disable),
            ("prefer", ChannelBindingMode::Prefer),
            ("require", ChannelBindingMode::Require),
        ];
        Ok(SecurityOptions {
            mode,
            direct,
            roots,
            revoked,
            certificate,
            tell_name: settings
                .choice("sslsni", &[("0", false), ("1", true)])?
                .unwrap_or(true),
            versions: match (lowest <= 2, highest >= 3) {
                (true, true) => TlsVersions::All,
                (true, false) => TlsVersions::Tls12,
                (false, _) => TlsVersions::Tls13,
            },
            binding: settings
                .choice("channel_binding", &bindings)?
                .unwrap_or_default(),
            methods: methods(settings)?,
        })
    }
}

/// Returns the paths of the client's certificate and key, if there is a certificate.
fn client_certificate(
    settings: &mut Settings,
    default_file: impl Fn(&str) -> Option<PathBuf>,
) -> Result<Option<(PathBuf, PathBuf)>, TargetError> {
    let certificate = settings
        .take("sslcert")
        .map(PathBuf::from)
        .or_else(|| default_file("postgresql.crt").filter(|path| path.exists()));
    let key = settings
        .take("sslkey")
        .map(PathBuf::from)
        .or_else(|| default_file("postgresql.key"));
    match (certificate, key) {
        (Some(certificate), Some(key)) => Ok(Some((certificate, key))),
        (Some(certificate), None) => Err(TargetError::File {
            what: "client certificate",
            path: certificate,
            reason: "its key is not known".to_owned(),
            instead: "name the key's file as sslkey",
        }),
        (None, _) => Ok(None),
    }
}

/// Reads `require_auth`: a list of methods, or of excluded methods with `!`.
fn methods(settings: &mut Settings) -> Result<Option<Vec<AuthMethod>>, TargetError> {
    let Some(value) = settings.take("require_auth") else {
        return Ok(None);
    };
    const KNOWN: [(&str, AuthMethod); 7] = [
        ("password", AuthMethod::Password),
        ("md5", AuthMethod::Md5),
        ("scram-sha-256", AuthMethod::Scram),
        ("none", AuthMethod::None),
        ("gss", AuthMethod::Other),
        ("sspi", AuthMethod::Other),
        ("oauth", AuthMethod::Other),
    ];
    let refused = || {
        TargetError::Value {
        name: "require_auth".to_owned(),
        value: hide_password(&value),
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
    let others = [
        AuthMethod::Password,
        AuthMethod::Md5,
        AuthMethod::Scram,
        AuthMethod::None,
    ];
    Ok(Some(
        others
            .into_iter()
            .filter(|method| !listed.contains(method))
            .collect(),
    ))
}
