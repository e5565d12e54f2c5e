//! Why packets could not be captured at all. Single packets that cannot be read are no reason;
//! they are in the account.

use capture_sink::SinkError;

/// Why packets could not be captured.
#[derive(Debug, thiserror::Error)]
pub enum PcapError {
    /// Nothing was given.
    #[error("no packet file was given; name one or more files, or - for standard input")]
    NoInput,
    /// It cannot be opened or read.
    #[error("cannot read {name}: {error}{}", next_step(.error))]
    Read {
        /// As the user gave it.
        name: String,
        /// What the system said.
        #[source]
        error: std::io::Error,
    },
    /// It is another file.
    #[error(
        "{name} is no packet file: pcap and pcapng are read here, plain or in gzip, zstd, bzip2 or xz, as `tcpdump -w` writes them; {advice}"
    )]
    Foreign {
        /// As the user gave it.
        name: String,
        /// What to do.
        advice: String,
    },
    /// There is no packet in any.
    #[error(
        "{name} has no packets{damage}; capture again while clients send something (`tcpdump -i any -s 0 -w FILE tcp port 5432`)"
    )]
    NoPackets {
        /// As the user gave it, the first of them.
        name: String,
        /// What is wrong with it, behind a colon.
        damage: String,
    },
    /// None of the packets is the server's.
    #[error("none of the {packets} packets is of TCP port {ports}; {advice}")]
    NoneOfThePort {
        /// How many there are.
        packets: u64,
        /// Which were asked for.
        ports: String,
        /// What to give instead.
        advice: String,
    },
    /// The user stopped it.
    #[error(
        "the capture was stopped; nothing of it is left, and the packet files are as they were"
    )]
    Stopped,
    /// The events could not be kept.
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
