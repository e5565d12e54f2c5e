//! What an experiment keeps: a directory with a manifest and a file for each trial that was done.
//! Each is written whole or not at all, when its trial is done; so a killed experiment goes on
//! behind the last of them.
//!
//! ```text
//! NAME.sweep/manifest.json          the plan
//! NAME.sweep/trials/0001.json …     each trial's numbers, by its place in the order
//! NAME.sweep/runs/0001.run …        the runs, where they are kept
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::design::{Design, Trial};
use crate::error::ExperimentError;
use crate::measure::Numbers;

/// The manifest's name.
pub const MANIFEST: &str = "manifest.json";
const KIND: &str = "sweep";
/// The version of the format that this build writes.
const FORMAT: u32 = 1;

/// What an experiment is: written before its first trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// `sweep`.
    pub kind: String,
    /// The version of the format.
    pub format: u32,
    /// The program's version.
    pub rehearse: String,
    /// What is varied, and the seed of the order.
    pub design: Design,
    /// Everything else that shapes trials, by name. What goes on must have the same.
    pub options: BTreeMap<String, String>,
    /// What the server has been set besides, where it is a sandbox.
    #[serde(default)]
    pub settings: Vec<(String, String)>,
    /// When it was begun, in microseconds since 1970-01-01 UTC.
    pub started_wall_us: i64,
}

impl Manifest {
    /// Of a plan.
    pub fn new(
        design: Design,
        options: BTreeMap<String, String>,
        settings: Vec<(String, String)>,
        started_wall_us: i64,
    ) -> Self {
        Manifest {
            kind: KIND.to_owned(),
            format: FORMAT,
            rehearse: env!("CARGO_PKG_VERSION").to_owned(),
            design,
            options,
            settings,
            started_wall_us,
        }
    }

    /// What is different in another one, as names; nothing if trials of both belong together.
    fn differences(&self, other: &Manifest) -> Vec<String> {
        let mut names = Vec::new();
        let (a, b) = (&self.design, &other.design);
        let of_design = [
            ("--clients", a.clients != b.clients),
            ("--speed or --rate", a.paces != b.paces),
            ("--mode", a.modes != b.modes),
            ("--set or --variant", a.variants != b.variants),
            ("--repeat", a.repeat != b.repeat),
            ("--seed", a.seed != b.seed),
        ];
        let different = of_design.into_iter().filter(|(_, differs)| *differs);
        names.extend(different.map(|(name, _)| name.to_owned()));
        let mut all: Vec<&String> = self.options.keys().chain(other.options.keys()).collect();
        all.sort_unstable();
        all.dedup();
        let differs = |name: &&&String| self.options.get(**name) != other.options.get(**name);
        names.extend(all.iter().filter(differs).map(|name| format!("--{name}")));
        names
    }
}

/// What became of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Which one.
    pub trial: Trial,
    /// When it began, in microseconds since 1970-01-01 UTC; its server's restoring belongs to it.
    pub started_wall_us: i64,
    /// How long it took, with all that, in seconds.
    pub took_s: f64,
    /// What was measured.
    pub numbers: Option<Numbers>,
    /// Why nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// An experiment's directory.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    manifest: Manifest,
    records: BTreeMap<u32, Record>,
}

impl Journal {
    /// Begins one in a directory that is not there yet.
    ///
    /// # Errors
    /// Where something is there, or it cannot be made.
    pub fn create(path: &Path, manifest: Manifest) -> Result<Self, ExperimentError> {
        if path.exists() {
            return Err(ExperimentError::Usage(format!(
                "{} is there already; give another name with -o, or --resume to go on with it",
                path.display()
            )));
        }
        for directory in [path.to_owned(), path.join("trials"), path.join("runs")] {
            fs::DirBuilder::new()
                .mode(0o700)
                .recursive(true)
                .create(&directory)
                .map_err(ExperimentError::file("make the directory", &directory))?;
        }
        write(&path.join(MANIFEST), &manifest)?;
        Ok(Journal {
            path: path.to_owned(),
            manifest,
            records: BTreeMap::new(),
        })
    }

    /// Opens one, to read it.
    ///
    /// # Errors
    /// Where it is none, or damaged.
    pub fn open(path: &Path) -> Result<Self, ExperimentError> {
        let file = path.join(MANIFEST);
        let text = fs::read_to_string(&file).map_err(|error| {
            ExperimentError::Usage(format!(
                "{} is no sweep ({error}); give the directory that `rehearse sweep -o` made",
                path.display()
            ))
        })?;
        let manifest: Manifest = read(&file, &text)?;
        if manifest.kind != KIND || manifest.format > FORMAT {
            return Err(ExperimentError::Usage(format!(
                "{} is a {} of format {}, and this program reads sweeps up to format {FORMAT}; use a newer one",
                path.display(),
                manifest.kind,
                manifest.format
            )));
        }
        let trials = path.join("trials");
        let mut records = BTreeMap::new();
        let entries = fs::read_dir(&trials).map_err(ExperimentError::file("read", &trials))?;
        for entry in entries.flatten() {
            let file = entry.path();
            if file
                .extension()
                .is_some_and(|extension| extension == "json")
            {
                let text =
                    fs::read_to_string(&file).map_err(ExperimentError::file("read", &file))?;
                let record: Record = read(&file, &text)?;
                records.insert(record.trial.number, record);
            }
        }
        Ok(Journal {
            path: path.to_owned(),
            manifest,
            records,
        })
    }

    /// Goes on with one that has the same plan; what failed there is tried again.
    ///
    /// # Errors
    /// Where it has another plan; names what differs.
    pub fn resume(path: &Path, wanted: &Manifest) -> Result<Self, ExperimentError> {
        let mut journal = Journal::open(path)?;
        let differences = journal.manifest.differences(wanted);
        if !differences.is_empty() {
            return Err(ExperimentError::Usage(format!(
                "{} was begun with other options ({}); give the same ones to go on with it, or another name with -o",
                path.display(),
                differences.join(", ")
            )));
        }
        journal.records.retain(|_, record| record.failed.is_none());
        Ok(journal)
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The plan.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// What was done, by the trials' places in the order.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.values()
    }

    /// Whether a trial was done.
    pub fn has(&self, trial: &Trial) -> bool {
        self.records.contains_key(&trial.number)
    }

    /// Where the run of a trial goes.
    pub fn run_path(&self, trial: &Trial) -> PathBuf {
        self.path.join(format!("runs/{:04}.run", trial.number))
    }

    /// Keeps what became of a trial.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn keep(&mut self, record: Record) -> Result<&Record, ExperimentError> {
        let number = record.trial.number;
        write(&self.path.join(format!("trials/{number:04}.json")), &record)?;
        self.records.insert(number, record);
        Ok(&self.records[&number])
    }
}

/// Whole or not at all.
pub(crate) fn write<T: Serialize>(path: &Path, value: &T) -> Result<(), ExperimentError> {
    let partial = path.with_extension("partial");
    let text = serde_json::to_string_pretty(value).expect("plain data") + "\n";
    let written = || -> std::io::Result<()> {
        let mut options = fs::OpenOptions::new();
        let mut file = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&partial)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&partial, path)
    };
    written().map_err(ExperimentError::file("write", path))
}

pub(crate) fn read<T: for<'de> Deserialize<'de>>(
    path: &Path,
    text: &str,
) -> Result<T, ExperimentError> {
    serde_json::from_str(text)
        .map_err(|error| ExperimentError::Failed(format!("{} is damaged: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design::{Mode, Pace, Variant};

    fn manifest() -> Manifest {
        let design = Design {
            clients: vec![1, 2],
            paces: vec![Pace::Closed],
            modes: vec![Mode::Simple],
            variants: vec![Variant::default()],
            repeat: 2,
            seed: 4,
        };
        let options = [("time".to_owned(), "1s".to_owned())].into();
        Manifest::new(design, options, Vec::new(), 5)
    }

    fn record(trial: &Trial, failed: Option<&str>) -> Record {
        Record {
            trial: trial.clone(),
            started_wall_us: 1,
            took_s: 1.5,
            numbers: failed.is_none().then(Numbers::default),
            failed: failed.map(str::to_owned),
        }
    }

    #[test]
    fn what_was_done_is_known_again_and_what_failed_is_tried_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.sweep");
        let mut journal = Journal::create(&path, manifest()).unwrap();
        let trials = journal.manifest().design.trials();
        journal.keep(record(&trials[0], None)).unwrap();
        journal.keep(record(&trials[1], Some("gone"))).unwrap();
        // Cut off while it was written.
        fs::write(path.join("trials/0003.partial"), "{").unwrap();
        assert!(Journal::create(&path, manifest()).is_err());

        let whole = Journal::open(&path).unwrap();
        assert_eq!(whole.records().count(), 2);
        let later = Manifest {
            started_wall_us: 9,
            ..manifest()
        };
        let journal = Journal::resume(&path, &later).unwrap();
        let done: Vec<bool> = trials.iter().map(|trial| journal.has(trial)).collect();
        assert_eq!(done, [true, false, false, false]);
        assert_eq!(journal.manifest().started_wall_us, 5);
    }

    #[test]
    fn another_plan_does_not_go_on_with_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.sweep");
        Journal::create(&path, manifest()).unwrap();
        let mut other = manifest();
        other.design.clients.push(4);
        other.options.insert("time".to_owned(), "2s".to_owned());
        other.options.insert("warm-up".to_owned(), "1s".to_owned());
        let error = Journal::resume(&path, &other).unwrap_err().to_string();
        assert!(error.contains("(--clients, --time, --warm-up)"), "{error}");
        let error = Journal::open(directory.path()).unwrap_err();
        assert!(matches!(error, ExperimentError::Usage(_)), "{error}");
    }
}
