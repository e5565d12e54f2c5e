//! One replay of a proof, and what was used meanwhile.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clock::Clock;
use replay::{Observer, Options, Snapshot, Target};
use run::{ArchiveError, RunReader, RunStatus, RunWriter};
use target::login::{Dialer, Login, Questions};
use workload::WorkloadReader;

use super::counters::{Counters, settled};
use super::numbers::{ProofNumbers, RelationSize, Sums};
use super::warm::warm;
use crate::error::ExperimentError;
use crate::machine::{Used, postmaster_of};
use crate::statements::login_of;

/// How long our own statements may take together: an index may be built by them.
pub(super) const TIME: Duration = Duration::from_secs(24 * 3_600);
/// Tables and indexes whose sizes are kept.
const SIZES_MAX: usize = 300;

/// What a run of a proof is given.
pub(super) struct Place<'a> {
    pub(super) reader: &'a WorkloadReader,
    pub(super) options: &'a Options,
    pub(super) target: &'a Target,
    pub(super) is_ours: bool,
    pub(super) postmaster: Option<i32>,
    /// Where its run goes.
    pub(super) run: &'a Path,
    pub(super) clock: &'a Arc<dyn Clock>,
    pub(super) stop: &'a dyn Fn() -> bool,
}

/// Warms, replays, and measures. `None` where it was stopped by the user.
pub(super) fn perform(place: &Place<'_>) -> Result<Option<ProofNumbers>, ExperimentError> {
    let (reader, options) = (place.reader, place.options);
    let target = options.prepared(place.target);
    let info = replay::check_target(reader, &target, &options.logins)?;
    let dialer = Dialer::new(&target).map_err(replay::ReplayError::Target)?;
    let first = reader.sessions()?.next().transpose()?;
    let first = first.as_ref().map(|one| (&*one.user, &*one.database));
    let facts = login_of(&target, first, options);
    let mut watch = Watch {
        place,
        own: own_login(&target, &facts),
        facts,
        dialer: &dialer,
        postmaster: place.postmaster,
        begun: None,
        ended: None,
        sizes: Vec::new(),
    };
    let met = watch.ask().map(|mut questions| {
        warm(&mut questions, place.is_ours);
        postmaster(&mut questions, &watch.own)
    });
    let unseen = match met {
        Ok(found) => {
            watch.postmaster = watch.postmaster.or(found);
            None
        }
        Err(error) => Some(error),
    };
    let info = replay::replay(
        reader,
        &target,
        info,
        options,
        place.run,
        place.clock,
        &mut watch,
    )?;
    if info.status == RunStatus::Stopped {
        return match &info.given_up {
            Some(why) => Err(ExperimentError::Failed(format!(
                "the replay gave the target up: {why}"
            ))),
            None => Ok(None),
        };
    }
    if info.done == 0 {
        return Err(ExperimentError::Failed(format!(
            "the target did none of the {} statements ({} failed, {} connections could not be opened); see `rehearse summary {}`",
            info.statements,
            info.failed.values().sum::<u64>(),
            info.connections_failed.values().sum::<u64>(),
            place.run.display()
        )));
    }
    let made = RunReader::open(place.run)?;
    let classes = made.statements()?.map(|text| {
        let text = text?;
        Ok::<_, ArchiveError>((text.fingerprint, text.class))
    });
    let mut sums = Sums::new(classes.collect::<Result<_, _>>()?);
    for execution in made.executions()? {
        sums.take(&execution?);
    }
    let mut numbers = sums.finish(&info);
    numbers.sizes = std::mem::take(&mut watch.sizes);
    if let (Some(begun), Some(ended)) = (&watch.begun, &watch.ended) {
        spent(&mut numbers, begun, ended);
    }
    if let Some(error) = unseen {
        numbers.missing.insert("warming".to_owned(), error);
    }
    Ok(Some(numbers))
}

/// What was used between two readings.
fn spent(numbers: &mut ProofNumbers, begun: &Reading, ended: &Reading) {
    let seconds =
        |before: Option<u64>, now: Option<u64>| Some(now?.saturating_sub(before?) as f64 / 1e6);
    numbers.server_cpu_s = seconds(begun.used.server_us, ended.used.server_us);
    numbers.client_cpu_s = seconds(begun.used.client_us, ended.used.client_us);
    if numbers.server_cpu_s.is_none() {
        let why = "the server's processes are not of this machine, or not to be seen";
        numbers.missing.insert("cpu".to_owned(), why.to_owned());
    }
    match (&begun.counters, &ended.counters) {
        (Ok(before), Ok(now)) => {
            numbers.blocks = Some(now.blocks.saturating_sub(before.blocks));
            numbers.updates = Some(now.updates.saturating_sub(before.updates));
            numbers.hot_updates = Some(now.hot.saturating_sub(before.hot));
        }
        (Err(why), _) | (_, Err(why)) => {
            numbers.missing.insert("blocks".to_owned(), why.clone());
        }
    }
    match (&begun.wal, &ended.wal) {
        (Ok(before), Ok(now)) => numbers.wal_bytes = Some(now.saturating_sub(*before)),
        (Err(why), _) | (_, Err(why)) => {
            numbers.missing.insert("wal".to_owned(), why.clone());
        }
    }
}

/// Who asks: the user that the target itself names, since that one may see more; else as the first session.
pub(super) fn own_login(target: &Target, session: &Login) -> Login {
    let mut own = session.clone();
    if let Some(user) = &target.user {
        own.user = user.as_str().into();
        own.role = None;
    }
    own
}

fn postmaster(questions: &mut Questions<'_>, login: &Login) -> Option<i32> {
    let rows = questions.ask("SELECT pg_backend_pid()").ok()?;
    let backend = rows.first()?.first()?.as_deref()?.parse().ok()?;
    postmaster_of(backend, &login.user, &login.database)
}

/// What is known at a moment.
struct Reading {
    used: Used,
    /// Bytes of WAL since the cluster was made.
    wal: Result<u64, String>,
    counters: Result<Counters, String>,
}

struct Watch<'a> {
    place: &'a Place<'a>,
    /// As the sessions log in.
    facts: Login,
    own: Login,
    dialer: &'a Dialer,
    postmaster: Option<i32>,
    begun: Option<Reading>,
    ended: Option<Reading>,
    sizes: Vec<RelationSize>,
}

impl Watch<'_> {
    fn ask(&self) -> Result<Questions<'_>, String> {
        let questions = self.dialer.questions(&self.own);
        let mut questions = questions.map_err(|error| error.to_string())?;
        questions.limit(TIME);
        Ok(questions)
    }

    fn counters(&self) -> Result<Counters, String> {
        settled(&mut self.ask()?)
    }

    fn read(&self, counters: Result<Counters, String>) -> Reading {
        let used = Used::now(self.postmaster);
        let wal = self.ask().and_then(|mut questions| {
            let question = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')";
            let rows = questions.ask(question).map_err(|error| error.to_string())?;
            let found = rows
                .first()
                .and_then(|row| row.first()?.as_deref()?.parse().ok());
            found.ok_or_else(|| "the server gave no answer".to_owned())
        });
        Reading {
            used,
            wal,
            counters,
        }
    }

    fn sizes(&self) -> Option<Vec<RelationSize>> {
        let question = format!(
            "SELECT c.oid::regclass::text, relkind = 'i', pg_table_size(c.oid) FROM pg_class c \
             JOIN pg_namespace n ON n.oid = relnamespace \
             WHERE relkind IN ('r', 'm', 'i') AND relpersistence <> 't' \
             AND nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') \
             ORDER BY 3 DESC, 1 LIMIT {SIZES_MAX}"
        );
        let rows = self.ask().ok()?.ask(&question).ok()?;
        let size = |row: &Vec<Option<String>>| {
            Some(RelationSize {
                name: row.first()?.clone()?,
                is_index: row.get(1)?.as_deref()? == "t",
                bytes: row.get(2)?.as_deref()?.parse().ok()?,
            })
        };
        Some(rows.iter().filter_map(size).collect())
    }
}

impl Observer for Watch<'_> {
    fn beginning(&mut self, run: &mut RunWriter) -> Result<(), ArchiveError> {
        let logins = [self.facts.clone()];
        let facts = observe::facts(self.place.target, &logins, &**self.place.clock);
        run.facts(&facts)?;
        // What warming read is told by then.
        let counters = self.counters();
        self.begun = Some(self.read(counters));
        Ok(())
    }

    fn ending(&mut self, _: &mut RunWriter) -> Result<(), ArchiveError> {
        // Waiting for counts to settle is no work of the server's: the rest is read first.
        let mut ended = self.read(Ok(Counters::default()));
        ended.counters = self.counters();
        self.ended = Some(ended);
        self.sizes = self.sizes().unwrap_or_default();
        Ok(())
    }

    fn progress(&mut self, _: &Snapshot) {}

    fn should_stop(&mut self) -> bool {
        (self.place.stop)()
    }
}
