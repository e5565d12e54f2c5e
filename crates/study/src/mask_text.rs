//! Masks the rows of a dump or of COPY data, line by line.

use std::io::{BufRead, Write};

use transform::mask::{CopyFormat, Mask};
use workload::MaskedValues;

use crate::failure::Failure;

/// Passes the lines of the input, each with its line end, to `masked`, and writes its
/// output.
fn filter(
    input: &mut dyn BufRead,
    output: &mut dyn Write,
    mut masked: impl FnMut(&[u8], &mut Vec<u8>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let read = |error| Failure::could_not(format!("standard input cannot be read: {error}"));
    let written = |error| Failure::could_not(format!("standard output takes no more: {error}"));
    let (mut line, mut out) = (Vec::new(), Vec::new());
    while input.read_until(b'\n', &mut line).map_err(read)? > 0 {
        masked(&line, &mut out)?;
        // What was not written stays for the next line: a row of CSV may have several.
        if out.is_empty() {
            continue;
        }
        output.write_all(&out).map_err(written)?;
        line.clear();
        out.clear();
    }
    output
        .write_all(&line)
        .and_then(|()| output.flush())
        .map_err(written)
}

/// Masks rows of COPY data, in the text format or in CSV. Without columns, numbered from 1, all are masked.
///
/// # Errors
/// If the input cannot be read, or the output cannot be written.
pub fn mask_rows(
    mask: &Mask,
    is_csv: bool,
    columns: &[u32],
    (input, output): (&mut dyn BufRead, &mut dyn Write),
) -> Result<MaskedValues, Failure> {
    let format = CopyFormat::from_statement(match is_csv {
        true => "copy t from stdin csv",
        false => "copy t from stdin",
    });
    let wanted = |place: usize| {
        columns.is_empty() || columns.iter().any(|column| *column as usize == place + 1)
    };
    let mut counts = MaskedValues::default();
    filter(input, output, |row, out| {
        let quotes = row.iter().filter(|byte| **byte == b'"').count();
        if !is_csv || quotes.is_multiple_of(2) {
            mask.mask_copy_row(&format, row, wanted, &mut counts, out);
        }
        Ok(())
    })?;
    Ok(counts)
}

/// Returns whether the first bytes of a dump are text.
fn is_text(beginning: &[u8]) -> bool {
    !beginning.starts_with(b"PGDMP")
        && !beginning.contains(&0)
        && !beginning.starts_with(b"\x1f\x8b")
}

/// Masks the rows of a plain dump of pg_dump, except in the columns to keep (`TABLE.COLUMN`). `tell` receives the counts
/// before an error about the whole dump.
///
/// # Errors
/// If it is no plain dump, ends within a table, has INSERT statements, or lacks a column to keep.
pub fn mask_dump(
    mask: &Mask,
    keep_columns: &[String],
    (input, output): (&mut dyn BufRead, &mut dyn Write),
    tell: impl FnOnce(&MaskedValues),
) -> Result<(), Failure> {
    let mut counts = MaskedValues::default();
    let mut unused: Vec<&str> = keep_columns.iter().map(String::as_str).collect();
    // Which columns of the table to mask, while its rows come.
    let mut table: Option<(CopyFormat, Vec<bool>)> = None;
    let mut inserts = false;
    let mut is_first = true;
    filter(input, output, |line, out| {
        // pg_dump's other formats: custom, gzip, tar (whose first file is toc.dat).
        if std::mem::take(&mut is_first) && !is_text(line) {
            return Err(Failure::usage(
                "this is not a plain dump; make one with pg_dump --format plain, and give it as text, not compressed",
            ));
        }
        if let Some((format, wanted)) = &table {
            mask.mask_copy_row(
                format,
                line,
                |place| wanted.get(place).copied().unwrap_or(true),
                &mut counts,
                out,
            );
            if line.trim_ascii_end() == b"\\." {
                table = None;
            }
            return Ok(());
        }
        out.extend_from_slice(line);
        inserts |= line.starts_with(b"INSERT INTO ");
        let text = String::from_utf8_lossy(line);
        let Some((name, columns)) = copied_columns(&text) else {
            return Ok(());
        };
        let wanted = columns.iter().map(|column| {
            let whole = format!("{name}.{column}");
            let is = |kept: &str| {
                whole == kept
                    || whole
                        .split_once('.')
                        .is_some_and(|(_, short)| short == kept)
            };
            unused.retain(|kept| !is(kept));
            !keep_columns.iter().any(|kept| is(kept))
        });
        table = Some((CopyFormat::from_statement(&text), wanted.collect()));
        Ok(())
    })?;
    tell(&counts);
    if table.is_some() {
        return Err(Failure::usage(
            "the dump ends in the middle of a table's rows; give one that is whole",
        ));
    }
    if let Some(column) = unused.first() {
        return Err(Failure::usage(format!(
            "--keep-column {column}: no table of the dump has it, and what was written is masked without it; give TABLE.COLUMN as the dump names them"
        )));
    }
    if inserts {
        return Err(Failure::usage(
            "the dump has rows as INSERT statements, which were passed on as they are: do not give them away; make the dump without --inserts and --column-inserts",
        ));
    }
    Ok(())
}

/// Parses the table and the columns of `COPY schema.table (a, "b c") FROM stdin;`, without
/// quotes.
fn copied_columns(line: &str) -> Option<(String, Vec<String>)> {
    let rest = line.strip_prefix("COPY ")?;
    let (target, _) = rest.rsplit_once(") FROM stdin")?;
    let (table, columns) = target.split_once(" (")?;
    let plain = |name: &str| name.replace('"', "");
    Some((plain(table), columns.split(", ").map(plain).collect()))
}
