//! Notes on databases whose encoding differs from that of a workload's texts.

use replay::Target;
use run::TargetInfo;
use workload::{ArchiveError, WorkloadReader};

use crate::notes;

/// Notes what happens to texts in databases that are not UTF8.
///
/// # Errors
/// If the workload cannot be read.
pub fn note_encodings(
    reader: &WorkloadReader,
    target: &Target,
    found: &TargetInfo,
) -> Result<(), ArchiveError> {
    if found.encodings.is_empty() {
        return Ok(());
    }
    let from_wire = replay::is_from_wire(reader)?;
    for (database, encoding) in &found.encodings {
        notes::note(&describe_encoding(
            database,
            encoding,
            from_wire,
            target.encoding.as_deref(),
        ));
    }
    Ok(())
}

fn describe_encoding(
    database: &str,
    encoding: &str,
    from_wire: bool,
    client_encoding: Option<&str>,
) -> String {
    let becomes = match (from_wire, client_encoding) {
        (true, None) => format!(
            "sessions whose clients named no client_encoding name none here either: what they sent is taken as {encoding}, as it was if the captured database had the same; what is not valid as UTF-8 is not in the workload, and is skipped (not_utf8)"
        ),
        (true, Some(client_encoding)) => format!(
            "sessions whose clients named no client_encoding have {client_encoding}, as the target says; what is not valid as UTF-8 is not in the workload, and is skipped (not_utf8)"
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
    fn describe_encoding_tells_how_texts_are_sent() {
        let says = |encoding, from_wire, client_encoding, part: &str| {
            let note = describe_encoding("shop", encoding, from_wire, client_encoding);
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
