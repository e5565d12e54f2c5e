//! Names the formats that are known and not read, so that an error says how to get a readable log.

use super::LogError;
use super::severity::find_label;
use super::timestamp::TimestampParser;

/// Number of lines that are examined.
const LINES_MAX: usize = 200;

/// Returns the error of journald's own format, whose messages look like lines with a prefix.
pub(super) fn journal_refusal(name: &str, sample: &[u8]) -> Option<LogError> {
    let has = |key: &[u8]| {
        let mut lines = sample.split(|byte| *byte == b'\n').take(LINES_MAX);
        lines.any(|line| line.trim_ascii().starts_with(key))
    };
    let is_journal = has(b"__CURSOR=") || has(b"MESSAGE=") && (has(b"_BOOT_ID=") || has(b"_PID="));
    is_journal.then(|| LogError::Unsupported {
        name: name.to_owned(),
        what: "the output of journalctl -o export or -o verbose, which is not read",
        advice: "write it with journalctl -o short-iso-precise or -o json",
    })
}

/// Returns the error of a log of a known format that is not read; `None` if it has none.
pub(super) fn refusal(name: &str, sample: &[u8]) -> Option<LogError> {
    let lines: Vec<&[u8]> = sample
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::trim_ascii)
        .filter(|line| !line.is_empty())
        .take(LINES_MAX)
        .collect();
    let most = |is: fn(&[u8]) -> bool| {
        let count = lines.iter().filter(|line| is(line)).count();
        count > 0 && count * 2 > lines.len()
    };
    let any = |text: &[u8]| lines.iter().any(|line| line.starts_with(text));
    let (what, advice) = if any(b"<!DOCTYPE") || any(b"<html") {
        (
            "a web page, not a log",
            "download the log file that it shows",
        )
    } else if most(is_json) {
        (
            "JSON whose records hold no line of a server's log in a key that is known (such as message, log or line)",
            "take the server's own lines out of it, such as with jq -r .KEY, and capture these",
        )
    } else if most(is_quoted) {
        (
            "a file whose lines are quoted as a whole, so that quotes in statements cannot be told",
            "export it without quotes, such as with jq -r . for JSON strings",
        )
    } else if most(has_single_blanks) {
        (
            "a log whose double blanks became single ones, as in text copied from a web page ('LOG: ' where the server writes two blanks), so that statements may have lost blanks, too",
            "capture the server's own file",
        )
    } else if most(is_without_time) {
        (
            "a log whose lines have no time before the severity, so that nothing can be replayed when it was due",
            "set log_line_prefix = '%m [%p] %c %l %e %q%r ' (`rehearse capture settings` has it), and capture a log written after that",
        )
    } else {
        return None;
    };
    Some(LogError::Unsupported {
        name: name.to_owned(),
        what,
        advice,
    })
}

fn is_json(line: &[u8]) -> bool {
    line.starts_with(b"{\"") || line.starts_with(b"[{") || line == b"{"
}

fn is_quoted(line: &[u8]) -> bool {
    line.starts_with(b"\"") && find_label(line).is_some()
}

/// Returns whether a line has a time and a severity with one blank after it.
fn has_single_blanks(line: &[u8]) -> bool {
    const LABELS: [&[u8]; 5] = [
        b"LOG: ",
        b"ERROR: ",
        b"FATAL: ",
        b"DETAIL: ",
        b"STATEMENT: ",
    ];
    TimestampParser::default().read(line).is_some()
        && LABELS.iter().any(|label| {
            memchr::memmem::find(line, label)
                .is_some_and(|at| line.get(at + label.len()).is_some_and(|byte| *byte != b' '))
        })
}

/// Returns whether a line has a severity, and nothing before it that may be a time.
fn is_without_time(line: &[u8]) -> bool {
    find_label(line).is_some_and(|at| {
        let prefix = &line[..at];
        let mut times = TimestampParser::default();
        let has_time = (0..prefix.len()).any(|from| times.read(&prefix[from..]).is_some());
        let epoch = prefix
            .split(|byte| !byte.is_ascii_digit() && *byte != b'.')
            .any(|number| {
                number.len() >= 10 && number.iter().filter(|byte| **byte == b'.').count() <= 1
            });
        !has_time && !epoch && times.unknown_zone().is_none()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_known_format_is_named() {
        for (text, word) in [
            ("{\"a\":1}\n{\"a\":2}\n", "JSON"),
            (
                "\"2026-03-01 09:00:00.000 UTC [7] LOG:  statement: select 1\"\n",
                "quoted as a whole",
            ),
            (
                "2021-05-27 17:00:00 UTC:10.1.91.65:user@my_db:[24743]:LOG: duration: 0.054 ms statement: SELECT 1\n",
                "double blanks",
            ),
            (
                "db=shop,user=app LOG:  duration: 1.1 ms  statement: select 1\n",
                "no time",
            ),
            ("<!DOCTYPE html>\n", "web page"),
        ] {
            let error = refusal("x.log", text.as_bytes()).unwrap_or_else(|| panic!("{text}"));
            assert!(error.to_string().contains(word), "{error}");
        }
        let export = b"__CURSOR=s=1\nMESSAGE=2026-03-01 09:00:00.000 UTC [7] LOG:  x\n_PID=7\n";
        assert!(journal_refusal("x.log", export).is_some());
        assert!(journal_refusal("x.log", b"a\n").is_none());
        for text in [
            "2026-03-01 09:00:00.000 UTC [7] LOG:  statement: select 1\n",
            "hello\n",
        ] {
            assert!(refusal("x.log", text.as_bytes()).is_none(), "{text}");
        }
    }
}
