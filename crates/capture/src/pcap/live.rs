//! Packets of an interface, as they come (Linux).
//!
//! Who drives: the program, with a way to say when it is enough. A socket of the kernel
//! (`socket`) gives each packet from its IP header on, and drops what is not TCP of the ports
//! before it is copied; from there on it is as with a file.

#[cfg(target_os = "linux")]
mod filter;
#[cfg(target_os = "linux")]
mod socket;

#[cfg(target_os = "linux")]
use workload::SourceFile;

#[cfg(target_os = "linux")]
use super::Reading;
use super::account::PcapReport;
#[cfg(target_os = "linux")]
use super::account::PcapSource;
use super::{PcapError, Progress};
use crate::conversation::ConversationOptions;
use crate::sink::EventSink;

/// What to listen to.
pub struct LiveOptions<'a> {
    /// The interface's name; `any` for all.
    pub interface: String,
    /// The ports of the servers.
    pub ports: Vec<u16>,
    /// What is taken down of what is said.
    pub conversation: ConversationOptions,
    /// Is told some ten times a second.
    pub on_progress: Option<Box<dyn FnMut(Progress) + 'a>>,
    /// Is asked some ten times a second whether it is enough; the capture then ends in order.
    pub stop: Box<dyn FnMut() -> bool + 'a>,
}

/// An interface that is listened to. What comes before [`Live::capture`] waits in the kernel.
pub struct Live<'a> {
    options: LiveOptions<'a>,
    #[cfg(target_os = "linux")]
    socket: socket::PacketSocket,
}

#[cfg(target_os = "linux")]
impl<'a> Live<'a> {
    /// Listens from now on.
    ///
    /// # Errors
    /// Where the system does not let one.
    pub fn listen(options: LiveOptions<'a>) -> Result<Self, PcapError> {
        let socket = socket::PacketSocket::open(&options.interface, &options.ports)
            .map_err(|error| refused(&options.interface, &error))?;
        Ok(Live { options, socket })
    }

    /// Captures until it is enough.
    ///
    /// # Errors
    /// Where the interface goes away, or the sink takes no more.
    pub fn capture(self, sink: &mut dyn EventSink) -> Result<PcapReport, PcapError> {
        let Live {
            mut options,
            mut socket,
        } = self;
        let interface = std::mem::take(&mut options.interface);
        let refused = |error| refused(&interface, &error);
        let mut reading = Reading::new(&options.ports, options.conversation);
        let (mut bytes, mut first_us) = (0u64, None);
        while !(options.stop)() {
            // Many come within a tenth of a second.
            for _ in 0..64 {
                if socket.receive().map_err(refused)? == 0 {
                    break;
                }
                for packet in socket.packets() {
                    bytes += packet.bytes.len() as u64;
                    first_us.get_or_insert(packet.at_us);
                    reading.packet(packet, sink)?;
                }
            }
            if let Some(on_progress) = &mut options.on_progress {
                on_progress(reading.progress(bytes));
            }
        }
        let dropped = socket.dropped().map_err(refused)?;
        let (mut account, _) = reading.finish(sink)?;
        account.dropped = dropped;
        let source = PcapSource {
            packets: account.packets,
            file: SourceFile {
                name: interface,
                format: "interface".to_owned(),
                bytes,
            },
            first_us,
            damage: None,
        };
        Ok(PcapReport {
            sources: vec![source],
            account,
        })
    }
}

#[cfg(not(target_os = "linux"))]
impl<'a> Live<'a> {
    /// Elsewhere there is no such socket.
    ///
    /// # Errors
    /// Always.
    pub fn listen(options: LiveOptions<'a>) -> Result<Self, PcapError> {
        let interface = &options.interface;
        Err(PcapError::Interface(format!(
            "{interface} cannot be listened to: only Linux has packet sockets; write a file with `tcpdump -i {interface} -s 0 -w FILE tcp port 5432` and read it with `rehearse capture pcap FILE`"
        )))
    }

    /// Never comes to be.
    ///
    /// # Errors
    /// Always.
    pub fn capture(self, _sink: &mut dyn EventSink) -> Result<PcapReport, PcapError> {
        Err(PcapError::Stopped)
    }
}

#[cfg(target_os = "linux")]
fn refused(interface: &str, error: &std::io::Error) -> PcapError {
    use std::io::ErrorKind;

    PcapError::Interface(match error.kind() {
        ErrorKind::PermissionDenied => format!(
            "listening to {interface} needs the right CAP_NET_RAW, which this process does not have; run it as root (`sudo rehearse capture live …`), give it the right (`sudo setcap cap_net_raw+ep $(command -v rehearse)`), or let `tcpdump -w FILE` write a file and read that with `rehearse capture pcap`"
        ),
        ErrorKind::NotFound => format!(
            "there is no interface {interface} here; `ip link` lists them, lo is the one of connections within a machine, and any stands for all"
        ),
        _ => format!("listening to {interface} failed: {error}"),
    })
}
