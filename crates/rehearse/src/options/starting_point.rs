//! Options of a capture's starting point.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

/// Starting point of a capture.
#[derive(Debug, Clone, Default, Args)]
pub struct StartingPointArgs {
    /// Note the server's WAL position, sequences and open transactions over this connection when the capture starts,
    /// and print the commands that bring a copy to that moment. Creates a restore point if the role may. Or take what
    /// `capture starting-point` noted in FILE.json [default: nothing is noted].
    #[arg(long, value_name = "URL|FILE.json")]
    pub starting_point: Option<String>,
}

/// Export of a snapshot for pg_dump.
#[derive(Debug, Clone, Default, Args)]
pub struct ExportSnapshotArgs {
    /// Export a snapshot of the connection's database for pg_dump, and hold it this long, or until the command ends. While
    /// it is held, vacuum keeps dead rows [default: no snapshot; without a time 10m].
    #[arg(
        long,
        value_name = "DURATION",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "10m",
        value_parser = clock::parse_duration
    )]
    pub export_snapshot: Option<Duration>,
}

/// Options of `rehearse capture starting-point`.
#[derive(Debug, Args)]
pub struct CaptureStartingPoint {
    /// Connect to this server: postgres://USER@HOST:PORT/DATABASE.
    #[arg(long, value_name = "URL")]
    pub server: String,
    /// Write the starting point to this file, for --starting-point of a later capture of the log or of packets.
    #[arg(short, long, value_name = "FILE.json")]
    pub output: PathBuf,
    /// Export of a snapshot.
    #[command(flatten)]
    pub export: ExportSnapshotArgs,
}
