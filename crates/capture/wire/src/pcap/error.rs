//! Errors that prevent the capture of packets. Packets that cannot be read are no errors; they are
//! in the account.

use capture_sink::SinkError;

/// An error that prevents the capture of packets.
#[derive(Debug, thiserror::Error)]
pub enum PcapError {
    /// No input was given.
    #[error("no packet file was given; name one or more files, or - for standard input")]
    NoInput,
    /// An input cannot be opened or read.
    #[error("cannot read {name}: {error}{}", next_step(.error))]
    Read {
        /// Name as the user gave it.
        name: String,
        /// Error of the operating system.
        #[source]
        error: std::io::Error,
    },
    /// An input has another format.
    #[error(
        "{name} is no packet file: pcap and pcapng are read here, plain or in gzip, zstd, bzip2 or xz, as `tcpdump -w` writes them; {advice}"
    )]
    Foreign {
        /// Name as the user gave it.
        name: String,
        /// Suggested action.
        advice: String,
    },
    /// No input has a packet.
    #[error(
        "{name} has no packets{damage}; capture again while clients send something (`tcpdump -i any -s 0 -w FILE tcp port 5432`)"
    )]
    NoPackets {
        /// Name of the first input, as the user gave it.
        name: String,
        /// Description of the damage, after a colon.
        damage: String,
    },
    /// No packet is of the server's port.
    #[error("none of the {packets} packets is of TCP port {ports}; {advice}")]
    NoneOfThePort {
        /// Number of packets.
        packets: u64,
        /// The requested ports.
        ports: String,
        /// Suggested option.
        advice: String,
    },
    /// The user stopped the capture.
    #[error(
        "the capture was stopped; nothing of it is left, and the packet files are as they were"
    )]
    Stopped,
    /// The sink failed.
    #[error(transparent)]
    Sink(#[from] SinkError),
}

fn next_step(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::NotFound => "; give the name of a file that `tcpdump -w` wrote",
        std::io::ErrorKind::IsADirectory => "; give the files in it",
        std::io::ErrorKind::PermissionDenied => {
            "; run this as a user that may read it, or pipe it in: sudo cat FILE | rehearse capture pcap -"
        }
        _ => "",
    }
}
