//! Masks the values of a workload.

use capture_sink::{EventSink, MaskSink};
use transform::mask::Masker;
use workload::{MaskNote, WorkloadInfo, WorkloadReader, WorkloadWriter};

use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// Writes a masked copy of a workload.
///
/// # Errors
/// If the workload cannot be read, the copy cannot be written, or the user stopped it.
pub fn mask_workload(
    reader: &WorkloadReader,
    masker: Masker,
    writer: WorkloadWriter,
    interrupt: &Interrupt,
) -> Result<(WorkloadInfo, MaskNote), Failure> {
    let start_us = reader.info().provenance.start_wall_us;
    let mut sink = MaskSink::new(writer, Some(masker));
    for item in reader.server_events()? {
        let (mut event, _) = item?;
        event.at_us += start_us;
        sink.server_event(event).map_err(Failure::could_not)?;
    }
    for item in reader.events()? {
        if interrupt.is_requested() {
            return Err(Failure::could_not(
                "the masking was stopped; nothing of it is left, and the workload is as it was",
            ));
        }
        let (mut event, _) = item?;
        event.due_us += start_us;
        sink.event(&event.borrowed()).map_err(Failure::could_not)?;
    }
    for item in reader.sessions()? {
        let mut session = item?;
        session.start_us += start_us;
        session.end_us += start_us;
        sink.session(session).map_err(Failure::could_not)?;
    }
    let (mut writer, note) = sink.finish();
    let note = note.expect("there is a masker");
    writer.note_masks(reader.info().masked.iter().cloned().chain([note.clone()]));
    let info = writer.finish(reader.info().provenance.clone())?;
    Ok((info, note))
}
