//! A workload is rewritten as clients would have made it that do something otherwise.

use std::path::{Path, PathBuf};

use transform::{Rewriter, Rewriting, SecretRedactor};
use workload::{
    Recipient, RewriteNote, WorkloadInfo, WorkloadReader, WorkloadWriter, WriterOptions,
};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::keys;

/// Writes a workload rewritten to `output`, encrypted to its recipients, if there are any. What is encrypted stays so.
///
/// # Errors
/// Where one cannot be read or the other not written, or it was stopped.
pub fn rewrite(
    reader: &WorkloadReader,
    all: &[Rewriting],
    (output, recipients): (&Path, &[Recipient]),
    interrupt: &Interrupt,
) -> Result<WorkloadInfo, Failure> {
    let mut from = reader.clone();
    let mut info = reader.info().clone();
    let mut between: Vec<Between> = Vec::new();
    for (at, rewriting) in all.iter().enumerate() {
        let is_last = at + 1 == all.len();
        let to = match is_last {
            true => output.to_owned(),
            false => output.with_extension(format!("{at}.workload")),
        };
        info = once(&from, rewriting, (&to, recipients), interrupt)?;
        if !is_last {
            between.push(Between(to.clone()));
            from = keys::open(&to)?;
        }
    }
    Ok(info)
}

/// A workload between two rewritings; it is removed.
struct Between(PathBuf);

impl Drop for Between {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn once(
    reader: &WorkloadReader,
    rewriting: &Rewriting,
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
    let go_on = || match interrupt.is_asked() {
        true => Err(Failure::could_not(
            "the rewriting was stopped; nothing of it is left, and the workload is as it was",
        )),
        false => Ok(()),
    };
    if rewriter.surveys() {
        for item in reader.events()? {
            go_on()?;
            rewriter.survey(&item?.0);
        }
    }
    for item in reader.events()? {
        go_on()?;
        let (mut event, _) = item?;
        event.due_us += start_us;
        rewriter.event(event, &mut |event| writer.event(&event.borrowed()))?;
    }
    let account = rewriter.finish(&mut |event| writer.event(&event.borrowed()))?;
    for record in reader.sessions()? {
        let mut record = record?;
        record.start_us += start_us;
        record.end_us += start_us;
        if let Some(record) = rewriter.session(record) {
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
