//! Rules about names: those that only some crates or files may use, and remarks of unfinished work.

use super::breach::Breach;
use super::source::Source;

/// Names, where production code may use them (path prefixes), and the reason.
const RESERVED: [(&[&str], &[&str], &str); 3] = [
    (
        &[
            "print!",
            "println!",
            "eprint!",
            "eprintln!",
            "dbg!",
            "stdout",
            "stderr",
            "exit",
            "abort",
        ],
        &["crates/rehearse/", "crates/test-support/", "xtask/"],
        "only the program prints and exits",
    ),
    (
        &["Instant::now", "SystemTime::now"],
        &[
            "crates/base/clock/",
            "crates/base/object-storage/",
            "crates/server/sandbox/",
            // Its systems are applications with a pace of their own.
            "crates/lab/",
            "crates/rehearse/",
            // Time limits of connecting, which blocks.
            "crates/server/connect/src/dial.rs",
        ],
        "ask `clock` for the time, so that a test can set it",
    ),
    (
        &["unsafe"],
        &UNSAFE_FILES,
        "unsafe code stands in the files that xtask/src/tidy/names.rs lists",
    ),
];

/// Files with system calls that have no safe wrapper.
const UNSAFE_FILES: [&str; 20] = [
    "crates/capture/attach/src/prober/bpf.rs",
    "crates/capture/attach/src/prober/ring_buffer.rs",
    "crates/capture/attach/src/prober/user_probe.rs",
    "crates/capture/log/src/text.rs",
    "crates/base/event-loop/src/descriptors.rs",
    "crates/base/event-loop/src/epoll.rs",
    "crates/base/event-loop/src/portable.rs",
    "crates/base/event-loop/src/ring.rs",
    "crates/base/event-loop/src/ring/pool.rs",
    "crates/base/event-loop/src/sockets.rs",
    "crates/base/event-loop/src/thread_priority.rs",
    "crates/base/event-loop/src/waker.rs",
    "crates/replay/src/spill.rs",
    "crates/server/sandbox/src/disk_sync.rs",
    "crates/server/sandbox/src/postmaster.rs",
    "crates/server/sandbox/src/privileges.rs",
    "crates/server/sandbox/src/server.rs",
    "crates/server/sandbox/src/snapshot.rs",
    "crates/server/sandbox/src/watchdog.rs",
    "crates/model/workload/src/event_batch.rs",
];

/// Remarks of unfinished work. They are joined here, so that this file does not contain them.
const REMARKS: [&str; 2] = [concat!("FIX", "ME"), concat!("XX", "X")];

/// Beginning of the attribute that leaves a test out.
const LEFT_OUT: &str = concat!("#[", "ignore");

/// Macros of unfinished code.
const UNFINISHED: [&str; 2] = [concat!("to", "do!"), concat!("unimple", "mented!")];

/// Checks the names of a file.
pub fn check(source: &Source) -> Vec<Breach> {
    [check_reserved(source), check_unfinished(source)].concat()
}

fn check_reserved(source: &Source) -> Vec<Breach> {
    let mut breaches = Vec::new();
    if !source.is_production {
        return breaches;
    }
    for (names, users, reason) in RESERVED {
        if users.iter().any(|user| source.path.starts_with(user)) {
            continue;
        }
        for (index, found) in source.names.iter().enumerate() {
            let before = index
                .checked_sub(1)
                .map_or("", |index| &source.names[index].value);
            let is_named = |name: &&str| match name.split_once("::") {
                Some((first, last)) => before == first && found.value == last,
                None => match *name {
                    // Streams and exits of the process, not fields of these names.
                    "stdout" | "stderr" => before == "io" && found.value == *name,
                    "exit" | "abort" => before == "process" && found.value == *name,
                    name => found.value == name,
                },
            };
            if let Some(name) = names.iter().find(|name| is_named(name))
                && !source.is_test_line(found.line)
            {
                breaches.push(Breach::new(
                    &source.path,
                    found.line,
                    format!("`{name}`: {reason}"),
                ));
            }
        }
    }
    breaches
}

fn check_unfinished(source: &Source) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for found in &source.names {
        if UNFINISHED.contains(&found.value.as_str()) {
            breaches.push(Breach::new(
                &source.path,
                found.line,
                format!("`{}` is unfinished", found.value),
            ));
        }
    }
    for (index, line) in source.text.lines().enumerate() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        let has_word = |word: &str| line.split(|c| !is_word(c)).any(|found| found == word);
        if REMARKS.iter().any(|remark| has_word(remark)) {
            breaches.push(Breach::new(
                &source.path,
                index + 1,
                "a remark of unfinished work",
            ));
        }
        if line.trim().starts_with(LEFT_OUT) {
            breaches.push(Breach::new(&source.path, index + 1, "no test is ignored"));
        }
    }
    breaches
}

/// Checks that each exception is still needed.
pub fn check_exceptions(sources: &[Source]) -> Vec<Breach> {
    let is_needed = |path: &str| {
        let source = sources.iter().find(|source| source.path == path);
        source.is_some_and(|source| source.names.iter().any(|found| found.value == "unsafe"))
    };
    UNSAFE_FILES
        .iter()
        .filter(|path| !is_needed(path))
        .map(|path| Breach::new(path, 0, "has no unsafe code any more; take it off the list"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Source::parse(path, text))
            .into_iter()
            .map(|breach| breach.line)
            .collect()
    }

    #[test]
    fn printing_outside_of_the_program_is_a_breach() {
        let text = "fn a() {\n println!(\"b\");\n std::process::exit(1)\n}\n// dbg!(c)\n";
        assert_eq!(lines("crates/model/run/src/a.rs", text), [2, 3]);
        assert!(lines("crates/rehearse/src/a.rs", text).is_empty());
        assert!(lines("crates/model/run/tests/a.rs", text).is_empty());
        let test =
            "#[cfg(test)]\nmod tests {\n fn a() { print!(\"\") }\n}\nfn b() { eprint!(\"\") }";
        assert_eq!(lines("crates/model/run/src/a.rs", test), [5]);
    }

    #[test]
    fn reading_the_time_outside_of_the_clock_is_a_breach() {
        let text = "// Instant::now()\nfn a() { Instant::now(); }\nfn b() { std::time::SystemTime::now(); }";
        assert_eq!(lines("crates/replay/src/engine.rs", text), [2, 3]);
        assert!(lines("crates/server/connect/src/dial.rs", text).is_empty());
    }

    #[test]
    fn unsafe_code_in_a_file_that_is_not_listed_is_a_breach() {
        let text = "fn a() { let a = \"unsafe\"; unsafe { c() } }";
        assert_eq!(lines("crates/model/run/src/a.rs", text), [1]);
        assert!(lines("crates/base/event-loop/src/epoll.rs", text).is_empty());
        let listed = Source::parse(UNSAFE_FILES[0], "fn a() {}");
        assert!(
            check_exceptions(&[listed])
                .iter()
                .any(|breach| breach.path == UNSAFE_FILES[0])
        );
    }

    #[test]
    fn unfinished_work_is_a_breach() {
        let path = "crates/model/run/tests/a.rs";
        assert_eq!(
            lines(
                path,
                &format!(
                    "fn a() {{\n {}()\n}}\nfn b() {{ {}() }}",
                    UNFINISHED[0], UNFINISHED[1]
                )
            ),
            [2, 4]
        );
        assert_eq!(lines(path, &format!("\n// {}: later", REMARKS[0])), [2]);
        assert!(lines(path, "// a file.XXXXXX, and FIXMEs").is_empty());
        assert_eq!(
            lines(
                path,
                &format!("#[test]\n{LEFT_OUT} = \"slow\"]\nfn a() {{}}")
            ),
            [2]
        );
    }
}
