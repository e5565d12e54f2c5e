//! Parses the list of a statement's parameters in a DETAIL or CONTEXT: `$1 = 'it''s', $2 = NULL`.
//! Values bound in binary are printed as text; types are not printed.

use std::hash::{DefaultHasher, Hash, Hasher};

use workload::{PackedParameters, ParameterRef};

use super::byte_search::{find, parse_number};

/// Syntax error in a list, with its position in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParametersError {
    /// Number of bytes before the error.
    pub at: usize,
}

/// Parses a list into `values`, which is cleared first. Values may contain any text, also newlines
/// and text such as `', $2 = '`: quotes in them are doubled.
///
/// # Errors
/// If `list` as a whole is no such list.
pub fn parse_parameters(list: &str, values: &mut PackedParameters) -> Result<(), ParametersError> {
    values.clear();
    let bytes = list.as_bytes();
    let mut at = 0;
    loop {
        let fail = ParametersError { at };
        if bytes.get(at) != Some(&b'$') {
            return Err(fail);
        }
        let (number, digits) = parse_number(&bytes[at + 1..]).ok_or(fail)?;
        if number != values.len() as u64 + 1
            || bytes[at + 1] == b'0'
            || !bytes[at + 1 + digits..].starts_with(b" = ")
        {
            return Err(fail);
        }
        at += 1 + digits + 3;
        if bytes.get(at) == Some(&b'\'') {
            at = parse_quoted(list, at, values).ok_or(ParametersError { at })?;
        } else if bytes[at..].starts_with(b"NULL") {
            values.push_null();
            at += 4;
        } else {
            return Err(ParametersError { at });
        }
        if at == bytes.len() {
            return Ok(());
        }
        if !bytes[at..].starts_with(b", ") {
            return Err(ParametersError { at });
        }
        at += 2;
    }
}

/// Parses the quoted value that starts at `at`; returns its end.
#[inline]
fn parse_quoted(list: &str, at: usize, values: &mut PackedParameters) -> Option<usize> {
    let bytes = list.as_bytes();
    let mut from = at + 1;
    let mut end = find(bytes, from, b'\'')?;
    while bytes.get(end + 1) == Some(&b'\'') {
        values.push_text(&list[from..=end]);
        from = end + 2;
        end = find(bytes, from, b'\'')?;
    }
    values.push_text(&list[from..end]);
    values.end_value();
    Some(end + 1)
}

/// Returns the list within a DETAIL: `parameters: ` up to version 16, `Parameters: ` from 17 on.
pub(super) fn list_in_detail(detail: &str) -> Option<&str> {
    detail
        .strip_prefix("parameters: ")
        .or_else(|| detail.strip_prefix("Parameters: "))
}

/// Returns the list within an error's CONTEXT (`log_parameter_max_length_on_error`): `unnamed
/// portal with parameters: …`, `portal "p" with parameters: …`, and in version 13 `extended query
/// with parameters: …`. Also returns the portal.
pub(super) fn list_in_context(context: &str) -> Option<(&str, &str)> {
    context.lines().find_map(|line| {
        let (before, _) = line.split_once(" with parameters: ")?;
        let portal = match before {
            "unnamed portal" | "extended query" => "",
            named => named.strip_prefix("portal \"")?.strip_suffix('"')?,
        };
        // Values may contain newlines: the list extends to the end.
        let start = line.as_ptr() as usize - context.as_ptr() as usize + before.len();
        Some((portal, &context[start + " with parameters: ".len()..]))
    })
}

/// Returns the refused value within an error's CONTEXT, as a list of one: `$1 = 'x'` of `unnamed
/// portal parameter $1 = 'x'`. `None` if it is not the first parameter, or has no value.
pub(super) fn refused_value(context: &str) -> Option<&str> {
    context
        .match_indices(" parameter $1 = ")
        .find_map(|(at, words)| {
            let line_start = context[..at].rfind('\n').map_or(0, |end| end + 1);
            let portal = &context[line_start..at];
            let is_portal = portal == "unnamed portal" || portal.starts_with("portal \"");
            // The value may contain newlines: it extends to the end.
            let list = &context[at + words.len() - "$1 = ".len()..];
            // log_parameter_max_length_on_error may have cut it.
            (is_portal && !list.ends_with("...'")).then_some(list)
        })
}

/// Returns whether an error's CONTEXT shows the extended protocol: a portal's name, or a
/// parameter's.
pub(super) fn is_extended(context: &str) -> bool {
    context.lines().any(|line| {
        line.starts_with("unnamed portal ")
            || line.starts_with("portal \"")
            || line.starts_with("extended query with parameters: ")
    })
}

/// Distinguishes values that `log_parameter_max_length` truncated from those that really end in
/// `...`.
///
/// A truncated value is the first N bytes (up to three fewer if a character would be split) and
/// `...`; a whole one has at most N bytes. So `V...` can be truncated only if no value so far was
/// longer than `V`. The rest is flagged: a long value that really ends in `...` and is the longest
/// so far is taken for a truncated one. That loses a replayed statement but never sends a wrong
/// one.
///
/// The limit may be lowered while the log is written, or differ between roles. If values that end
/// in `...` have the same length again and again, and none was longer meanwhile, that is the limit.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TruncationDetector {
    /// Lower bound of the limit, if there is one.
    limit_min: usize,
    /// A repeated length below it, its number of repetitions, and the hash of the last value: a
    /// repetition of the same text proves nothing.
    repeated: usize,
    times: u32,
    last: u64,
}

/// Number of different values of the same length that end in `...` from which a limit is inferred.
const REPETITIONS_MIN: u32 = 4;

/// Maximum difference of a truncated length from the limit, since a character has up to four bytes
/// and is not split.
const CHARACTER_SLACK_BYTES: usize = 3;

impl TruncationDetector {
    /// Returns whether a statement's values contain a truncated one.
    pub(super) fn has_truncated(&mut self, values: &PackedParameters) -> bool {
        let mut suspect = None;
        for value in values.iter().flatten().filter_map(ParameterRef::text) {
            let kept = value.strip_suffix("...").map(str::len);
            self.update_limit(kept, value);
            self.limit_min = self.limit_min.max(kept.unwrap_or(value.len()));
            suspect = suspect.max(kept);
        }
        if self.times >= REPETITIONS_MIN {
            self.limit_min = self.repeated;
            self.times = 0;
        }
        // An empty rest proves nothing: log_parameter_max_length = 0 leaves no list at all.
        suspect.is_some_and(|kept| kept > 0 && kept + CHARACTER_SLACK_BYTES >= self.limit_min)
    }
}

impl TruncationDetector {
    /// Checks whether there is a limit that is lower than assumed.
    #[inline]
    fn update_limit(&mut self, kept: Option<usize>, value: &str) {
        match kept {
            Some(kept) => self.update_limit_from(kept, value),
            None if value.len() > self.repeated => self.times = 0,
            None => (),
        }
    }

    #[cold]
    fn update_limit_from(&mut self, kept: usize, value: &str) {
        let mut hasher = DefaultHasher::new();
        value.hash(&mut hasher);
        let hash = hasher.finish();
        if hash == self.last {
            return;
        }
        self.last = hash;
        if self.times > 0 && kept.abs_diff(self.repeated) <= CHARACTER_SLACK_BYTES {
            self.repeated = self.repeated.max(kept);
            self.times += 1;
        } else if kept > self.repeated || self.times == 0 {
            (self.repeated, self.times) = (kept, u32::from(kept > 0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Value = Option<Box<str>>;

    fn parsed(list: &str) -> Result<Vec<Value>, ParametersError> {
        let mut values = PackedParameters::default();
        parse_parameters(list, &mut values)?;
        let text = |value: Option<ParameterRef<'_>>| {
            value.map(|value| value.text().expect("a log has text").into())
        };
        Ok(values.iter().map(text).collect())
    }

    fn packed(texts: &[&str]) -> PackedParameters {
        let mut values = PackedParameters::default();
        for text in texts {
            values.push_text(text);
            values.end_value();
        }
        values
    }

    fn list(values: &[Value]) -> String {
        let one = |(index, value): (usize, &Value)| match value {
            None => format!("${} = NULL", index + 1),
            Some(value) => format!("${} = '{}'", index + 1, value.replace('\'', "''")),
        };
        values
            .iter()
            .enumerate()
            .map(one)
            .collect::<Vec<_>>()
            .join(", ")
    }

    proptest! {
        #[test]
        fn fact_08_what_the_server_writes_is_read_back(
            values in prop::collection::vec(
                prop::option::of(prop_oneof![
                    ".*",
                    "[', $12=NUL\n\t.]{0,20}",
                    Just("', $2 = 'x".to_owned()),
                ]),
                1..12,
            )
        ) {
            let values: Vec<Value> = values.into_iter().map(|value| value.map(Into::into)).collect();
            prop_assert_eq!(parsed(&list(&values)), Ok(values));
        }

        #[test]
        fn a_cut_list_is_refused(
            values in prop::collection::vec(prop::option::of("[a', $1=]{0,9}"), 1..4), cut in 0usize..60
        ) {
            let values: Vec<Value> = values.into_iter().map(|value| value.map(Into::into)).collect();
            let whole = list(&values);
            let cut = cut % whole.len();
            if let Ok(fewer) = parsed(&whole[..cut]) {
                // A cut after a whole value, or where a doubled quote looks like the last one.
                prop_assert!(fewer.len() <= values.len());
            }
        }
    }

    #[test]
    fn what_is_no_list() {
        for (text, at) in [
            ("", 0),
            ("$2 = 'a'", 0),
            ("$1 = a", 5),
            ("$1 = 'a", 5),
            ("$1 = 'a';", 8),
            ("$1 = NULLx", 9),
            ("$01 = 'a'", 0),
            ("$99999999999 = 'a'", 0),
        ] {
            assert_eq!(parsed(text), Err(ParametersError { at }), "{text}");
        }
    }

    #[test]
    fn fact_04_both_spellings_of_the_detail() {
        assert_eq!(list_in_detail("parameters: $1 = '1'"), Some("$1 = '1'"));
        assert_eq!(list_in_detail("Parameters: $1 = '1'"), Some("$1 = '1'"));
        assert_eq!(list_in_detail("prepare: prepare p as select 1"), None);
    }

    #[test]
    fn fact_10_parameters_of_a_failure_stand_in_its_context() {
        for (context, found) in [
            (
                "unnamed portal with parameters: $1 = 'a\nb'",
                Some(("", "$1 = 'a\nb'")),
            ),
            (
                "PL/pgSQL function f()\nportal \"C_3\" with parameters: $1 = NULL",
                Some(("C_3", "$1 = NULL")),
            ),
            (
                "extended query with parameters: $1 = '1'",
                Some(("", "$1 = '1'")),
            ),
            ("unnamed portal parameter $1 = 'x'", None),
        ] {
            assert_eq!(list_in_context(context), found, "{context}");
            assert!(is_extended(context));
        }
        assert!(!is_extended("PL/pgSQL function f() line 3"));
    }

    #[test]
    fn fact_09_a_cut_value_is_told_from_one_that_ends_in_dots() {
        let mut cuts = TruncationDetector::default();
        assert!(!cuts.has_truncated(&packed(&["short", "..."])));
        assert!(
            cuts.has_truncated(&packed(&["longlong..."])),
            "eight bytes are the longest so far"
        );
        assert!(
            cuts.has_truncated(&packed(&["longlon...", "12345678"])),
            "a character of two bytes was split"
        );
        assert!(
            !cuts.has_truncated(&packed(&["and so on and on..", "wait..."])),
            "longer values were whole"
        );
        assert!(!cuts.has_truncated(&packed(&["longlong..."])));
    }

    #[test]
    fn fact_09_a_limit_that_was_lowered_shows_after_a_while() {
        let mut cuts = TruncationDetector::default();
        assert!(!cuts.has_truncated(&packed(&["a value of more than thirty bytes"])));
        let found: Vec<bool> = [
            "longlong...",
            "short",
            "otherone...",
            "otherone...",
            "thirdone...",
            "moreofit...",
        ]
        .iter()
        .map(|value| cuts.has_truncated(&packed(&[value])))
        .collect();
        assert_eq!(found, [false, false, false, false, false, true]);
        // Between longer values they are what people write.
        let mut cuts = TruncationDetector::default();
        for value in ["and so on...", "more than eight bytes"]
            .iter()
            .cycle()
            .take(20)
        {
            assert!(!cuts.has_truncated(&packed(&["a value of more than thirty bytes", value])));
        }
    }
}
