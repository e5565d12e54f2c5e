//! By which name a listener of this machine was asked: a page of somebody else's can have a name of its own lead
//! here (DNS rebinding), and a browser then takes what is answered for that page's own.

use std::net::{IpAddr, SocketAddr};

/// Whether a `Host` names an IP address or `localhost`. Another port may stand there: that of a tunnel.
pub fn is_no_strangers_name(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    if host.parse::<SocketAddr>().is_ok() || bare.unwrap_or(host).parse::<IpAddr>().is_ok() {
        return true;
    }
    let (name, port) = host.rsplit_once(':').unwrap_or((host, "0"));
    name.eq_ignore_ascii_case("localhost") && port.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_refused_and_an_address_is_not() {
        for host in [
            "127.0.0.1",
            "127.0.0.1:9187",
            "localhost",
            "LOCALHOST:80",
            "[::1]",
            "[::1]:9187",
            "192.168.1.7:80",
        ] {
            assert!(is_no_strangers_name(host), "{host}");
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
        ] {
            assert!(!is_no_strangers_name(host), "{host}");
        }
    }
}
