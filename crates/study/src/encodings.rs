//! What is said of databases whose encoding is not that of a workload's texts.

use replay::Target;
use run::TargetInfo;
use workload::{ArchiveError, WorkloadReader};

use crate::notes;

/// Says what becomes of texts in databases that are not UTF8.
///
/// # Errors
/// Where the workload cannot be read.
pub fn announce(
    reader: &WorkloadReader,
    target: &Target,
    found: &TargetInfo,
) -> Result<(), ArchiveError> {
    if found.encodings.is_empty() {
        return Ok(());
    }
    let from_wire = replay::is_from_wire(reader)?;
    for (database, encoding) in &found.encodings {
        notes::note(&note(
            database,
            encoding,
            from_wire,
            target.encoding.as_deref(),
        ));
    }
    Ok(())
}

fn note(database: &str, encoding: &str, from_wire: bool, said: Option<&str>) -> String {
    let becomes = match (from_wire, said) {
        (true, None) => format!(
            "sessions whose clients named no client_encoding name none here either: what they sent is taken as {encoding}, as it was if the captured database had the same; what is not valid as UTF-8 is not in the workload, and is skipped (not_utf8)"
        ),
        (true, Some(said)) => format!(
            "sessions whose clients named no client_encoding have {said}, as the target says; what is not valid as UTF-8 is not in the workload, and is skipped (not_utf8)"
        ),
        (false, _) if encoding == "SQL_ASCII" => {
            "statements are sent as UTF-8, which it keeps as it is; bytes of another encoding, which its clients may have sent, are not in the workload".to_owned()
        }
        (false, _) => format!(
            "statements are sent as UTF-8, and the server converts them; what {encoding} does not have fails with 22P05"
        ),
    };
    format!("Database \"{database}\" has the encoding {encoding}: {becomes}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_becomes_of_texts() {
        let says = |encoding, from_wire, said, part: &str| {
            let note = note("shop", encoding, from_wire, said);
            assert!(note.contains("\"shop\"") && note.contains(part), "{note}");
        };
        says("LATIN1", true, None, "taken as LATIN1");
        says(
            "LATIN1",
            true,
            Some("UTF8"),
            "have UTF8, as the target says",
        );
        says("LATIN1", false, Some("LATIN1"), "converts them");
        says("SQL_ASCII", false, None, "keeps as it is");
    }
}
