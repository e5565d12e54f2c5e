//! `rehearse mask`: creates keys, and masks workloads and dumps.

use std::io::{BufReader, BufWriter, Stdin, Stdout, Write};
use std::path::Path;

use report::{Masking, TransformReport, mask_text, to_json};
use transform::SecretRedactor;
use transform::mask::Mask;
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
use study::mask_text::{mask_dump, mask_rows};
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
    let reader = keys::open_workload(&options.workload)?;
    let recipients = keys::read_recipients(&options.encryption.encrypt)?;
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

/// Creates a mask with the key in a file.
pub fn mask_of(key: &Path, keep: &[String]) -> Result<Mask, Failure> {
    let keep = KeepArgs {
        mask_keep: keep.to_vec(),
        mask_keep_statement: Vec::new(),
    };
    keep.mask(read_key(key)?)
}

fn streams() -> (BufReader<Stdin>, BufWriter<Stdout>) {
    (
        BufReader::with_capacity(1 << 18, std::io::stdin()),
        BufWriter::with_capacity(1 << 18, std::io::stdout()),
    )
}

fn values(options: &MaskValues) -> Result<ExitStatus, Failure> {
    let mask = mask_of(&options.mask, &options.mask_keep)?;
    let (mut input, mut output) = streams();
    let streams = (&mut input as _, &mut output as _);
    tell(
        &mask,
        &mask_rows(&mask, options.csv, &options.columns, streams)?,
    );
    Ok(ExitStatus::Success)
}

fn dump(options: &MaskDump) -> Result<ExitStatus, Failure> {
    let mask = mask_of(&options.mask, &options.mask_keep)?;
    let (mut input, mut output) = streams();
    let streams = (&mut input as _, &mut output as _);
    mask_dump(&mask, &options.keep_column, streams, |counts| {
        tell(&mask, counts)
    })?;
    Ok(ExitStatus::Success)
}

fn tell(mask: &Mask, counts: &MaskedValues) {
    terminal::note(&format!(
        "{} of {} values masked with the key {}",
        counts.masked,
        counts.values,
        mask.key().fingerprint()
    ));
}
