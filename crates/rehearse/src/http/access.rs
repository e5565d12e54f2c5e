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
    "this name is not served, since a foreign site could let it lead here; use localhost, a loopback address, or the IP address that rehearse listens at",
);
const FOREIGN_ORIGIN: Refusal = (
    StatusCode::FORBIDDEN,
    "requests from pages of other sites are refused; ask from this site or without a browser",
);

/// Checks `Host` and `Origin` of a request to a listener at this address.
pub(super) fn check(request: &Parts, listen: IpAddr) -> Result<(), Refusal> {
    let host = single_value(&request.headers, &HOST).map_err(|_| NO_HOST)?;
    let named = request.uri.authority().map(|authority| authority.as_str());
    if [host, named]
        .into_iter()
        .flatten()
        .any(|host| !is_allowed_host(host, listen))
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

/// Returns whether a `Host` is `localhost`, a loopback address, or the address of the listener.
/// An unspecified listen address allows every address of the machine. The port may differ, as at
/// the end of a tunnel.
fn is_allowed_host(host: &str, listen: IpAddr) -> bool {
    let Some(address) = parse_host_address(host) else {
        let (name, port) = host.rsplit_once(':').unwrap_or((host, "0"));
        return name.eq_ignore_ascii_case("localhost") && port.parse::<u16>().is_ok();
    };
    let address = address.to_canonical();
    let listen = listen.to_canonical();
    address.is_loopback() || address == listen || listen.is_unspecified()
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

    /// The status of the refusal of a request to a listener at 127.0.0.1.
    fn refused(version: Version, uri: &str, headers: &[(&str, &str)]) -> Option<u16> {
        let mut request = Request::builder().version(version).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let listen = "127.0.0.1".parse().unwrap();
        check(&parts, listen)
            .err()
            .map(|(status, _)| status.as_u16())
    }

    #[test]
    fn a_loopback_listener_is_addressed_as_this_machine_only() {
        let listen = "127.0.0.1".parse().unwrap();
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
            assert!(is_allowed_host(host, listen), "{host}");
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
            assert!(!is_allowed_host(host, listen), "{host}");
        }
    }

    #[test]
    fn a_listener_beyond_loopback_is_addressed_by_its_own_address_too() {
        let is_allowed = |host: &str, listen: &str| is_allowed_host(host, listen.parse().unwrap());
        assert!(is_allowed("192.168.1.7:80", "192.168.1.7"));
        assert!(is_allowed("localhost", "192.168.1.7"));
        assert!(!is_allowed("192.168.1.8", "192.168.1.7"));
        assert!(is_allowed("192.168.1.8", "0.0.0.0"));
        assert!(is_allowed("[fd00::1]:80", "::"));
        assert!(!is_allowed("attacker.example", "0.0.0.0"));
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
