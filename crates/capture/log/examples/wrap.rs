//! Wraps a stderr log, and a csvlog, as services do: `cargo run --example wrap -- LOG CSV
//! DIRECTORY`. It makes the fuzzers' corpora and inputs for manual trials.

use std::path::Path;

#[path = "../tests/wrapping/mod.rs"]
mod wrapping;

use wrapping::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [log, csv, directory] = &words[..] else {
        return Err("LOG CSV DIRECTORY".into());
    };
    let log = std::fs::read_to_string(log)?;
    let csv = std::fs::read_to_string(csv)?;
    let reports = reports(&log);
    let style = |header, numbers, split, interleaved| SyslogStyle {
        header,
        numbers,
        split,
        interleaved,
        ..SYSLOG
    };
    for (name, text) in [
        ("syslog", syslog(&reports, SYSLOG)),
        (
            "syslog-interleaved",
            syslog(&reports, style(SyslogHeader::Iso, true, true, true)),
        ),
        (
            "syslog-unnumbered",
            syslog(&reports, style(SyslogHeader::Rfc5424, false, true, false)),
        ),
        (
            "syslog-unsplit",
            syslog(&reports, style(SyslogHeader::Rfc3164, true, false, false)),
        ),
        ("cloudwatch-export", cloudwatch_export(&reports)),
        ("cloudwatch-tail", cloudwatch_tail(&reports)),
        ("cloudwatch-json", cloudwatch_json(&reports)),
        ("cloudsql", json_lines(&cloudsql_entries(&reports))),
        ("cloudsql-printed", printed(&cloudsql_entries(&reports))),
        ("alloydb", json_lines(&alloydb_entries(&reports))),
        ("azure", json_lines(&azure_records(&reports))),
        ("azure-unwrapped", as_azure_has_it(&reports)),
        ("cnpg", cnpg_lines(&csv)),
    ] {
        std::fs::write(Path::new(directory).join(name), text)?;
    }
    Ok(())
}
