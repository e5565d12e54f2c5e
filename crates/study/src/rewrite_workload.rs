//! Rewrites a workload as a changed client would have produced it.

use std::path::{Path, PathBuf};

use transform::{Rewrite, Rewriter, SecretRedactor};
use workload::{
    Recipient, RewriteNote, WorkloadInfo, WorkloadReader, WorkloadWriter, WriterOptions,
};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::keys;

/// Writes a rewritten workload to `output`, encrypted to its recipients, if any. An encrypted workload stays
/// encrypted.
///
/// # Errors
/// If the workload cannot be read, the output cannot be written, or the user stopped it.
pub fn rewrite_workload(
    reader: &WorkloadReader,
    all: &[Rewrite],
    (output, recipients): (&Path, &[Recipient]),
    interrupt: &Interrupt,
) -> Result<WorkloadInfo, Failure> {
    let mut from = reader.clone();
    let mut info = reader.info().clone();
    let mut temporary: Vec<TemporaryWorkload> = Vec::new();
    for (at, rewriting) in all.iter().enumerate() {
        let is_last = at + 1 == all.len();
        let to = match is_last {
            true => output.to_owned(),
            false => output.with_extension(format!("{at}.workload")),
        };
        info = rewrite_once(&from, rewriting, (&to, recipients), interrupt)?;
        if !is_last {
            temporary.push(TemporaryWorkload(to.clone()));
            from = keys::open_workload(&to)?;
        }
    }
    Ok(info)
}

/// A temporary workload between two rewritings, removed on drop.
struct TemporaryWorkload(PathBuf);

impl Drop for TemporaryWorkload {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Writes a workload with one rewriting applied.
fn rewrite_once(
    reader: &WorkloadReader,
    rewriting: &Rewrite,
    (output, recipients): (&Path, &[Recipient]),
    interrupt: &Interrupt,
) -> Result<WorkloadInfo, Failure> {
    let start_us = reader.info().provenance.start_wall_us;
    let mut rewriter = Rewriter::new(rewriting);
    let mut writer = WorkloadWriter::create_for(
        output,
        WriterOptions::default(),
        recipients,
        SecretRedactor::default(),
    )?;
    let check_interrupt = || match interrupt.is_requested() {
        true => Err(Failure::could_not(
            "the rewriting was stopped; nothing of it is left, and the workload is as it was",
        )),
        false => Ok(()),
    };
    if rewriter.needs_survey() {
        for item in reader.events()? {
            check_interrupt()?;
            rewriter.survey(&item?.0);
        }
    }
    for item in reader.events()? {
        check_interrupt()?;
        let (mut event, _) = item?;
        event.due_us += start_us;
        rewriter.handle_event(event, &mut |event| writer.event(&event.borrowed()))?;
    }
    let account = rewriter.finish(&mut |event| writer.event(&event.borrowed()))?;
    for record in reader.sessions()? {
        let mut record = record?;
        record.start_us += start_us;
        record.end_us += start_us;
        if let Some(record) = rewriter.rewrite_session(record) {
            writer.session(record)?;
        }
    }
    for item in reader.server_events()? {
        let (mut event, _) = item?;
        event.at_us += start_us;
        writer.server_event(event)?;
    }
    writer.note_masks(reader.info().masked.iter().cloned());
    let mut provenance = reader.info().provenance.clone();
    provenance.rewrites.push(RewriteNote {
        workload: reader.path().display().to_string(),
        workload_id: reader.id().to_owned(),
        rewriting: rewriting.to_string(),
        account,
    });
    Ok(writer.finish(provenance)?)
}
