//! `rehearse rewrite`: a workload as clients would have made it that do something otherwise.

use std::io::Write;
use std::path::{Path, PathBuf};

use experiment::KeyServer;
use report::{RewriteView, rewrite_text, to_json};
use workload::rewrite::{RewriteNote, Rewriter, Rewriting};
use workload::{Recipient, WorkloadInfo, WorkloadReader, WorkloadWriter, WriterOptions};

use crate::commands::capture::must_be_a_workloads_name;
use crate::commands::prove::keyed;
use crate::ending::{Ending, Failure};
use crate::interrupt::Interrupt;
use crate::keys;
use crate::options::rewrite::Rewrite;
use crate::terminal;

/// Reads one workload, writes the other, and shows what became of every statement.
pub fn run(options: &Rewrite) -> Result<Ending, Failure> {
    let all = options.how.all();
    if all.is_empty() {
        return Err(Failure::usage(
            "nothing says how; give --batch-inserts ROWS, --drop TEXT, --cache TIME, --prepare, --unprepare, --pool CONNECTIONS or --swap-key TABLE.COLUMN",
        ));
    }
    must_be_a_workloads_name(&options.output)?;
    let interrupt = Interrupt::listen().map_err(Failure::could_not)?;
    let reader = keys::open(&options.workload)?;
    let mut recipients = keys::recipients(&options.encryption.encrypt)?;
    if recipients.is_empty() {
        recipients = reader.recipients();
    }
    let mut keys = key_server(options, &all)?;
    let output = (&*options.output, &recipients[..]);
    let info = rewrite(&reader, &all, output, keys.as_mut(), &interrupt)?;
    if let Some(keys) = &mut keys {
        let path = write_change(options, &all, keys)?;
        terminal::note(&format!(
            "{} makes the same of the data: carry it out on a copy of them before the replay.",
            path.display()
        ));
    }
    let done = &info.provenance.rewrites;
    let view = RewriteView::new(
        &options.workload.display().to_string(),
        &options.output.display().to_string(),
        &info,
        &done[done.len() - all.len()..],
    );
    match options.json {
        true => terminal::say_line(&to_json(&view)),
        false => terminal::say(&rewrite_text::render_text(&view, &terminal::style())),
    }
    Ok(Ending::Done)
}

/// The server with the data, where keys are swapped.
fn key_server(options: &Rewrite, all: &[Rewriting]) -> Result<Option<KeyServer>, Failure> {
    if all.iter().all(|one| one.key().is_none()) {
        return Ok(None);
    }
    let path = change_path(options);
    if path.exists() {
        return Err(Failure::usage(format!(
            "{} is there already, and would be the script of the swapped key; give another name with -o",
            path.display()
        )));
    }
    match &options.target {
        Some(url) => keyed::of(url, None).map(Some),
        None => Err(Failure::usage(
            "--swap-key has to look at the data, which it does not change; give --target URL, the database with them",
        )),
    }
}

fn change_path(options: &Rewrite) -> PathBuf {
    options.output.with_extension("sql")
}

/// Writes the script that swaps the keys in the data; a name that was taken meanwhile is left alone.
fn write_change(
    options: &Rewrite,
    all: &[Rewriting],
    keys: &mut KeyServer,
) -> Result<PathBuf, Failure> {
    let path = change_path(options);
    let names = all.iter().filter_map(Rewriting::key);
    let texts: Result<Vec<String>, _> = names.map(|name| keys.change(name)).collect();
    let text = texts?.join("\n");
    let made = std::fs::File::create_new(&path);
    made.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| Failure::could_not(format!("cannot write {}: {error}", path.display())))?;
    Ok(path)
}

/// Writes a workload rewritten to `output`, encrypted to its recipients, if there are any. What is encrypted stays so.
/// Swapped keys are looked up in `keys`.
///
/// # Errors
/// Where one cannot be read or the other not written, or it was stopped.
pub fn rewrite(
    reader: &WorkloadReader,
    all: &[Rewriting],
    (output, recipients): (&Path, &[Recipient]),
    mut keys: Option<&mut KeyServer>,
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
        info = once(
            &from,
            rewriting,
            (&to, recipients),
            keys.as_deref_mut(),
            interrupt,
        )?;
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
    mut keys: Option<&mut KeyServer>,
    interrupt: &Interrupt,
) -> Result<WorkloadInfo, Failure> {
    let start_us = reader.info().provenance.start_wall_us;
    let mut rewriter = Rewriter::new(rewriting);
    if let Some(keys) = &mut keys {
        rewriter.begin(*keys)?;
    }
    let mut writer = WorkloadWriter::create_for(output, WriterOptions::default(), recipients)?;
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
        if let Some(keys) = &mut keys {
            rewriter.surveyed(*keys)?;
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
