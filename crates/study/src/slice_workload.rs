//! Copies a part of a workload to a new workload.

use std::collections::BTreeMap;
use std::path::Path;

use capture_sink::{EventSink, MaskSink, SinkError};
use transform::mask::Masker;
use transform::{SecretRedactor, SessionRecords, Slice, Slicer, TimeBound};
use workload::{
    EventKind, MaskNote, Recipient, Session, SliceAccount, SliceNote, WorkloadInfo, WorkloadReader,
    WorkloadWriter,
};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::keys::note_gaps;

/// Writes the part of a workload that a slice keeps to `output`, encrypted to its recipients, if any. `given` has the
/// slice's options, for the manifest.
///
/// # Errors
/// If the slice does not fit the workload, the workload cannot be read, the output cannot be written, or the user
/// stopped it.
pub fn write_slice(
    reader: &WorkloadReader,
    slice: Slice,
    given: BTreeMap<String, Vec<String>>,
    output: (&Path, &[Recipient]),
    interrupt: &Interrupt,
) -> Result<(WorkloadInfo, SliceAccount), Failure> {
    write_masked_slice(reader, (slice, given), None, output, interrupt)
        .map(|(info, account, _)| (info, account))
}

/// Does the same as [`write_slice`], and masks values.
///
/// # Errors
/// As [`write_slice`].
pub fn write_masked_slice(
    reader: &WorkloadReader,
    (slice, given): (Slice, BTreeMap<String, Vec<String>>),
    masker: Option<Masker>,
    (output, recipients): (&Path, &[Recipient]),
    interrupt: &Interrupt,
) -> Result<(WorkloadInfo, SliceAccount, Option<MaskNote>), Failure> {
    let start_us = reader.info().provenance.start_wall_us;
    let wall_us = |bound: Option<TimeBound>| bound.map(|bound| bound.wall_us(start_us));
    let (from_us, to_us) = (wall_us(slice.from), wall_us(slice.to));
    let mut slicer = Slicer::new(slice, Some(start_us));
    // Of a series, only the parts that the slice needs are read. If it has none, the slicer describes the available events.
    let within = reader.within(from_us.unwrap_or(i64::MIN), to_us.unwrap_or(i64::MAX));
    let reader = &within.unwrap_or_else(|_| reader.clone());
    note_gaps(reader);
    let start_us = reader.info().provenance.start_wall_us;
    let writer = WorkloadWriter::create_for(
        output,
        workload::WriterOptions::default(),
        recipients,
        SecretRedactor::default(),
    )?;
    let mut writer = MaskSink::new(writer, masker);
    let mut records = SessionRecords::new(reader.sessions()?);
    let mut server_events = reader.server_events()?.peekable();
    let mut copy_server_events_until =
        |slicer: &mut Slicer, writer: &mut MaskSink<WorkloadWriter>, now_us: i64| {
            while let Some(item) = server_events.next_if(|item| {
                item.as_ref()
                    .map_or(true, |(event, _)| event.at_us <= now_us)
            }) {
                let (mut event, _) = item?;
                event.at_us += start_us;
                if slicer.includes_server_event(event.at_us, event.session) {
                    writer.server_event(event)?;
                }
            }
            Ok::<(), Failure>(())
        };
    for item in reader.events()? {
        if interrupt.is_requested() {
            return Err(Failure::could_not(
                "the slicing was stopped; nothing of it is left, and the workload is as it was",
            ));
        }
        let (mut event, _) = item?;
        let (id, now_us) = (event.session, event.due_us);
        let ends = event.kind == EventKind::Disconnect;
        copy_server_events_until(&mut slicer, &mut writer, now_us)?;
        event.due_us += start_us;
        slicer.handle_event(event, &mut |event| writer.event(&event.borrowed()))?;
        if ends && let Some(record) = records.take(id, now_us, |other| slicer.is_live(other))? {
            write_session(&mut slicer, &mut writer, record, start_us)?;
        }
    }
    copy_server_events_until(&mut slicer, &mut writer, i64::MAX)?;
    for id in slicer.remaining_sessions() {
        if let Some(record) = records.take(id, i64::MAX, |other| slicer.is_live(other))? {
            write_session(&mut slicer, &mut writer, record, start_us)?;
        }
    }
    let account = slicer.finish()?;
    let (mut writer, masked) = writer.finish();
    writer.note_masks(reader.info().masked.iter().chain(&masked).cloned());
    let mut provenance = reader.info().provenance.clone();
    provenance.slices.push(SliceNote {
        workload: reader.path().display().to_string(),
        workload_id: reader.id().to_owned(),
        options: given,
        account: account.clone(),
    });
    let info = writer.finish(provenance)?;
    Ok((info, account, masked))
}

/// Writes the record of a session, with the times of a reader, if any of its statements is kept.
fn write_session(
    slicer: &mut Slicer,
    writer: &mut MaskSink<WorkloadWriter>,
    mut record: Session,
    start_us: i64,
) -> Result<(), SinkError> {
    record.start_us += start_us;
    record.end_us += start_us;
    slicer
        .finish_session(record)
        .map_or(Ok(()), |record| writer.session(record))
}
