//! Captures logs that are given as text.

use std::path::{Path, PathBuf};

use capture_log::{Input, LogError, LogOptions, LogReport, SkipReason, capture};
use capture_sink::EventCollector;
use workload::{Event, Unreplayable};

/// Files of one log, and a directory for them.
pub struct Files {
    pub directory: tempfile::TempDir,
    pub paths: Vec<PathBuf>,
}

impl Files {
    pub fn one(text: &str) -> Self {
        Self::several(&[("postgresql.log", text)])
    }

    pub fn several(files: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let paths = files
            .iter()
            .map(|(name, text)| {
                let path = directory.path().join(name);
                std::fs::write(&path, text).unwrap();
                path
            })
            .collect();
        Files { directory, paths }
    }

    pub fn try_read(&self) -> Result<Captured, LogError> {
        self.try_read_in(None)
    }

    pub fn try_read_in(&self, time_zone: Option<&str>) -> Result<Captured, LogError> {
        let mut collected = EventCollector::default();
        let options = LogOptions {
            inputs: self.paths.iter().cloned().map(Input::Path).collect(),
            time_zone: time_zone.map(str::to_owned),
            ..LogOptions::default()
        };
        let report = capture(options, &mut collected)?;
        let account = &report.reconciliation;
        assert!(account.adds_up(), "{account:?}");
        assert_eq!(account.events, collected.events.len() as u64);
        let mut events = collected.events;
        events.sort_by_key(|event| event.due_us);
        Ok(Captured { events, report })
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

pub struct Captured {
    pub events: Vec<Event>,
    pub report: LogReport,
}

impl Captured {
    pub fn statements(&self) -> Vec<&str> {
        let sql = self
            .events
            .iter()
            .filter_map(|event| event.kind.sql().map(|sql| &**sql));
        sql.collect()
    }

    /// The statements that a replay sends.
    pub fn replayable(&self) -> Vec<&str> {
        let whole = self
            .events
            .iter()
            .filter(|event| event.unreplayable.is_none());
        whole
            .filter_map(|event| event.kind.sql().map(|sql| &**sql))
            .collect()
    }

    pub fn cut(&self) -> Vec<&str> {
        let reason = Some(Unreplayable::StatementCut);
        let cut = self
            .events
            .iter()
            .filter(|event| event.unreplayable == reason);
        cut.filter_map(|event| event.kind.sql().map(|sql| &**sql))
            .collect()
    }

    pub fn skipped(&self, reason: SkipReason) -> u64 {
        let skipped = &self.report.reconciliation.skipped;
        skipped.get(&reason).map_or(0, |skipped| skipped.lines)
    }

    pub fn unreadable(&self) -> u64 {
        self.report.reconciliation.unreadable.lines
    }

    pub fn format(&self) -> &str {
        &self.report.sources[0].file.format
    }

    /// Milliseconds between the statements' due times.
    pub fn pauses_ms(&self) -> Vec<i64> {
        let due: Vec<i64> = self
            .events
            .iter()
            .filter(|event| event.kind.is_statement())
            .map(|event| event.due_us)
            .collect();
        due.windows(2)
            .map(|pair| (pair[1] - pair[0]) / 1_000)
            .collect()
    }
}

pub fn read(text: &str) -> Captured {
    read_files(&Files::one(text))
}

pub fn read_files(files: &Files) -> Captured {
    files.try_read().unwrap_or_else(|error| panic!("{error}"))
}

pub fn refusal(text: &str) -> String {
    match Files::one(text).try_read() {
        Err(error) => error.to_string(),
        Ok(captured) => panic!("read as {}: {:?}", captured.format(), captured.statements()),
    }
}
