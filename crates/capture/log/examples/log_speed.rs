//! Measures how fast a log is read: `cargo run --release --example log_speed -- FILE… [--write
//! DIRECTORY]`.
//!
//! Prints MB of log a second, with events only counted, or with the workload written if a directory
//! is given. Compare with `wc -l` and `grep -c LOG` on the same file, in the same minute.

use std::path::Path;
use std::time::Instant;

use capture_log::{Input, LogOptions, capture};
use capture_sink::{EventCounter, EventSink};
use transform::SecretRedactor;
use workload::{Provenance, WorkloadWriter, WriterOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut files: Vec<String> = std::env::args().skip(1).collect();
    let write = files
        .iter()
        .position(|word| word == "--write")
        .map(|at| files.split_off(at));
    let options = LogOptions {
        inputs: files.iter().map(|file| Input::Path(file.into())).collect(),
        ..LogOptions::default()
    };
    let start = Instant::now();
    let mut counted = EventCounter::default();
    let mut writer = match &write {
        Some(words) => {
            let directory = words.get(1).ok_or("--write needs a directory")?;
            let path = Path::new(directory).join("speed.workload");
            Some(WorkloadWriter::create(
                &path,
                WriterOptions::default(),
                SecretRedactor::default(),
            )?)
        }
        None => None,
    };
    let sink: &mut dyn EventSink = match &mut writer {
        Some(writer) => writer,
        None => &mut counted,
    };
    let report = capture(options, sink)?;
    if let Some(writer) = writer {
        writer.finish(Provenance::default())?;
    }
    let seconds = start.elapsed().as_secs_f64();
    let bytes: u64 = report.sources.iter().map(|source| source.file.bytes).sum();
    let account = &report.reconciliation;
    println!(
        "{:.0} MB/s: {bytes} bytes, {} lines, {} events in {seconds:.2} s",
        bytes as f64 / 1e6 / seconds,
        account.lines,
        account.events
    );
    Ok(())
}
