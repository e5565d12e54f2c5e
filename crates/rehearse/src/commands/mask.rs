//! `rehearse mask`: creates keys, and masks workloads and dumps.

use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use report::{Masking, TransformReport, mask_text, to_json};
use transform::SecretRedactor;
use transform::mask::{CopyFormat, Mask};
use workload::{MaskedValues, WorkloadWriter, WriterOptions};

use crate::commands::capture::check_workload_name;
use crate::exit_status::ExitStatus;
use crate::options::masking::{
    KeepArgs, MaskAction, MaskArgs, MaskCommand, MaskDump, MaskValues, MaskWorkload, random_key,
    read_key,
};
use crate::terminal;
use study::Failure;
use study::keys;
use study::mask_workload::mask_workload;

/// Runs the requested action.
pub fn run(options: &MaskCommand) -> Result<ExitStatus, Failure> {
    match &options.action {
        MaskAction::Key { file } => key(file),
        MaskAction::Workload(options) => workload(options),
        MaskAction::Dump(options) => dump(options),
        MaskAction::Values(options) => values(options),
    }
}

fn key(file: &Path) -> Result<ExitStatus, Failure> {
    use std::os::unix::fs::OpenOptionsExt;
    let secret = random_key()?;
    let mut made = std::fs::OpenOptions::new();
    let made = made.write(true).create_new(true).mode(0o600).open(file);
    made.and_then(|mut made| writeln!(made, "{secret}"))
        .map_err(|error| {
            Failure::usage(format!(
                "the key file {} cannot be made ({error}); give the name of a new file",
                file.display()
            ))
        })?;
    let key = read_key(file)?;
    terminal::say_line(&format!(
        "{}: a key for masking, {}; who has it can tell which values were masked",
        file.display(),
        key.fingerprint()
    ));
    Ok(ExitStatus::Success)
}

fn workload(options: &MaskWorkload) -> Result<ExitStatus, Failure> {
    check_workload_name(&options.output)?;
    let given = MaskArgs {
        mask: Some(options.mask.clone()),
        keep: options.keep.clone(),
    };
    let masker = given.masker()?.expect("there is a key");
    let interrupt = crate::signals::listen().map_err(Failure::could_not)?;
    let reader = keys::open(&options.workload)?;
    let recipients = keys::recipients(&options.encryption.encrypt)?;
    let writer = WorkloadWriter::create_for(
        &options.output,
        WriterOptions::default(),
        &recipients,
        SecretRedactor::default(),
    )?;
    let (info, note) = mask_workload(&reader, masker, writer, &interrupt)?;
    let paths = [&options.workload, &options.output].map(|path| path.display().to_string());
    let masked = TransformReport::new("rehearse/mask/1", paths, &info, Masking::from(note));
    match options.json {
        true => terminal::say_line(&to_json(&masked)),
        false => terminal::say(&mask_text::render_text(&masked, &terminal::style())),
    }
    Ok(ExitStatus::Success)
}

fn mask_of(key: &Path, keep: &[String]) -> Result<Mask, Failure> {
    let keep = KeepArgs {
        mask_keep: keep.to_vec(),
        mask_keep_statement: Vec::new(),
    };
    keep.mask(read_key(key)?)
}

/// Passes the lines of standard input, each with its line end, to `masked`, and writes its
/// output.
fn filter(
    mut masked: impl FnMut(&[u8], &mut Vec<u8>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let read = |error| Failure::could_not(format!("standard input cannot be read: {error}"));
    let written = |error| Failure::could_not(format!("standard output takes no more: {error}"));
    let mut input = BufReader::with_capacity(1 << 18, std::io::stdin().lock());
    let mut output = BufWriter::with_capacity(1 << 18, std::io::stdout().lock());
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

fn values(options: &MaskValues) -> Result<ExitStatus, Failure> {
    let mask = mask_of(&options.mask, &options.mask_keep)?;
    let format = CopyFormat::of(if options.csv {
        "copy t from stdin csv"
    } else {
        "copy t from stdin"
    });
    let wanted = |place: usize| {
        options.columns.is_empty()
            || options
                .columns
                .iter()
                .any(|column| *column as usize == place + 1)
    };
    let mut counts = MaskedValues::default();
    filter(|row, out| {
        let quotes = row.iter().filter(|byte| **byte == b'"').count();
        if !options.csv || quotes.is_multiple_of(2) {
            mask.copy_row(&format, row, wanted, &mut counts, out);
        }
        Ok(())
    })?;
    tell(&mask, &counts);
    Ok(ExitStatus::Success)
}

/// Returns whether the first bytes of a dump are text.
fn is_text(beginning: &[u8]) -> bool {
    !beginning.starts_with(b"PGDMP")
        && !beginning.contains(&0)
        && !beginning.starts_with(b"\x1f\x8b")
}

fn dump(options: &MaskDump) -> Result<ExitStatus, Failure> {
    let mask = mask_of(&options.mask, &options.mask_keep)?;
    let mut counts = MaskedValues::default();
    let mut unused: Vec<&str> = options.keep_column.iter().map(String::as_str).collect();
    // Which columns of the table to mask, while its rows come.
    let mut table: Option<(CopyFormat, Vec<bool>)> = None;
    let mut inserts = false;
    let mut is_first = true;
    filter(|line, out| {
        // pg_dump's other formats: custom, gzip, tar (whose first file is toc.dat).
        if std::mem::take(&mut is_first) && !is_text(line) {
            return Err(Failure::usage(
                "this is not a plain dump; make one with pg_dump --format plain, and give it as text, not compressed",
            ));
        }
        if let Some((format, wanted)) = &table {
            mask.copy_row(
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
            !options.keep_column.iter().any(|kept| is(kept))
        });
        table = Some((CopyFormat::of(&text), wanted.collect()));
        Ok(())
    })?;
    tell(&mask, &counts);
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
    Ok(ExitStatus::Success)
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

fn tell(mask: &Mask, counts: &MaskedValues) {
    terminal::note(&format!(
        "{} of {} values masked with the key {}",
        counts.masked,
        counts.values,
        mask.key().fingerprint()
    ));
}
