//! Text on damaged or incomplete source files of a capture.

use capture_log::LogReport;
use clock::utc_text;

use crate::text::line::{one_line, wrapped};
use crate::text::units::{counted, duration};

/// Maximum number of files of each kind.
const SHOWN_MAX: usize = 5;

/// Returns a line for each flaw.
pub(crate) fn lines(report: &LogReport, width: usize) -> Vec<String> {
    let damaged = report.sources.iter().filter_map(|file| {
        let damage = file.damage.as_ref()?;
        let lines = counted(file.lines, "line");
        Some(format!(
            "damaged: {} after {lines}: {damage}; the rest of the file is lost",
            file.file.name
        ))
    });
    let overlaps = report.series.overlaps.iter().map(|overlap| {
        let (file, other) = (&overlap.file, &overlap.other);
        let (lines, until) = (counted(overlap.lines, "line"), utc_text(overlap.to_us));
        match (overlap.same, overlap.files) {
            (true, 0..=1) => format!(
                "overlap: {file} has the same messages as {other} until {until}; {lines} of it left out, so that they count once"
            ),
            (true, files) => format!(
                "overlap: {file} and {} more of its series have the same messages as the series of {other} until {until}; {lines} of them left out, so that they count once",
                files - 1
            ),
            (false, _) => format!(
                "overlap: {file} begins {} before {other} ends and has other messages; its sessions are kept apart, as another server's",
                duration((overlap.to_us - overlap.from_us) as f64)
            ),
        }
    });
    let gaps = report.series.gaps.iter().map(|gap| {
        format!(
            "gap: nothing was logged for {} between {} (ends {}) and {}; if the server was busy, a file is missing",
            duration((gap.to_us - gap.from_us) as f64),
            gap.before,
            utc_text(gap.from_us),
            gap.after
        )
    });
    let missing = report
        .series
        .missing
        .iter()
        .map(|name| format!("missing: {name} belongs to the series and was not given"));
    let left_out = report
        .left_out
        .iter()
        .map(|left_out| format!("left out: {}: {}", left_out.name, left_out.reason));
    let mut lines = Vec::new();
    for kind in [
        damaged.collect::<Vec<_>>(),
        overlaps.collect(),
        gaps.collect(),
        missing.collect(),
        left_out.collect(),
    ] {
        let more = kind.len().saturating_sub(SHOWN_MAX);
        lines.extend(
            kind.iter()
                .take(SHOWN_MAX)
                .flat_map(|text| wrapped(&one_line(text, usize::MAX), "  ", "    ", width)),
        );
        if more > 0 {
            lines.push(format!("    and {more} more; --json lists them"));
        }
    }
    lines
}
