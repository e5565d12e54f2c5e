//! Finds the part of a file name that all files of one rotated log share.
//!
//! PostgreSQL's `log_filename` puts times and names of days into a name. logrotate appends a number
//! or a date, and the suffix of a compression.

/// Suffixes of compressed files.
const PACKED: [&str; 4] = [".gz", ".zst", ".bz2", ".xz"];

/// Names that `%a`, `%A`, `%b` and `%B` print in English, by their first letters.
const CALENDAR: [&str; 19] = [
    "mon", "tue", "wed", "thu", "fri", "sat", "sun", "jan", "feb", "mar", "apr", "may", "jun",
    "jul", "aug", "sep", "oct", "nov", "dec",
];

/// Length of the shortest run of digits and separators that is a date.
const DATE_DIGITS: usize = 6;

fn unpacked(name: &str) -> &str {
    PACKED
        .iter()
        .find_map(|suffix| name.strip_suffix(suffix))
        .unwrap_or(name)
}

/// Returns the number that logrotate gave to a file: 1 for `a.log.1` and `a.log.1.gz`, 0 for
/// `a.log`.
pub(super) fn rotation_number(name: &str) -> Option<u32> {
    let name = unpacked(name);
    let (rest, last) = name.rsplit_once('.')?;
    match last.parse() {
        // `postgresql.log.20260301` has a date, not a number.
        Ok(number) if last.len() < 4 && rest.contains('.') => Some(number),
        Ok(_) => None,
        Err(_) => Some(0),
    }
}

/// Returns whether one numbered file of a series directly precedes another (`log.2`, `log.1`,
/// `log`); `None` if they are not numbered.
pub(super) fn is_next_file(before: &str, after: &str) -> Option<bool> {
    if stem(before) != stem(after) {
        return None;
    }
    match (rotation_number(before), rotation_number(after)) {
        (Some(before), after) => Some(before == after.unwrap_or(0) + 1),
        (None, _) => None,
    }
}

/// Removes what rotation puts into a name. The result is equal for all files of one log.
pub(super) fn stem(name: &str) -> String {
    let mut name = unpacked(name);
    if rotation_number(name).is_some_and(|number| number > 0) {
        name = name.rsplit_once('.').map_or(name, |(rest, _)| rest);
    }
    let (directory, base) = match name.rfind('/') {
        Some(slash) => name.split_at(slash + 1),
        None => ("", name),
    };
    let base = without_dates(base);
    let base = base.trim_end_matches("-#").trim_end_matches(".#");
    let (rest, extension) = match base.rsplit_once('.') {
        Some((rest, extension)) => (rest, format!(".{extension}")),
        None => (base, String::new()),
    };
    let last = rest.rfind(['-', '_', '.']).map_or(0, |at| at + 1);
    let (start, word) = rest.split_at(last);
    let short =
        word.len() <= 2 && !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let day = word.get(..3).is_some_and(|letters| {
        CALENDAR.contains(&letters.to_ascii_lowercase().as_str())
            && word.len() <= "wednesday".len()
            && word.bytes().all(|byte| byte.is_ascii_alphabetic())
    });
    match short || day {
        true => format!("{directory}{start}#{extension}"),
        false => format!("{directory}{rest}{extension}"),
    }
}

/// Replaces dates and times with `#`.
fn without_dates(base: &str) -> String {
    let mut stem = String::new();
    let mut rest = base;
    while let Some(start) = rest.find(|letter: char| letter.is_ascii_digit()) {
        let of_time = |letter: char| letter.is_ascii_digit() || "-_:.T".contains(letter);
        let run = rest[start..].find(|letter| !of_time(letter));
        let run = &rest[start..run.map_or(rest.len(), |length| start + length)];
        let run = run.trim_end_matches(|letter: char| !letter.is_ascii_digit());
        let digits = run.bytes().filter(u8::is_ascii_digit).count();
        stem.push_str(&rest[..start]);
        stem.push_str(if digits >= DATE_DIGITS { "#" } else { run });
        rest = &rest[start + run.len()..];
    }
    stem + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_log_have_one_stem() {
        for (names, common) in [
            (
                &[
                    "postgresql-2026-03-01_000000.log",
                    "postgresql-2026-03-02_101500.log.gz",
                ][..],
                "postgresql-#.log",
            ),
            (
                &[
                    "x/postgresql.log",
                    "x/postgresql.log.1",
                    "x/postgresql.log.12.gz",
                ],
                "x/postgresql.log",
            ),
            (
                &["postgresql-Mon.log", "postgresql-Tue.log"],
                "postgresql-#.log",
            ),
            (
                &["postgresql-01.csv", "postgresql-31.csv"],
                "postgresql-#.csv",
            ),
            (
                &[
                    "postgresql.log.2026-03-01-09",
                    "postgresql.log.2026-03-01-10.zst",
                    "postgresql.log-20260301.gz",
                ],
                "postgresql.log",
            ),
            (
                &["postgresql-15-main.log", "postgresql-15-main.log.1"],
                "postgresql-15-main.log",
            ),
            (&["server"], "server"),
        ] {
            for name in names {
                assert_eq!(stem(name), common, "{name}");
            }
        }
        assert_ne!(
            stem("postgresql-15-main.log"),
            stem("postgresql-16-main.log")
        );
        assert_ne!(stem("a.csv"), stem("a.log"));
    }

    #[test]
    fn the_number_of_a_rotation() {
        for (name, number) in [
            ("a.log", Some(0)),
            ("a.log.3", Some(3)),
            ("a.log.11.gz", Some(11)),
            ("postgresql.log.20260301", None),
            ("server", None),
        ] {
            assert_eq!(rotation_number(name), number, "{name}");
        }
    }
}
