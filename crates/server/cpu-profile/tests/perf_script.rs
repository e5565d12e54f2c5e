//! The reader of `perf script`'s output, on what perf 6.1 printed of real servers.

mod script_laws;

use std::path::{Path, PathBuf};

use cpu_profile::script::{Entry, Frame, ScriptReader};
use cpu_profile::stacks::{folded, is_complete};

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus/perf_script")
}

fn entries(text: &str) -> (Vec<Entry>, u64) {
    let mut reader = ScriptReader::default();
    let mut entries: Vec<Entry> = text.lines().filter_map(|line| reader.line(line)).collect();
    entries.extend(reader.end());
    (entries, reader.unreadable)
}

fn recorded(name: &str) -> Vec<(u32, i64, Vec<Frame>)> {
    let text = std::fs::read_to_string(corpus().join(name)).unwrap();
    let (entries, unreadable) = entries(&text);
    assert_eq!(unreadable, 0, "all of {name} is understood");
    let sample = |entry| match entry {
        Entry::Sample {
            pid,
            time_ns,
            frames,
        } => (pid, time_ns, frames),
        other => panic!("{other:?} in {name}"),
    };
    entries.into_iter().map(sample).collect()
}

#[test]
fn unwound_stacks_are_whole_from_main_to_the_kernel() {
    let samples = recorded("dwarf-18");
    assert_eq!(samples.len(), 6);
    let (pid, time_ns, frames) = &samples[0];
    assert_eq!((*pid, *time_ns), (24_474, 70_664_062_027_000));
    assert!(is_complete(frames));
    assert_eq!(
        folded(frames),
        "main;PostmasterMain;ServerLoop;postmaster_child_launch;BackendMain;PostgresMain;\
         exec_simple_query;PortalRun;PortalRunMulti;ProcessQuery;standard_ExecutorRun;\
         ExecModifyTable;ExecInsert;ExecOpenIndices;BuildIndexInfo;RelationGetIndexPredicate;\
         stringToNode;nodeRead;parseNodeString;nodeRead;nodeRead;parseNodeString;pg_strtok"
    );
}

#[test]
fn functions_without_names_are_their_files() {
    let samples = recorded("dwarf-15-exported-symbols-only");
    let all: Vec<String> = samples
        .iter()
        .map(|(_, _, frames)| folded(frames))
        .collect();
    let some = all
        .iter()
        .find(|stack| stack.contains("PostgresMain"))
        .unwrap();
    assert!(
        some.starts_with("main;PostmasterMain;[postgres];PostgresMain;"),
        "{some}"
    );
}

#[test]
fn the_kernels_functions_are_marked() {
    let (entries, _) = entries(
        "postgres 7/7 1.5: cpu-clock:I: \n\tffffffff81e2f2e2 __sys_sendto ([kernel.kallsyms])\n\t 1 nf_hook ([nf_tables])\n\t 2 [unknown] ([unknown])\n\t 3 clock ([vdso])\n\n",
    );
    let Entry::Sample {
        frames, time_ns, ..
    } = &entries[0]
    else {
        panic!("{entries:?}");
    };
    assert_eq!(*time_ns, 1_500_000_000);
    let names: Vec<&str> = frames.iter().map(|frame| frame.name.as_str()).collect();
    assert_eq!(
        names,
        ["__sys_sendto_[k]", "nf_hook_[k]", "[unknown]", "clock"]
    );
}

#[test]
fn processes_come_and_go_and_threads_do_not_count() {
    let text = std::fs::read_to_string(corpus().join("tasks")).unwrap();
    let (entries, _) = entries(&text);
    let forks = entries
        .iter()
        .filter(|entry| matches!(entry, Entry::Fork { .. }))
        .count();
    let exits = entries
        .iter()
        .filter(|entry| matches!(entry, Entry::Exit { .. }))
        .count();
    assert!(forks > 5 && exits > 5, "{forks} {exits}");
    let (entries, unreadable) = self::entries(
        "postgres 9/9 3.000001: PERF_RECORD_FORK(10:10):(9:9)\npostgres 9/9 3.000002: PERF_RECORD_FORK(9:11):(9:9)\n:10 10/10 3.1: PERF_RECORD_EXIT(10:10):(9:9)\nperf 1/1 4.0: PERF_RECORD_LOST lost 76\n",
    );
    assert_eq!(unreadable, 0);
    assert_eq!(
        entries,
        [
            Entry::Fork {
                pid: 10,
                parent: 9,
                time_ns: 3_000_001_000
            },
            Entry::Exit {
                pid: 10,
                time_ns: 3_100_000_000
            },
            Entry::Lost(76),
        ]
    );
}

#[test]
fn malformed_perf_output_is_read_as_far_as_possible() {
    let text = std::fs::read_to_string(corpus().join("odd")).unwrap();
    let (entries, unreadable) = entries(&text);
    assert_eq!(unreadable, 3, "{entries:?}");
    let Entry::Sample { pid, frames, .. } = &entries[0] else {
        panic!("{entries:?}");
    };
    assert_eq!(*pid, 7);
    assert_eq!(
        frames[0].name,
        "std::rt::lang_start::<()>::{{closure}} (x: y)"
    );
    assert_eq!(frames[1].name, "operator()(int) (/tmp/a");
    assert!(entries.contains(&Entry::Lost(76)));
}

#[test]
fn the_fuzzers_corpus_holds_however_it_is_damaged() {
    let mut seen = 0;
    for entry in std::fs::read_dir(corpus()).unwrap() {
        let data = std::fs::read(entry.unwrap().path()).unwrap();
        let text = String::from_utf8_lossy(&data).into_owned();
        script_laws::any(&text);
        // Cut anywhere, and with any byte exchanged for what has a meaning.
        for at in (0..text.len()).step_by(61) {
            let (Some(head), Some(tail)) = (text.get(..at), text.get(at + 1..)) else {
                continue;
            };
            script_laws::any(head);
            for with in [" ", "\n", "(", "é"] {
                script_laws::any(&format!("{head}{with}{tail}"));
            }
        }
        seen += 1;
    }
    assert!(seen >= 5);
}
