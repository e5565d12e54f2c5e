//! What a capture reads, and what is shown of it.

use std::path::PathBuf;
use std::time::Instant;

use ::capture::log::{self, LogReport};
use report::{GapView, LeftOutView, OverlapView, SourceView, SourcesView};

use crate::commands::capture::failure;
use crate::ending::Failure;
use crate::interrupt::Interrupt;
use crate::options::CaptureLog;

/// What is read.
pub enum Sources {
    /// Files, each to its end, and standard input.
    Files(log::Selection),
    /// A log that is still being written.
    Followed(log::Follow),
}

/// What the options say is read.
///
/// # Errors
/// Where it makes no sense, or there is nothing of that name.
pub fn sources(options: &CaptureLog, interrupt: &Interrupt) -> Result<Sources, Failure> {
    if !options.follow {
        let stdin = |file: &&PathBuf| file.as_os_str() == "-";
        if options.files.iter().filter(stdin).count() > 1 {
            return Err(Failure::usage(
                "standard input (-) was given twice; it can be read once",
            ));
        }
        return Ok(Sources::Files(
            log::select(&options.files).map_err(failure)?,
        ));
    }
    let [what] = options.files.as_slice() else {
        return Err(Failure::usage(format!(
            "--follow reads one log, and {} names were given; give one file, one directory or one quoted pattern",
            options.files.len()
        )));
    };
    let (interrupt, how_long, started) = (interrupt.clone(), options.how_long, Instant::now());
    let over = move || how_long.is_some_and(|how_long| started.elapsed() >= how_long);
    Ok(Sources::Followed(log::Follow {
        what: what.clone(),
        from_start: options.from_start,
        stop: Box::new(move || interrupt.is_asked() || over()),
    }))
}

/// What was read, to be shown.
pub fn sources_view(report: &LogReport) -> SourcesView {
    SourcesView {
        files: report
            .sources
            .iter()
            .map(|source| SourceView {
                name: source.file.name.clone(),
                format: source.file.format.clone(),
                bytes: source.file.bytes,
                lines: source.lines,
                first_us: source.times_us.map(|(first_us, _)| first_us),
                last_us: source.times_us.map(|(_, last_us)| last_us),
                damage: source.damage.clone(),
            })
            .collect(),
        left_out: report
            .left_out
            .iter()
            .map(|left_out| LeftOutView {
                name: left_out.name.clone(),
                reason: left_out.reason.clone(),
            })
            .collect(),
        gaps: report
            .series
            .gaps
            .iter()
            .map(|gap| GapView {
                before: gap.before.clone(),
                after: gap.after.clone(),
                from_us: gap.from_us,
                to_us: gap.to_us,
            })
            .collect(),
        overlaps: report
            .series
            .overlaps
            .iter()
            .map(|overlap| OverlapView {
                file: overlap.file.clone(),
                files: overlap.files,
                other: overlap.other.clone(),
                from_us: overlap.from_us,
                to_us: overlap.to_us,
                same: overlap.same,
                lines: overlap.lines,
            })
            .collect(),
        missing: report.series.missing.clone(),
    }
}
