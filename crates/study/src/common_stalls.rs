//! Stalls of the tool that several runs have in common.

use run::{RunReader, ToolStall, merge_stalls};

/// Returns the stalls of all runs if they did the same work at the same times.
pub(crate) fn common_stalls(readers: &[&RunReader]) -> Option<Vec<ToolStall>> {
    let schedule = |reader: &&RunReader| {
        let info = reader.info();
        let speed = info.options.get("speed").cloned();
        (info.workload.id.clone(), speed)
    };
    let first = schedule(readers.first()?);
    let is_paced = first.1.as_deref() != Some("max");
    (is_paced && readers.iter().all(|reader| schedule(reader) == first)).then(|| {
        let infos = readers.iter().map(|reader| reader.info());
        merge_stalls(infos.map(|info| info.tool_stalls.as_slice()))
    })
}
