//! Measures how fast packet files are read: `cargo run --release -p capture-wire --example
//! pcap_speed -- FILE [PORT]`.
//!
//! Prints MB/s and packets per second of the best of five runs, with events only counted. The file
//! should fit into the page cache.

use std::time::Instant;

use capture_sink::EventCounter;
use capture_wire::pcap::{PcapOptions, capture};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let file = arguments.first().ok_or("missing packet file")?;
    let port = arguments.get(1).map_or(Ok(5432), |port| port.parse())?;
    let mut best_seconds = f64::INFINITY;
    let mut line = String::new();
    for _ in 0..5 {
        let options = PcapOptions {
            files: vec![file.into()],
            ports: vec![port],
            ..PcapOptions::default()
        };
        let begun = Instant::now();
        let report = capture(options, &mut EventCounter::default())?;
        best_seconds = best_seconds.min(begun.elapsed().as_secs_f64());
        let bytes: u64 = report.sources.iter().map(|source| source.file.bytes).sum();
        let account = &report.account;
        line = format!(
            "{:.0} MB/s, {:.0} packets/s: {bytes} bytes, {} packets, {} events in {best_seconds:.3} s",
            bytes as f64 / 1e6 / best_seconds,
            account.packets as f64 / best_seconds,
            account.packets,
            account.conversation.events
        );
    }
    println!("{line}");
    Ok(())
}
