//! Checks under which name a listener was addressed, and which page sent a request.
//!
//! A page of another site can make its own name resolve to this machine (DNS rebinding). A browser then treats
//! the answers as that page's own. A browser names the page's site in `Host`, and in `Origin` for most requests
//! of scripts.

use std::net::{IpAddr, SocketAddr};

use hyper::HeaderMap;
use hyper::header::{HOST, HeaderName, ORIGIN};
use hyper::http::request::Parts;
use hyper::{StatusCode, Version};

use super::Request;

/// A status and the reason to show.
pub(super) type Refusal = (StatusCode, &'static str);

const NO_HOST: Refusal = (
    StatusCode::BAD_REQUEST,
    "a request has exactly one Host header",
);
const FOREIGN_HOST: Refusal = (
    StatusCode::FORBIDDEN,
    "this name is not served, since a foreign site could let it lead here; use localhost or the IP address that rehearse listens at, or start rehearse with --allow-host NAME",
);
const FOREIGN_ORIGIN: Refusal = (
    StatusCode::FORBIDDEN,
    "requests from pages of other sites are refused; ask from this site or without a browser",
);

/// Names and addresses under which a listener may be addressed.
#[derive(Debug)]
pub(super) struct AllowedHosts {
    /// Address of the listener.
    pub(super) listen: IpAddr,
    /// Further host names.
    pub(super) names: Vec<String>,
}

/// Checks `Host` and `Origin` of a request to a listener.
pub(super) fn check(request: &Parts, hosts: &AllowedHosts) -> Result<(), Refusal> {
    let host = single_value(&request.headers, &HOST).map_err(|_| NO_HOST)?;
    let named = request.uri.authority().map(|authority| authority.as_str());
    if [host, named]
        .into_iter()
        .flatten()
        .any(|host| !hosts.allow(host))
    {
        return Err(FOREIGN_HOST);
    }
    // HTTP/1.0 has no Host, and no browser uses it.
    if host.is_none() && request.version != Version::HTTP_10 {
        return Err(NO_HOST);
    }
    let origin = single_value(&request.headers, &ORIGIN).map_err(|_| FOREIGN_ORIGIN)?;
    match (origin, host) {
        (None, _) => Ok(()),
        (Some(origin), Some(host)) if is_own_origin(origin, host) => Ok(()),
        _ => Err(FOREIGN_ORIGIN),
    }
}

/// Returns the value of a header of which there is exactly one.
pub fn single_header<'r>(request: &'r Request, name: &HeaderName) -> Option<&'r str> {
    single_value(request.headers(), name).ok().flatten()
}

/// Returns the only value of a header; an error for several values and for one that is not text.
fn single_value<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| ()),
        _ => Err(()),
    }
}

/// Returns whether an origin is the site that a request was sent to.
fn is_own_origin(origin: &str, host: &str) -> bool {
    let site = origin.strip_prefix("http://");
    site.is_some_and(|site| site.eq_ignore_ascii_case(host))
}

impl AllowedHosts {
    /// Returns whether a `Host` is `localhost`, a loopback address, the address of the listener, or one of the names.
    /// An unspecified listen address allows every address of the machine. The port may differ, as at the end of a
    /// tunnel.
    fn allow(&self, host: &str) -> bool {
        let Some(address) = parse_host_address(host) else {
            let (name, port) = host.rsplit_once(':').unwrap_or((host, "0"));
            let mut names = self.names.iter().map(String::as_str).chain(["localhost"]);
            return port.parse::<u16>().is_ok() && names.any(|one| name.eq_ignore_ascii_case(one));
        };
        let address = address.to_canonical();
        let listen = self.listen.to_canonical();
        address.is_loopback() || address == listen || listen.is_unspecified()
    }
}

/// Returns the IP address that a `Host` names, with or without a port.
fn parse_host_address(host: &str) -> Option<IpAddr> {
    if let Ok(address) = host.parse::<SocketAddr>() {
        return Some(address.ip());
    }
    let bare = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    bare.unwrap_or(host).parse().ok()
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    fn hosts(listen: &str, names: &[&str]) -> AllowedHosts {
        AllowedHosts {
            listen: listen.parse().unwrap(),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    /// The status of the refusal of a request to a listener at 127.0.0.1.
    fn refused(version: Version, uri: &str, headers: &[(&str, &str)]) -> Option<u16> {
        let mut request = Request::builder().version(version).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        check(&parts, &hosts("127.0.0.1", &[]))
            .err()
            .map(|(status, _)| status.as_u16())
    }

    #[test]
    fn a_loopback_listener_is_addressed_as_this_machine_only() {
        let hosts = hosts("127.0.0.1", &[]);
        for host in [
            "127.0.0.1",
            "127.0.0.1:9187",
            "127.8.8.8",
            "localhost",
            "LOCALHOST:80",
            "[::1]",
            "[::1]:9187",
            "[::ffff:127.0.0.1]:80",
        ] {
            assert!(hosts.allow(host), "{host}");
        }
        for host in [
            "",
            "attacker.example",
            "attacker.example:9187",
            "localhost.attacker.example",
            "127.0.0.1.nip.io",
            "localhost:",
            "localhost:x",
            "127.0.0.1:99999",
            "a@127.0.0.1",
            "192.168.1.7:80",
            "0.0.0.0",
        ] {
            assert!(!hosts.allow(host), "{host}");
        }
    }

    #[test]
    fn a_listener_beyond_loopback_is_addressed_by_its_own_address_too() {
        let is_allowed = |host: &str, listen: &str| hosts(listen, &[]).allow(host);
        assert!(is_allowed("192.168.1.7:80", "192.168.1.7"));
        assert!(is_allowed("localhost", "192.168.1.7"));
        assert!(!is_allowed("192.168.1.8", "192.168.1.7"));
        assert!(is_allowed("192.168.1.8", "0.0.0.0"));
        assert!(is_allowed("[fd00::1]:80", "::"));
        assert!(!is_allowed("attacker.example", "0.0.0.0"));
    }

    #[test]
    fn allowed_host_name_is_served_and_others_are_refused() {
        let hosts = hosts("0.0.0.0", &["replay.example.org", "metrics"]);
        for host in ["replay.example.org:9187", "REPLAY.example.org", "metrics"] {
            assert!(hosts.allow(host), "{host}");
        }
        for host in [
            "example.org",
            "a.replay.example.org",
            "metrics:x",
            "metrics.",
        ] {
            assert!(!hosts.allow(host), "{host}");
        }
    }

    #[test]
    fn a_request_has_one_host_and_comes_from_no_other_site() {
        let host = ("host", "127.0.0.1:80");
        let of = |headers: &[(&str, &str)]| refused(Version::HTTP_11, "/", headers);
        assert_eq!(of(&[host]), None);
        assert_eq!(of(&[]), Some(400));
        assert_eq!(refused(Version::HTTP_10, "/", &[]), None);
        assert_eq!(of(&[host, host]), Some(400));
        assert_eq!(of(&[("host", "attacker.example")]), Some(403));
        let foreign = "http://attacker.example/";
        assert_eq!(refused(Version::HTTP_11, foreign, &[host]), Some(403));
        assert_eq!(of(&[host, ("origin", "http://127.0.0.1:80")]), None);
        for origin in [
            "null",
            "http://127.0.0.1",
            "https://127.0.0.1:80",
            "http://attacker.example",
            "http://localhost:3000",
        ] {
            assert_eq!(of(&[host, ("origin", origin)]), Some(403), "{origin}");
        }
        let own = ("origin", "http://127.0.0.1:80");
        assert_eq!(of(&[host, own, own]), Some(403));
        assert_eq!(refused(Version::HTTP_10, "/", &[own]), Some(403));
    }
}
