//! The directory of an experiment: a manifest, and a file for each trial that was performed. Each file is complete or
//! absent, and is written when its trial is over. An experiment that was killed is resumed after the last of them.
//!
//! ```text
//! NAME/manifest.json            the plan
//! NAME/decision.json            what was decided after the first trials, if the plan decides anything
//! NAME/trials/0001.json …       each trial's numbers, by its place in the order
//! NAME/runs/0001.run …          the runs, if they are kept
//! NAME/rewritten/1.workload …   rewritten workloads of a proof, by their side
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::ExperimentError;

const MANIFEST: &str = "manifest.json";
const DECISION: &str = "decision.json";
/// Directory of the records of runs.
const TRIALS: &str = "trials";
/// Version of the format that this build writes.
const FORMAT: u32 = 1;

/// A kind of experiment, as its directory keeps it.
pub trait Plan: Serialize + DeserializeOwned {
    /// Name of the kind, in the manifest and in messages.
    const KIND: &'static str;
    /// The command that makes the directory.
    const COMMAND: &'static str;
    /// Directories in addition to those of trials and runs.
    const DIRECTORIES: &'static [&'static str] = &[];

    /// The result of a trial.
    type Record: Serialize + DeserializeOwned;
    /// Type of what is decided after the first trials and holds for all others.
    type Decision: Serialize + DeserializeOwned + Copy;

    /// The number of a record's trial, from 1.
    fn number(record: &Self::Record) -> u32;

    /// Reports whether a trial has failed, so that resuming repeats it.
    fn has_failed(_record: &Self::Record) -> bool {
        false
    }

    /// Names the options that differ from those of another plan.
    fn differences(&self, other: &Self) -> Vec<&'static str>;
}

/// Everything that is known before the first trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest<P> {
    kind: String,
    format: u32,
    rehearse: String,
    /// The plan of the experiment.
    #[serde(flatten)]
    pub plan: P,
    /// All other options that shape trials, by name. A resumed experiment must have the same.
    pub options: BTreeMap<String, String>,
    /// The settings of a sandbox, apart from those that are varied.
    #[serde(default)]
    pub settings: Vec<(String, String)>,
    /// Start time, in microseconds since 1970-01-01 UTC.
    pub started_wall_us: i64,
}

impl<P: Plan> Manifest<P> {
    /// Describes an experiment that begins.
    pub fn new(
        plan: P,
        options: BTreeMap<String, String>,
        settings: Vec<(String, String)>,
        started_wall_us: i64,
    ) -> Self {
        Manifest {
            kind: P::KIND.to_owned(),
            format: FORMAT,
            rehearse: env!("CARGO_PKG_VERSION").to_owned(),
            plan,
            options,
            settings,
            started_wall_us,
        }
    }

    /// Names the options that differ. Trials of both belong together if there are none.
    fn differences(&self, other: &Manifest<P>) -> Vec<String> {
        let mut names: Vec<String> = self
            .plan
            .differences(&other.plan)
            .into_iter()
            .map(str::to_owned)
            .collect();
        let mut options: Vec<&String> = self.options.keys().chain(other.options.keys()).collect();
        options.sort_unstable();
        options.dedup();
        // Its path is only shown: the id tells whether it is the same workload.
        options.retain(|name| {
            *name != "workload-name" && self.options.get(*name) != other.options.get(*name)
        });
        names.extend(options.iter().map(|name| format!("--{name}")));
        names
    }
}

/// The directory of an experiment.
#[derive(Debug)]
pub struct Journal<P: Plan> {
    path: PathBuf,
    manifest: Manifest<P>,
    decision: Option<P::Decision>,
    records: BTreeMap<u32, P::Record>,
}

/// Most bytes of a file of a journal, or of a script.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Returns the number of runs that are recorded in the directory of an experiment; 0 if there is no such directory.
pub(crate) fn recorded_runs(path: &Path) -> usize {
    fs::read_dir(path.join(TRIALS)).map_or(0, Iterator::count)
}

/// Reads a file that may be replaced by another kind of file, such as a pipe.
pub(crate) fn read_text(path: &Path) -> std::io::Result<String> {
    let content = archive::read_small_file(path, FILE_BYTES_MAX)?;
    String::from_utf8(content).map_err(std::io::Error::other)
}

impl<P: Plan> Journal<P> {
    /// Reports whether a directory is one of this kind.
    pub fn is_at(path: &Path) -> bool {
        let text = read_text(&path.join(MANIFEST)).unwrap_or_default();
        let manifest = serde_json::from_str::<serde_json::Value>(&text).unwrap_or_default();
        manifest["kind"] == P::KIND
    }

    fn create(path: &Path, manifest: Manifest<P>) -> Result<Self, ExperimentError> {
        refuse_existing(path)?;
        for name in [&[TRIALS, "runs"], P::DIRECTORIES].concat() {
            let directory = path.join(name);
            let mut builder = fs::DirBuilder::new();
            let created = builder.mode(0o700).recursive(true).create(&directory);
            created.map_err(ExperimentError::file("make the directory", &directory))?;
        }
        write(&path.join(MANIFEST), &manifest)?;
        Ok(Journal {
            path: path.to_owned(),
            manifest,
            decision: None,
            records: BTreeMap::new(),
        })
    }

    /// Opens the directory of an experiment for reading.
    ///
    /// # Errors
    /// If it is of another kind, or damaged.
    pub fn open(path: &Path) -> Result<Self, ExperimentError> {
        let refused = |why: String| {
            let (path, kind, command) = (path.display(), P::KIND, P::COMMAND);
            ExperimentError::Usage(format!(
                "{path} is no {kind} ({why}); give the directory that `rehearse {command} -o` made"
            ))
        };
        let file = path.join(MANIFEST);
        let text = read_text(&file).map_err(|error| refused(error.to_string()))?;
        let value: serde_json::Value = parse(&file, &text)?;
        let (kind, format) = (&value["kind"], &value["format"]);
        if kind != P::KIND {
            return Err(refused(format!("its kind is {kind}")));
        }
        if format
            .as_u64()
            .is_none_or(|format| format > u64::from(FORMAT))
        {
            return Err(ExperimentError::Usage(format!(
                "{} is a {} of format {format}, and this program reads them up to format {FORMAT}; use a newer one",
                path.display(),
                P::KIND
            )));
        }
        let manifest = parse(&file, &text)?;
        let file = path.join(DECISION);
        let decision = match read_text(&file) {
            Ok(text) => Some(parse(&file, &text)?),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(ExperimentError::file("read", &file)(error)),
        };
        let trials = path.join(TRIALS);
        let mut records = BTreeMap::new();
        for entry in fs::read_dir(&trials).map_err(ExperimentError::file("read", &trials))? {
            let file = entry
                .map_err(ExperimentError::file("read", &trials))?
                .path();
            if file.extension().is_some_and(|one| one == "json") {
                let text = read_text(&file).map_err(ExperimentError::file("read", &file))?;
                let record: P::Record = parse(&file, &text)?;
                records.insert(P::number(&record), record);
            }
        }
        Ok(Journal {
            path: path.to_owned(),
            manifest,
            decision,
            records,
        })
    }

    /// Opens the directory of an experiment to resume. Without `resume`, refuses a path that exists.
    ///
    /// # Errors
    /// As [`Self::open`], and with what to do about a taken path.
    pub fn previous(path: &Path, resume: bool) -> Result<Option<Self>, ExperimentError> {
        if !resume {
            refuse_existing(path)?;
            return Ok(None);
        }
        Self::open(path).map(Some)
    }

    /// Resumes the previous experiment and repeats its failed trials, or else creates the directory.
    ///
    /// # Errors
    /// If the previous plan or options are others; names them. If the directory is taken, or cannot be created.
    pub fn begin(
        path: &Path,
        previous: Option<Self>,
        manifest: Manifest<P>,
    ) -> Result<Self, ExperimentError> {
        let Some(mut journal) = previous else {
            return Self::create(path, manifest);
        };
        let differences = journal.manifest.differences(&manifest);
        if !differences.is_empty() {
            return Err(ExperimentError::Usage(format!(
                "{} was begun with other options ({}); give the same ones to resume it, or another name with -o",
                path.display(),
                differences.join(", ")
            )));
        }
        journal.records.retain(|_, record| !P::has_failed(record));
        Ok(journal)
    }

    /// Replaces the plan by one that the present runs belong to, too.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn replace_plan(&mut self, plan: P) -> Result<(), ExperimentError> {
        self.manifest.plan = plan;
        write(&self.path.join(MANIFEST), &self.manifest)
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns everything that is known before the first trial.
    pub fn manifest(&self) -> &Manifest<P> {
        &self.manifest
    }

    /// Returns the plan of the experiment.
    pub fn plan(&self) -> &P {
        &self.manifest.plan
    }

    /// Returns the decision, if the first trials are over.
    pub fn decision(&self) -> Option<P::Decision> {
        self.decision
    }

    /// Returns the results, in the order of trials.
    pub fn records(&self) -> impl Iterator<Item = &P::Record> {
        self.records.values()
    }

    /// Returns the result of a trial, if it was performed.
    pub fn record(&self, number: u32) -> Option<&P::Record> {
        self.records.get(&number)
    }

    /// Returns the path of a trial's run.
    pub fn run_path(&self, number: u32) -> PathBuf {
        self.path.join(format!("runs/{number:04}.run"))
    }

    /// Writes a decision.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn decide(&mut self, decision: P::Decision) -> Result<(), ExperimentError> {
        write(&self.path.join(DECISION), &decision)?;
        self.decision = Some(decision);
        Ok(())
    }

    /// Writes the result of a trial.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn add(&mut self, record: P::Record) -> Result<(), ExperimentError> {
        let number = P::number(&record);
        write(
            &self.path.join(format!("{TRIALS}/{number:04}.json")),
            &record,
        )?;
        self.records.insert(number, record);
        Ok(())
    }
}

/// Refuses a path that exists.
///
/// # Errors
/// With what to do about it.
pub fn refuse_existing(path: &Path) -> Result<(), ExperimentError> {
    match path.exists() {
        true => Err(ExperimentError::Usage(format!(
            "{} is there already; give another name with -o, or --resume to continue it",
            path.display()
        ))),
        false => Ok(()),
    }
}

/// Writes a file atomically.
fn write<T: Serialize>(path: &Path, value: &T) -> Result<(), ExperimentError> {
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
        fs::rename(&partial, path)?;
        // A result is in the journal before its trial is taken to be over.
        match path.parent() {
            Some(parent) => fs::File::open(parent)?.sync_all(),
            None => Ok(()),
        }
    };
    written().map_err(ExperimentError::file("write", path))
}

fn parse<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, ExperimentError> {
    serde_json::from_str(text)
        .map_err(|error| ExperimentError::Failed(format!("{} is damaged: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::{Design, Mode, Numbers, Pace, Record, SweepPlan, Trial, Variant};

    fn manifest() -> Manifest<SweepPlan> {
        let design = Design {
            clients: vec![1, 2],
            paces: vec![Pace::Closed],
            modes: vec![Mode::Simple],
            variants: vec![Variant::default()],
            repeat: 2,
            seed: 4,
        };
        let options = [("time".to_owned(), "1s".to_owned())].into();
        Manifest::new(SweepPlan { design }, options, Vec::new(), 5)
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
    fn resume_keeps_records_and_repeats_failed_trials() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.sweep");
        let mut journal = Journal::begin(&path, None, manifest()).unwrap();
        let trials = journal.plan().design.trials();
        journal.add(record(&trials[0], None)).unwrap();
        journal.add(record(&trials[1], Some("gone"))).unwrap();
        // A write that was interrupted.
        fs::write(path.join("trials/0003.partial"), "{").unwrap();
        assert!(Journal::begin(&path, None, manifest()).is_err());

        let whole = Journal::<SweepPlan>::open(&path).unwrap();
        assert_eq!(whole.records().count(), 2);
        let mut later = Manifest {
            started_wall_us: 9,
            ..manifest()
        };
        // The workload was moved.
        let path_of_workload = "/b.workload".to_owned();
        later
            .options
            .insert("workload-name".to_owned(), path_of_workload);
        let journal = Journal::begin(&path, Some(whole), later).unwrap();
        let done: Vec<bool> = trials
            .iter()
            .map(|trial| journal.record(trial.number).is_some())
            .collect();
        assert_eq!(done, [true, false, false, false]);
        assert_eq!(journal.manifest().started_wall_us, 5);
    }

    #[test]
    fn resume_with_another_plan_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.sweep");
        Journal::begin(&path, None, manifest()).unwrap();
        let mut other = manifest();
        other.plan.design.clients.push(4);
        other.options.insert("time".to_owned(), "2s".to_owned());
        other.options.insert("warm-up".to_owned(), "1s".to_owned());
        let previous = Journal::previous(&path, true).unwrap();
        let error = Journal::begin(&path, previous, other)
            .unwrap_err()
            .to_string();
        assert!(error.contains("(--clients, --time, --warm-up)"), "{error}");
        let error = Journal::<SweepPlan>::open(directory.path()).unwrap_err();
        assert!(matches!(error, ExperimentError::Usage(_)), "{error}");
    }
}
