//! `rehearse slice`: creates a workload from a part of another.

use report::{TransformReport, slice_text, to_json};

use crate::commands::capture::check_workload_name;
use crate::exit_status::ExitStatus;
use crate::options::slice::SliceWorkload;
use crate::terminal;
use study::Failure;
use study::keys;
use study::slice_workload::write_masked_slice;

/// Reads one workload, writes the other, and reports the numbers of kept and excluded events.
pub fn run(options: &SliceWorkload) -> Result<ExitStatus, Failure> {
    let Some(slice) = options.slice.slice()? else {
        return Err(Failure::usage(
            "nothing says which part to keep; give --from, --to, --filter-database, --filter-user, --application, --statement or --kind (to mask all of it, `rehearse mask workload`)",
        ));
    };
    check_workload_name(&options.output)?;
    let interrupt = crate::signals::listen().map_err(Failure::could_not)?;
    let reader = keys::open_workload(&options.workload)?;
    let masker = options.masking.masker()?;
    let (info, account, masked) = write_masked_slice(
        &reader,
        (slice, options.slice.given()),
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
    Ok(ExitStatus::Success)
}
