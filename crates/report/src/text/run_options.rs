//! Options and counts of a replay, as its manifest has them, in words.

use std::collections::BTreeMap;

use run::{DIVISION_OPTION, INCOMPLETE_SHARDS_OPTION, SHARD_OPTION, WORKER_OPTION};

use super::line::one_line;
use super::units::{count, counted};

/// Counts of the values that were inferred, in the manifest.
const GENERATED_INFERRED: &str = "generated_inferred";
const GENERATED_BY_ORDER: &str = "generated_by_order";
const GENERATED_AMBIGUOUS: &str = "generated_ambiguous";

/// Line length limit, in characters.
const LINE_LEN_MAX: usize = 400;

/// Returns the options other than speed that shape the replay, and what they counted. Technical options and logins
/// are only in the manifest, and so are counts of zero.
pub(super) fn options_line(options: &BTreeMap<String, String>) -> Option<String> {
    let shown: Vec<String> = options
        .iter()
        .filter_map(|(name, value)| in_words(name, value))
        .collect();
    (!shown.is_empty()).then(|| {
        format!(
            "  options      {}",
            one_line(&shown.join(", "), LINE_LEN_MAX)
        )
    })
}

/// Returns what was inferred about a capture without results; `None` if it has results or if nothing had to be inferred.
pub(super) fn inferred_line(options: &BTreeMap<String, String>) -> Option<String> {
    let number = |name: &str| options.get(name)?.parse::<u64>().ok();
    let inferred = number(GENERATED_INFERRED)?;
    let ambiguous = number(GENERATED_AMBIGUOUS)?;
    if inferred == 0 && ambiguous == 0 {
        return None;
    }
    let were = |number: u64| if number == 1 { "was" } else { "were" };
    let by_order = match number(GENERATED_BY_ORDER).unwrap_or(0) {
        0 => String::new(),
        by_order => format!(
            "; {} of them by the order of the log alone, so that statements at the same time may have exchanged them",
            count(by_order)
        ),
    };
    let missing = match ambiguous {
        0 => "none that is used is missing".to_owned(),
        ambiguous => format!(
            "{} could not be inferred and {} sent as captured",
            count(ambiguous),
            were(ambiguous),
        ),
    };
    Some(format!(
        "{} that the server made {} inferred from later statements, since a log has no results{by_order}; {missing}. \
         A capture from the wire (rehearse capture proxy) has all of them, and numbers of rows to compare.",
        counted(inferred, "value"),
        were(inferred),
    ))
}

/// Returns what an option or a count says; `None` if it is of no interest to a reader.
fn in_words(name: &str, value: &str) -> Option<String> {
    let is_count = value != "0";
    let if_any = |what: &str| is_count.then(|| format!("{value} {what}"));
    match name {
        "speed" | "workers" | "spin_us" | "user" | "database" => None,
        // They have a line of their own.
        GENERATED_INFERRED | GENERATED_BY_ORDER | GENERATED_AMBIGUOUS => None,
        name if name.starts_with("map_") => None,
        "order" => Some(format!("order of {value}")),
        "remap_generated" => Some("values made by the server mapped".to_owned()),
        "digest" => Some(format!("checksums of {value}")),
        "learnt" => if_any("values made by the server seen"),
        "remapped" => if_any("uses of them replaced"),
        "generated_unknown" => if_any("uses of values that the replay has not seen"),
        "waits_for_dependencies" | "waits_for_commits" | "waits_for_turn" => {
            if_any("statements waited for another session")
        }
        "let_go_before_dependencies" | "let_go_before_commits" | "let_go_before_turn" => {
            if_any("sent without what they wait for, which was blocked")
        }
        "types_unspecified" => if_any("types of parameters left to the server"),
        "types_unknown" => if_any("types of parameters unknown"),
        "deadlock_victims" => if_any("transactions rolled back as the capture's deadlocks were"),
        "invalid_traceparents" => {
            if_any("statements with an invalid traceparent, which was ignored")
        }
        // Those of all shards have lines of their own.
        SHARD_OPTION if value.starts_with("all") => None,
        DIVISION_OPTION | INCOMPLETE_SHARDS_OPTION | WORKER_OPTION => None,
        "otlp" => Some(format!("exported to {value}")),
        _ => Some(match value {
            "true" => name.replace('_', " "),
            _ => format!("{} {value}", name.replace('_', " ")),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_read_as_words_and_counts_of_zero_are_left_out() {
        let options = [
            ("speed", "1"),
            ("map_user_a", "b"),
            ("order", "dependencies"),
            ("remap_generated", "true"),
            ("learnt", "3"),
            ("remapped", "0"),
            ("let_go_before_dependencies", "1"),
            ("read_only", "true"),
            ("max_connections", "4"),
        ];
        let options = options.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(
            options_line(&options.into()).unwrap(),
            "  options      3 values made by the server seen, 1 sent without what they wait for, which was blocked, \
             max connections 4, order of dependencies, read only, values made by the server mapped"
        );
        assert_eq!(options_line(&BTreeMap::new()), None);
    }

    #[test]
    fn inferred_line_has_inferred_and_missing_values() {
        let options = |ambiguous: &str| {
            let options = [
                ("generated_inferred", "1200"),
                ("generated_ambiguous", ambiguous),
            ];
            BTreeMap::from(options.map(|(name, value)| (name.to_owned(), value.to_owned())))
        };
        let line = inferred_line(&options("0")).unwrap();
        assert!(
            line.contains("1,200 values that the server made were inferred"),
            "{line}"
        );
        assert!(line.contains("none that is used is missing"), "{line}");
        let line = inferred_line(&options("3")).unwrap();
        assert!(
            line.contains("3 could not be inferred and were sent as captured"),
            "{line}"
        );
        let none = [("generated_inferred", "0"), ("generated_ambiguous", "0")];
        let none = none.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(inferred_line(&none.into()), None);
        assert_eq!(options_line(&options("3")), None);
        assert_eq!(inferred_line(&BTreeMap::new()), None);
    }
}
