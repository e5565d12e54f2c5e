//! Names and addresses of a target, and their comparison with those of a captured server.

use std::collections::BTreeSet;
use std::net::IpAddr;

use connect::{Host, Target, is_own_address, machine_name};
use workload::CapturedServer;

use super::ServerLocation;

/// Names and addresses by which a target is known.
#[derive(Debug, Default)]
pub(super) struct TargetPlace {
    /// Host names, in lower case, with ports.
    names: BTreeSet<(String, u16)>,
    /// Addresses other than loopback, with ports.
    addresses: BTreeSet<(IpAddr, u16)>,
    /// Ports of this machine.
    own_ports: BTreeSet<u16>,
    machine: Option<String>,
    data_directory: Option<String>,
    /// System identifier, if it was queried.
    pub(super) system_identifier: Option<u64>,
}

impl TargetPlace {
    /// Returns the names and addresses that are known without asking the server.
    pub(super) fn of(target: &Target) -> Self {
        let mut place = TargetPlace {
            machine: machine_name(),
            ..TargetPlace::default()
        };
        for server in &target.servers {
            match &server.host {
                Some(Host::Tcp(name)) => {
                    place.names.insert((name.to_lowercase(), server.port));
                }
                Some(Host::Unix(_) | Host::Abstract(_)) => {
                    place.own_ports.insert(server.port);
                }
                None => {}
            }
            for address in server.ip_addresses() {
                place.add_address(address, server.port);
            }
        }
        place
    }

    fn add_address(&mut self, address: IpAddr, port: u16) {
        let address = address.to_canonical();
        if is_own_address(address) {
            self.own_ports.insert(port);
        }
        if !address.is_loopback() {
            self.addresses.insert((address, port));
        }
    }

    /// Adds the server's own answer. The server may be reached through a proxy, on another port.
    pub(super) fn add(&mut self, location: &ServerLocation) {
        self.data_directory.clone_from(&location.data);
        for &port in &location.ports {
            match location.address {
                Some(address) => self.add_address(address, port),
                None => {
                    self.own_ports.insert(port);
                }
            }
        }
    }

    /// Returns the evidence that one of the servers is the target.
    pub(super) fn find(&self, servers: &[CapturedServer]) -> Option<String> {
        servers.iter().find_map(|server| self.compare(server))
    }

    fn compare(&self, server: &CapturedServer) -> Option<String> {
        let port = server.port;
        let host = server.host.as_deref().unwrap_or_default().to_lowercase();
        let is_loopback = |address: IpAddr| address.is_loopback();
        let is_loopback_name = host == "localhost" || host.parse().is_ok_and(is_loopback);
        if !is_loopback_name && self.names.contains(&(host.clone(), port)) {
            return Some(format!("its traffic went to {host}:{port}"));
        }
        let addresses: Vec<IpAddr> = server.addresses.iter().map(IpAddr::to_canonical).collect();
        let is_same = |address: &&IpAddr| self.addresses.contains(&(**address, port));
        if let Some(address) = addresses.iter().find(is_same) {
            return Some(format!("its traffic went to {address}:{port}"));
        }
        // Loopback addresses and directories are only meaningful on the machine of the capture.
        let same_machine = server.machine.is_none() || server.machine == self.machine;
        let is_local = host.starts_with(['/', '@'])
            || is_loopback_name
            || server.data_directory.is_some()
            || addresses.iter().any(|address| is_own_address(*address));
        if same_machine && is_local && self.own_ports.contains(&port) {
            return Some(format!("its traffic went to port {port} of this machine"));
        }
        self.compare_cluster(server)
    }

    /// Compares the cluster. A physical copy has the same system identifier, in another directory or on another
    /// machine.
    fn compare_cluster(&self, server: &CapturedServer) -> Option<String> {
        let directory = server.data_directory.as_ref()?;
        let identifier = server.system_identifier?;
        let is_same = self.system_identifier == Some(identifier)
            && self.data_directory.as_ref() == Some(directory);
        is_same.then(|| {
            format!(
                "it has the same system identifier and the data directory {directory}; a copy may have both, too"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(target: &str) -> TargetPlace {
        TargetPlace::of(&Target::parse(target, |_| None).unwrap())
    }

    fn captured(host: Option<&str>, addresses: &[&str], port: u16) -> CapturedServer {
        CapturedServer {
            host: host.map(str::to_owned),
            addresses: addresses.iter().map(|one| one.parse().unwrap()).collect(),
            port,
            machine: machine_name(),
            ..CapturedServer::default()
        }
    }

    #[test]
    fn captured_server_is_recognised_by_each_of_its_addresses() {
        let by_name = captured(Some("DB.invalid"), &["192.0.2.7"], 5432);
        for target in [
            "postgres://db.invalid:5432/x",
            "postgres://other.invalid,db.invalid/x",
            "postgres://192.0.2.7/x",
            "postgres://[::ffff:192.0.2.7]/x",
        ] {
            assert!(place(target).compare(&by_name).is_some(), "{target}");
        }
        for target in [
            "postgres://db.invalid:5433/x",
            "postgres://192.0.2.8/x",
            "postgres://127.0.0.1/x",
        ] {
            assert_eq!(place(target).compare(&by_name), None, "{target}");
        }
    }

    #[test]
    fn loopback_addresses_are_those_of_the_machine_of_the_capture() {
        let here = captured(Some("localhost"), &["127.0.0.1", "::1"], 5432);
        let elsewhere = CapturedServer {
            machine: Some("another".to_owned()),
            ..here.clone()
        };
        let unknown = CapturedServer {
            machine: None,
            ..here.clone()
        };
        for target in ["host=127.0.0.1", "host=localhost", "host=/tmp", "host=::1"] {
            assert!(place(target).compare(&here).is_some(), "{target}");
            assert!(place(target).compare(&unknown).is_some(), "{target}");
            assert_eq!(place(target).compare(&elsewhere), None, "{target}");
        }
        assert_eq!(place("host=localhost port=5433").compare(&here), None);
    }

    #[test]
    fn copy_is_told_apart_by_its_data_directory() {
        let server = CapturedServer {
            data_directory: Some("/data".to_owned()),
            system_identifier: Some(7),
            machine: Some("another".to_owned()),
            ..CapturedServer::default()
        };
        let mut target = place("postgres://192.0.2.8/x");
        target.system_identifier = Some(7);
        assert_eq!(target.compare(&server), None);
        target.data_directory = Some("/copy".to_owned());
        assert_eq!(target.compare(&server), None);
        target.data_directory = Some("/data".to_owned());
        assert!(target.compare(&server).is_some());
        target.system_identifier = Some(8);
        assert_eq!(target.compare(&server), None);
    }
}
