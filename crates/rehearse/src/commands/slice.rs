//! `rehearse slice`: creates a workload from a part of another.

use report::{TransformReport, slice_text, to_json};

use crate::commands::capture::check_workload_name;
use crate::exit_status::ExitStatus;
use crate::options::slice::{SliceArgs, SliceWorkload};
use crate::terminal;
use study::Failure;
use study::dump_snapshot::{DumpSnapshot, PG_DUMP, find_dump_snapshots};
use study::keys;
use study::slice_workload::write_masked_slice;
use transform::TimeBound;
use workload::WorkloadReader;

/// Reads one workload, writes the other, and reports the numbers of kept and excluded events.
pub fn run(options: &SliceWorkload) -> Result<ExitStatus, Failure> {
    let mut wanted = options.slice.clone();
    let reader = keys::open_workload(&options.workload)?;
    if options.from_dump {
        begin_at_dump(&reader, &mut wanted)?;
    }
    let Some(slice) = wanted.slice()? else {
        return Err(Failure::usage(
            "nothing says which part to keep; give --from, --from-dump, --to, --filter-database, --filter-user, --application, --statement or --kind (to mask all of it, `rehearse mask workload`)",
        ));
    };
    check_workload_name(&options.output)?;
    let interrupt = crate::signals::listen().map_err(Failure::could_not)?;
    let masker = options.masking.masker()?;
    let (info, account, masked) = write_masked_slice(
        &reader,
        (slice, wanted.given()),
        masker,
        (
            &options.output,
            &keys::read_recipients(&options.encryption.encrypt)?,
        ),
        &interrupt,
    )?;
    let paths = [&options.workload, &options.output].map(|path| path.display().to_string());
    let mut sliced = TransformReport::new("rehearse/slice/1", paths, &info, account);
    sliced.mask = masked.map(From::from);
    if options.json {
        terminal::say_line(&to_json(&sliced));
    } else {
        terminal::say(&slice_text::render_text(&sliced, &terminal::style()));
    }
    if options.from_dump {
        terminal::note(&format!(
            "After the dump is restored, set its sequences, which pg_dump reads later than its snapshot: rehearse inspect {} --sequences | psql -d postgres://COPY/DATABASE",
            options.output.display()
        ));
    }
    Ok(ExitStatus::Success)
}

/// Has a slice begin at the snapshot of the workload's only dump, without the sessions of pg_dump.
///
/// # Errors
/// If there is no dump, or several.
fn begin_at_dump(reader: &WorkloadReader, slice: &mut SliceArgs) -> Result<(), Failure> {
    let name = reader.path().display();
    let snapshots = find_dump_snapshots(reader)?;
    let time = |one: &DumpSnapshot| clock::rfc3339_text(one.wall_us);
    match snapshots.as_slice() {
        [only] => {
            terminal::note(&format!(
                "The snapshot of the dump of database {} was taken at {}.",
                only.database,
                time(only)
            ));
            slice.from = Some(TimeBound::Wall(only.wall_us));
            slice.not_application.push(PG_DUMP.to_owned());
            Ok(())
        }
        [] => Err(Failure::usage(format!(
            "{name} contains no pg_dump that took its own snapshot; dump through the capture, or give --from TIME"
        ))),
        several => {
            let listed: Vec<String> = several
                .iter()
                .map(|one| format!("{} of {}", time(one), one.database))
                .collect();
            Err(Failure::usage(format!(
                "{name} contains {} dumps ({}); give the one that was restored with --from TIME --not-application {PG_DUMP}",
                several.len(),
                listed.join(", ")
            )))
        }
    }
}
