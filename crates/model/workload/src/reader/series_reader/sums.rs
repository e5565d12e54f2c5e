//! Computes the sum of the manifests of the parts of a series.

use super::PartReader;
use crate::format::{SourceFile, WorkloadInfo};
use crate::lineage::MaskNote;
use crate::series::add_account;

/// Computes the sum of the manifests, and the places of the parts in it.
pub(super) fn sum_parts(parts: &mut [PartReader]) -> WorkloadInfo {
    // The start is a client's event; only without one it is a server event.
    let has_events = parts.iter().any(|part| part.reader.info().events > 0);
    let starts = parts.iter().map(|part| part.reader.info());
    let starts = starts.filter(|info| info.events > 0 || !has_events);
    let start_us = starts
        .map(|info| info.provenance.start_wall_us)
        .min()
        .unwrap_or(0);
    let first_number = parts.first().map_or(1, |part| part.member.number);
    let mut sum = WorkloadInfo::default();
    for (index, part) in parts.iter_mut().enumerate() {
        let info = part.reader.info();
        part.shift_us = info.provenance.start_wall_us - start_us;
        part.sources = add_sources(&mut sum.provenance.sources, &info.provenance.sources);
        if index == 0 {
            let (sources, masked) = (
                std::mem::take(&mut sum.provenance.sources),
                info.masked.clone(),
            );
            sum = WorkloadInfo {
                masked,
                ..info.clone()
            };
            sum.part = None;
            // Sessions continue from part to part.
            sum.logins = None;
            sum.provenance.sources = sources;
            sum.provenance.start_wall_us = start_us;
            if info.events > 0 {
                sum.span_us += part.shift_us;
            }
            if part.member.number > 1 {
                // It is the state before the first part.
                sum.provenance.starting_point = None;
            }
            sum.sessions_at_once = open_sessions(info);
            (sum.server_from_us, sum.server_to_us) = (
                info.server_from_us + part.shift_us,
                info.server_to_us + part.shift_us,
            );
            continue;
        }
        add_part(&mut sum, part, first_number);
    }
    sum
}

/// Adds a part other than the first to the sum.
fn add_part(sum: &mut WorkloadInfo, part: &PartReader, first_number: u64) {
    let info = part.reader.info();
    let account = info.part.clone().unwrap_or_default();
    let left_out = account.left_out_since(first_number);
    if info.events > 0 {
        sum.span_us = sum.span_us.max(part.shift_us + info.span_us);
    }
    sum.sessions += info.sessions.saturating_sub(left_out.sessions);
    sum.sessions_at_once = sum.sessions_at_once.max(open_sessions(info));
    sum.events += info.events.saturating_sub(left_out.events);
    sum.statements += info.statements.saturating_sub(left_out.statements);
    sum.writes += info.writes.saturating_sub(left_out.writes);
    sum.with_duration += info.with_duration.saturating_sub(left_out.with_duration);
    if info.server_events > 0 {
        let (from_us, to_us) = (
            info.server_from_us + part.shift_us,
            info.server_to_us + part.shift_us,
        );
        let is_first = sum.server_events == 0;
        sum.server_from_us = if is_first {
            from_us
        } else {
            sum.server_from_us.min(from_us)
        };
        sum.server_to_us = if is_first {
            to_us
        } else {
            sum.server_to_us.max(to_us)
        };
        sum.server_events += info.server_events;
    }
    for server in &info.provenance.servers {
        if !sum.provenance.servers.contains(server) {
            sum.provenance.servers.push(server.clone());
        }
    }
    let provenance = &info.provenance;
    add_account(
        &mut sum.provenance.reconciliation,
        &provenance.reconciliation,
    );
    for (sum, note) in sum.masked.iter_mut().zip(&info.masked) {
        add_masks(sum, note);
    }
    sum.recovered = info.recovered;
}

/// Returns the maximum number of sessions that were open at the same time in a part, with idle ones.
fn open_sessions(info: &WorkloadInfo) -> u64 {
    let in_series = info
        .part
        .as_ref()
        .map_or(0, |account| account.sessions_at_once);
    info.sessions_at_once.max(in_series)
}

fn add_masks(sum: &mut MaskNote, note: &MaskNote) {
    let value = |note: &MaskNote| serde_json::to_value(&note.account).expect("plain data");
    let mut account = value(sum);
    add_account(&mut account, &value(note));
    if let Ok(account) = serde_json::from_value(account) {
        sum.account = account;
    }
}

/// Adds the sources of a part to those of the whole. Returns the index of each in the whole.
fn add_sources(all: &mut Vec<SourceFile>, sources: &[SourceFile]) -> Vec<u32> {
    let mut index_of = Vec::with_capacity(sources.len());
    for source in sources {
        let is_it = |known: &SourceFile| known.name == source.name;
        let index = match all.iter().position(is_it) {
            Some(index) => {
                all[index].bytes += source.bytes;
                // The format is known when the source has been read.
                if all[index].format.is_empty() {
                    all[index].format.clone_from(&source.format);
                }
                index
            }
            None => {
                all.push(source.clone());
                all.len() - 1
            }
        };
        index_of.push(u32::try_from(index).unwrap_or(u32::MAX));
    }
    index_of
}
