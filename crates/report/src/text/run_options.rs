//! Options and counts of a replay, as its manifest has them, in words.

use std::collections::BTreeMap;

use super::line::one_line;

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

/// Returns what an option or a count says; `None` if it is of no interest to a reader.
fn in_words(name: &str, value: &str) -> Option<String> {
    let is_count = value != "0";
    let counted = |what: &str| is_count.then(|| format!("{value} {what}"));
    match name {
        "speed" | "workers" | "spin_us" | "user" | "database" => None,
        name if name.starts_with("map_") => None,
        "order" => Some(format!("order of {value}")),
        "remap_generated" => Some("values made by the server mapped".to_owned()),
        "digest" => Some(format!("checksums of {value}")),
        "learnt" => counted("values made by the server seen"),
        "remapped" => counted("uses of them replaced"),
        "generated_unknown" => counted("uses of values that the replay has not seen"),
        "waits_for_dependencies" | "waits_for_commits" | "waits_for_turn" => {
            counted("statements waited for another session")
        }
        "let_go_before_dependencies" | "let_go_before_commits" | "let_go_before_turn" => {
            counted("sent without what they wait for, which was blocked")
        }
        "types_unspecified" => counted("types of parameters left to the server"),
        "types_unknown" => counted("types of parameters unknown"),
        "deadlock_victims" => counted("transactions rolled back as the capture's deadlocks were"),
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
}
