//! `rehearse export-evidence`: packs everything that is needed to reproduce a run into one
//! archive.

use report::{evidence_text, to_json};
use run::RunReader;
use study::Failure;
use study::export_evidence::{ExportRequest, export_evidence, output_path};

use crate::commands::show;
use crate::exit_status::ExitStatus;
use crate::options::export_evidence::ExportEvidence;
use crate::terminal;

/// Packs a run's evidence, and shows the included and the missing items.
pub fn run(options: &ExportEvidence) -> Result<ExitStatus, Failure> {
    let reader = RunReader::open(&options.run)?;
    reader.verify()?;
    let output = output_path(&options.run, options.output.as_deref())?;
    let name = options.run.display().to_string();
    let literals = show::literals(options.show_literals);
    let (evidence, packed) = export_evidence(&ExportRequest {
        run: (&reader, &name),
        output: (!options.dry_run).then_some(&output),
        with_run: options.with_run,
        with_workload: options.with_workload.as_deref(),
        literals,
        program: (env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")),
        summary: &show::json(&reader, &name, literals)?,
    })?;
    if options.json {
        terminal::say_line(&to_json(&evidence));
    } else {
        let style = terminal::style();
        terminal::say(&evidence_text::render_text(
            &evidence,
            options.dry_run,
            &style,
        ));
    }
    if let Some(bytes) = packed {
        terminal::note(&format!(
            "{} is written, {}.",
            output.display(),
            indicatif::BinaryBytes(bytes)
        ));
    }
    Ok(ExitStatus::Success)
}
