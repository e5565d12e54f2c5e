//! Sources of a capture from logs.

use std::path::PathBuf;
use std::time::Instant;

use capture_log as log;

use crate::options::CaptureLog;
use study::Failure;
use study::Interrupt;
use workload::series::Series;

/// Input of a capture.
pub enum Sources {
    /// Files that are read to their end, and standard input.
    Files(log::Selection),
    /// Log that is still being written.
    Followed(log::FollowOptions),
}

/// Converts the options to sources.
///
/// # Errors
/// If options contradict each other, or a file does not exist.
pub fn sources(options: &CaptureLog, interrupt: &Interrupt) -> Result<Sources, Failure> {
    if !options.follow {
        let stdin = |file: &&PathBuf| file.as_os_str() == "-";
        if options.files.iter().filter(stdin).count() > 1 {
            return Err(Failure::usage(
                "standard input (-) was given twice; it can be read once",
            ));
        }
        if let Some(made) = options
            .files
            .iter()
            .find(|file| file.join("manifest.json").is_file() || Series::is_series(file))
        {
            let made = made.display();
            return Err(Failure::usage(format!(
                "{made} is no log: it was captured already; show it with `rehearse inspect {made}`, or a run with `rehearse show {made}`"
            )));
        }
        return Ok(Sources::Files(log::select(&options.files)?));
    }
    let [what] = options.files.as_slice() else {
        return Err(Failure::usage(format!(
            "--follow reads one log, and {} names were given; give one file, one directory or one quoted pattern",
            options.files.len()
        )));
    };
    let (interrupt, how_long, started) = (interrupt.clone(), options.duration, Instant::now());
    let over = move || how_long.is_some_and(|how_long| started.elapsed() >= how_long);
    Ok(Sources::Followed(log::FollowOptions {
        path: what.clone(),
        from_start: options.from_start,
        poll_interval: log::FollowOptions::POLL_INTERVAL,
        stop: Box::new(move || interrupt.is_requested() || over()),
    }))
}
