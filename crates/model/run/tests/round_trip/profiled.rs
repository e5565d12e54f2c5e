//! A CPU profile comes back as it was written; of a replay that was killed there is none.

use proptest::prelude::*;
use run::{
    ProfileInfo, ProfileReader, ProfileRows, ProfileWriter, ProfiledBackend, RunReader, RunStatus,
    RunWriter, SessionBackend, Stack, StackSample, StatementSpan,
};
use sql::Fingerprint;
use workload::StatementText;

use super::{info, statement, unlocked};

/// All that a profile has.
#[derive(Debug, Clone, Default, PartialEq)]
struct Profile {
    info: ProfileInfo,
    stacks: Vec<Stack>,
    samples: Vec<StackSample>,
    backends: Vec<ProfiledBackend>,
    sessions: Vec<SessionBackend>,
    spans: Vec<StatementSpan>,
    statements: Vec<StatementText>,
}

impl Profile {
    fn write(&self, writer: &mut ProfileWriter) {
        self.samples
            .iter()
            .for_each(|one| writer.sample(one).unwrap());
        self.sessions
            .iter()
            .for_each(|one| writer.session(one).unwrap());
        self.spans.iter().for_each(|one| writer.span(one).unwrap());
        self.statements
            .iter()
            .for_each(|one| writer.statement(one).unwrap());
        self.stacks
            .iter()
            .for_each(|one| writer.stack(one).unwrap());
        self.backends
            .iter()
            .for_each(|one| writer.backend(one).unwrap());
        writer.info(&self.info).unwrap();
    }

    fn read(reader: &ProfileReader) -> Self {
        fn all<R>(rows: Result<ProfileRows<R>, run::ArchiveError>) -> Vec<R> {
            rows.unwrap().map(Result::unwrap).collect()
        }
        Profile {
            info: reader.info().clone(),
            stacks: all(reader.stacks()),
            samples: all(reader.samples()),
            backends: all(reader.backends()),
            sessions: all(reader.sessions()),
            spans: all(reader.spans()),
            statements: all(reader.statements()),
        }
    }
}

fn words() -> impl Strategy<Value = Option<String>> {
    prop::option::of(".{0,12}")
}

fn infos() -> impl Strategy<Value = ProfileInfo> {
    let texts = (words(), words(), ".{0,9}", ".{0,9}", ".{0,9}", ".{0,9}");
    let numbers = prop::array::uniform7(any::<u64>());
    let notes = prop::collection::vec(".{0,9}", 0..3);
    let rest = (
        any::<i64>(),
        any::<i64>(),
        any::<[bool; 2]>(),
        any::<Option<u64>>(),
        any::<Option<u64>>(),
    );
    (texts, numbers, notes, rest).prop_map(|(texts, numbers, notes, rest)| {
        let (off, remedy, event, unwinding, trial, scope) = texts;
        let [
            frequency_hz,
            samples,
            counted,
            complete,
            unwound,
            lost,
            left_out,
        ] = numbers;
        let (begun_ns, ended_ns, [kernel, same_as_counted], cpu_ns, task_clock_ns) = rest;
        ProfileInfo {
            off,
            remedy,
            event,
            frequency_hz,
            unwinding,
            trial,
            scope,
            kernel,
            begun_ns,
            ended_ns,
            samples,
            counted,
            complete,
            unwound,
            lost,
            left_out,
            cpu_ns,
            task_clock_ns,
            same_as_counted,
            notes,
        }
    })
}

fn profiles() -> impl Strategy<Value = Profile> {
    let backends = (
        any::<u64>(),
        ".{0,9}",
        words(),
        words(),
        words(),
        any::<i64>(),
        any::<u64>(),
    )
        .prop_map(
            |(pid, kind, user, database, application, from_ns, samples)| ProfiledBackend {
                pid,
                kind,
                user,
                database,
                application,
                from_ns,
                samples,
            },
        );
    let stacks = ("[a-z;_\\[\\]]{0,40}", any::<u64>());
    let samples = (any::<i64>(), any::<u64>(), any::<u64>())
        .prop_map(|(at_ns, pid, stack)| StackSample { at_ns, pid, stack });
    let sessions =
        (any::<i64>(), any::<u64>(), any::<u64>()).prop_map(|(from_ns, session, pid)| {
            SessionBackend {
                from_ns,
                session,
                pid,
            }
        });
    let spans = (any::<u64>(), any::<i64>(), any::<i64>(), any::<u64>()).prop_map(
        |(pid, from_ns, until_ns, fingerprint)| StatementSpan {
            pid,
            from_ns,
            until_ns,
            fingerprint: Fingerprint(fingerprint),
        },
    );
    fn many<R: std::fmt::Debug>(of: impl Strategy<Value = R>) -> impl Strategy<Value = Vec<R>> {
        prop::collection::vec(of, 0..8)
    }
    let tables = (
        many(stacks),
        many(samples),
        many(backends),
        many(sessions),
        many(spans),
    );
    (infos(), tables).prop_map(
        |(info, (stacks, samples, backends, sessions, spans))| Profile {
            info,
            stacks: stacks
                .into_iter()
                .enumerate()
                .map(|(id, (frames, samples))| Stack {
                    id: id as u64,
                    frames,
                    samples,
                })
                .collect(),
            samples,
            backends,
            sessions,
            spans,
            statements: vec![statement()],
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn a_profile_comes_back(profile in profiles()) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.run");
        let mut writer = RunWriter::create(&path, &info(), std::iter::once(Ok(statement()))).unwrap();
        let mut profiled = writer.profile().unwrap();
        // On whichever thread.
        let written = profile.clone();
        let profiled = std::thread::spawn(move || {
            written.write(&mut profiled);
            profiled
        });
        writer.take_profile(profiled.join().unwrap()).unwrap();
        writer.finish(info(), 0).unwrap();
        let reader = RunReader::open(&path).unwrap();
        reader.verify().unwrap();
        let back = reader.profile().unwrap().unwrap();
        prop_assert_eq!(Profile::read(&back), profile);
    }
}

/// Its stacks and how it was taken are written at the end, so that nothing of it can be read; what else
/// there is, can.
#[test]
fn of_a_killed_replay_there_is_no_profile() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.run");
    let mut writer = RunWriter::create(&path, &info(), std::iter::once(Ok(statement()))).unwrap();
    let mut profiled = writer.profile().unwrap();
    // More than one group of rows.
    for at_ns in 0..200_000 {
        let sample = StackSample {
            at_ns,
            pid: 1,
            stack: 0,
        };
        profiled.sample(&sample).unwrap();
    }
    writer.flush().unwrap();
    std::mem::forget((writer, profiled));
    let partial = directory.path().join("a.run.partial");
    unlocked(&partial);
    let (_, told) = run::recover(&partial).unwrap();
    assert_eq!(told.status, RunStatus::Recovered);
    let reader = RunReader::open(&path).unwrap();
    reader.verify().unwrap();
    assert!(reader.profile().unwrap().is_none());
    assert_eq!(reader.statements().unwrap().count(), 1);
}

#[test]
fn a_run_that_was_not_profiled_has_no_profile() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.run");
    let writer = RunWriter::create(&path, &info(), std::iter::once(Ok(statement()))).unwrap();
    writer.finish(info(), 0).unwrap();
    assert!(RunReader::open(&path).unwrap().profile().unwrap().is_none());
}
