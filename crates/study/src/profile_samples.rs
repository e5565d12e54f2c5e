//! The samples of a run's CPU profile, filtered and attributed to statements.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use archive::ArchiveError;
use cpu_profile::phases::{
    PhaseAccount, Placement, Rules, SampleTime, Span, attribute, spans_of_executions,
};
use run::{ProfileReader, ProfiledBackend, RunReader};
use sql::Fingerprint;
use workload::StatementText;

use crate::failure::Failure;

/// Kind of a process that executes part of a query for a client's backend.
pub const PARALLEL_WORKER: &str = "parallel worker";
/// Kinds of processes that work for clients.
pub const CLIENT_KINDS: [&str; 3] = ["client backend", PARALLEL_WORKER, "unknown"];
/// Kind of the backends of this program's own connections.
pub const OWN_KIND: &str = "own";

/// Filter of samples. The default chooses all samples of clients' backends.
#[derive(Debug, Clone, Default)]
pub struct SampleFilter {
    /// Only samples of this statement, by its fingerprint in hexadecimal.
    pub statement: Option<String>,
    /// Only samples of this role.
    pub user: Option<String>,
    /// Only samples of this database.
    pub database: Option<String>,
    /// Includes the server's background processes.
    pub all_processes: bool,
}

/// Parses the fingerprint that `--statement` names.
///
/// # Errors
/// If it is no fingerprint.
pub fn parse_fingerprint(text: &str) -> Result<Fingerprint, Failure> {
    let number = u64::from_str_radix(text, 16).ok();
    let number = number.filter(|_| text.len() == 16);
    number.map(Fingerprint).ok_or_else(|| {
        Failure::usage(format!(
            "--statement {text} is no fingerprint; give 16 digits of 0 to f, as `rehearse cpu` prints them"
        ))
    })
}

/// The CPU profile of a run, opened for reading.
pub struct ProfileSamples {
    run: RunReader,
    /// The profile.
    pub profile: ProfileReader,
    backends: HashMap<u64, ProfiledBackend>,
    statement: Option<Fingerprint>,
    choice: SampleFilter,
}

impl ProfileSamples {
    /// Opens the profile of a run.
    ///
    /// # Errors
    /// If the run has no profile, or the filter is invalid.
    pub fn open(run: RunReader, choice: &SampleFilter) -> Result<Self, Failure> {
        let name = run.path().display();
        let Some(profile) = run.profile()? else {
            return Err(Failure::usage(format!(
                "{name} has no CPU profile; give `rehearse replay` the option --profile, or record one with `rehearse profile`"
            )));
        };
        if let Some(reason) = &profile.info().off {
            let remedy = profile.info().remedy.as_deref();
            let remedy = remedy.map_or_else(String::new, |remedy| format!("; {remedy}"));
            return Err(Failure::could_not(format!(
                "{name} has no CPU profile: {reason}{remedy}"
            )));
        }
        let statement = choice
            .statement
            .as_deref()
            .map(parse_fingerprint)
            .transpose()?;
        let mut backends = HashMap::new();
        for one in profile.backends()? {
            let one = one?;
            backends.insert(one.pid, one);
        }
        Ok(ProfileSamples {
            run,
            profile,
            backends,
            statement,
            choice: choice.clone(),
        })
    }

    /// Passes the stack of each chosen sample and its statement, if known. Returns the number of other samples.
    /// Samples outside the period that the kernel's CPU time covers are not chosen.
    ///
    /// # Errors
    /// If the run cannot be read.
    pub fn for_each_chosen(
        &self,
        mut take: impl FnMut(u64, Option<Fingerprint>),
    ) -> Result<u64, ArchiveError> {
        let mut others = 0;
        let (from_ns, until_ns) = (self.profile.info().begun_ns, self.profile.info().ended_ns);
        self.for_each_sample(|sample, statement| {
            let is_wanted = (self.statement.is_none() || statement == self.statement)
                && (from_ns..=until_ns).contains(&sample.at_ns);
            match is_wanted && self.is_chosen(sample.pid) {
                true => take(sample.stack, statement),
                false => others += 1,
            }
        })?;
        Ok(others)
    }

    /// Passes each sample, chosen or not, and its statement, if known.
    ///
    /// # Errors
    /// If the run cannot be read.
    pub fn for_each_sample(
        &self,
        take: impl FnMut(run::StackSample, Option<Fingerprint>),
    ) -> Result<(), ArchiveError> {
        let sessions: Result<HashSet<u64>, ArchiveError> = self
            .profile
            .sessions()?
            .map(|one| one.map(|one| one.pid))
            .collect();
        let mut pids = sessions?;
        let of_replay = !pids.is_empty();
        let samples = self.profile.samples()?;
        if of_replay {
            let spans = spans_of_executions(
                Box::new(self.run.executions()?) as Box<dyn Iterator<Item = _>>,
                self.profile.sessions()?,
            );
            attribute(samples, spans, &pids, take)
        } else {
            let spans: Result<Vec<_>, _> = self.profile.spans()?.collect();
            let mut spans = spans?;
            spans.sort_by_key(|span| span.until_ns);
            pids.extend(spans.iter().map(|span| span.pid));
            let spans = spans.into_iter().map(|span| {
                Ok(Span {
                    pid: span.pid,
                    from_ns: span.from_ns,
                    until_ns: span.until_ns,
                    fingerprint: span.fingerprint,
                })
            });
            attribute(samples, spans, &pids, take)
        }
    }

    /// Returns the kind of a process, such as `client backend`.
    pub fn process_kind(&self, pid: u64) -> &str {
        self.backends
            .get(&pid)
            .map_or("unknown", |one| one.kind.as_str())
    }

    fn is_chosen(&self, pid: u64) -> bool {
        let backend = self.backends.get(&pid);
        let is = |wanted: &Option<String>, known: fn(&ProfiledBackend) -> &Option<String>| {
            wanted.is_none() || backend.is_some_and(|one| known(one) == wanted)
        };
        (self.choice.all_processes || CLIENT_KINDS.contains(&self.process_kind(pid)))
            && is(&self.choice.user, |one| &one.user)
            && is(&self.choice.database, |one| &one.database)
    }

    /// Reads all stacks, indexed by their numbers.
    ///
    /// # Errors
    /// If the run cannot be read.
    pub fn read_stacks(&self) -> Result<Vec<String>, ArchiveError> {
        let stacks = self.profile.stacks()?;
        stacks
            .map(|stack| stack.map(|stack| stack.frames))
            .collect()
    }

    /// Counts the chosen samples by execution phase. Returns the number of other samples, too.
    ///
    /// # Errors
    /// If the run cannot be read.
    pub fn phases(&self) -> Result<(PhaseAccount, u64), ArchiveError> {
        let (stacks, rules) = (self.read_stacks()?, Rules::new());
        let placed: Vec<Placement<'_>> = stacks.iter().map(|stack| rules.place(stack)).collect();
        let unknown = rules.place("");
        let mut account = PhaseAccount::default();
        let others = self.for_each_chosen(|stack, statement| {
            let placed = placed.get(stack as usize);
            account.add(placed.copied().unwrap_or(unknown), statement);
        })?;
        Ok((account, others))
    }

    /// Reads the texts of statements.
    ///
    /// # Errors
    /// If the run cannot be read.
    pub fn read_texts(&self) -> Result<HashMap<Fingerprint, StatementText>, ArchiveError> {
        let mut texts = HashMap::new();
        for text in self.profile.statements()? {
            let text = text?;
            texts.insert(text.fingerprint, text);
        }
        for text in self.run.statements()? {
            let text = text?;
            texts.insert(text.fingerprint, text);
        }
        Ok(texts)
    }
}

/// Chosen samples of a run's profile, by stack and statement.
pub struct SampledProfile {
    /// Start of the run, in microseconds since 1970-01-01 UTC.
    pub started_wall_us: i64,
    /// Duration of the recording, in nanoseconds.
    pub duration_ns: i64,
    /// CPU time between two samples, in nanoseconds.
    pub period_ns: i64,
    /// CPU time that one sample stands for, in nanoseconds.
    pub sample_ns: f64,
    /// The samples.
    pub stacks: Vec<SampledStack>,
    /// Texts of statements.
    pub texts: HashMap<Fingerprint, StatementText>,
    /// Notes of the recording: samples that are missing, binaries without symbols.
    pub notes: Vec<String>,
}

impl SampledProfile {
    /// Returns the folded stacks: frames from the outermost to the innermost, a blank, and the number of samples.
    pub fn folded(&self) -> Vec<String> {
        let mut samples: BTreeMap<&str, u64> = BTreeMap::new();
        for stack in &self.stacks {
            *samples.entry(&stack.frames).or_default() += stack.samples;
        }
        let line = |(frames, count): (&str, u64)| format!("{frames} {count}");
        samples.into_iter().map(line).collect()
    }
}

/// Samples with one stack and one statement.
pub struct SampledStack {
    /// Frames from the outermost to the innermost, joined by `;`.
    pub frames: String,
    /// Statement, if it is known.
    pub statement: Option<Fingerprint>,
    /// Number of samples.
    pub samples: u64,
}

/// Reads the chosen samples of a run's profile.
///
/// # Errors
/// If the run has no profile, or cannot be read.
pub fn sampled_profile(run: &Path, choice: &SampleFilter) -> Result<SampledProfile, Failure> {
    let reader = RunReader::open(run)?;
    let started_wall_us = reader.info().started_wall_us;
    let profiled = ProfileSamples::open(reader, choice)?;
    let mut counts: BTreeMap<(u64, Option<Fingerprint>), u64> = BTreeMap::new();
    profiled.for_each_chosen(|stack, statement| {
        *counts.entry((stack, statement)).or_default() += 1;
    })?;
    let stacks = profiled.read_stacks()?;
    let stacks = counts
        .into_iter()
        .filter_map(|((stack, statement), samples)| {
            Some(SampledStack {
                frames: stacks.get(stack as usize)?.clone(),
                statement,
                samples,
            })
        });
    let stacks = stacks.collect();
    let info = profiled.profile.info();
    Ok(SampledProfile {
        started_wall_us,
        duration_ns: info.ended_ns.saturating_sub(info.begun_ns),
        period_ns: (1e9 / info.frequency_hz.max(1) as f64).round() as i64,
        sample_ns: SampleTime::of(info).ns,
        stacks,
        texts: profiled.read_texts()?,
        notes: info.notes.clone(),
    })
}

/// Returns the phases of all samples of clients in a run's profile, and the CPU time of one sample. The inner error is
/// the reason why there is no profile.
///
/// # Errors
/// If the run cannot be read.
pub fn phase_account(
    run: RunReader,
) -> Result<Result<(PhaseAccount, SampleTime), String>, Failure> {
    let Some(profile) = run.profile()? else {
        return Ok(Err("no CPU profile was taken".to_owned()));
    };
    if let Some(reason) = &profile.info().off {
        return Ok(Err(reason.clone()));
    }
    let sample_time = SampleTime::of(profile.info());
    let (account, _) = ProfileSamples::open(run, &SampleFilter::default())?.phases()?;
    Ok(Ok((account, sample_time)))
}
