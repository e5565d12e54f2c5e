//! Candidates for the port of a sandbox. A port is certain to be free only when the server has bound it.

use std::net::TcpListener;

/// Port of 127.0.0.1 on which a sandbox listens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Port {
    /// A free one. It is retained over restarts, unless it has been taken meanwhile.
    #[default]
    Free,
    /// This one only.
    Fixed(u16),
    /// The first of these that the server can bind.
    FirstOf(Vec<u16>),
}

/// Maximum number of free ports to try.
const ATTEMPTS: usize = 20;

impl Port {
    /// Returns the ports to try, in order; the one of the last start first.
    pub(crate) fn candidates(&self, last: Option<u16>) -> Vec<u16> {
        let last = last.into_iter();
        match self {
            Self::Fixed(port) => vec![*port],
            Self::FirstOf(ports) => {
                let mut all: Vec<u16> = last.filter(|port| ports.contains(port)).collect();
                all.extend(
                    ports
                        .iter()
                        .filter(|port| !all.contains(port))
                        .copied()
                        .collect::<Vec<_>>(),
                );
                all
            }
            Self::Free => last.chain((0..ATTEMPTS).filter_map(|_| free())).collect(),
        }
    }
}

/// Returns a free port, preferably below those that the system assigns to outgoing connections. Otherwise a
/// client of the sandbox could take its port while it restarts.
fn free() -> Option<u16> {
    let below = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .ok()
        .and_then(|range| range.split_whitespace().next()?.parse::<u16>().ok())
        .filter(|&below| below > 16_000);
    let any = || TcpListener::bind(("127.0.0.1", 0)).ok()?.local_addr().ok();
    if let Some(below) = below {
        for _ in 0..ATTEMPTS {
            // A port that the system assigns is random enough to derive another one.
            let port = 10_000 + any()?.port() % (below - 10_000);
            if is_free(port) {
                return Some(port);
            }
        }
    }
    Some(any()?.port())
}

pub(crate) fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_port_is_not_one_that_somebody_has() {
        let held = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = held.local_addr().unwrap().port();
        assert!(!is_free(port));
        assert!(!Port::Free.candidates(None).contains(&port));
    }

    #[test]
    fn the_last_port_comes_first() {
        assert_eq!(Port::Free.candidates(Some(7))[0], 7);
        assert_eq!(Port::FirstOf(vec![1, 2, 3]).candidates(Some(2)), [2, 1, 3]);
        assert_eq!(Port::FirstOf(vec![1]).candidates(Some(9)), [1]);
        assert_eq!(Port::Fixed(5).candidates(Some(9)), [5]);
    }
}
