//! Work of a plan's nodes in an execution.

use serde_json::{Map, Value};

/// Place of a node's rows that did not fit into memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SpillPlace {
    /// All fitted into memory.
    #[default]
    Memory,
    /// Some were written into temporary files.
    Disk,
}

/// Work of a plan's node in an execution.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ActualWork {
    /// Number of executions, those of parallel workers included.
    pub loops: f64,
    /// Time of all executions and of the nodes below, in milliseconds.
    pub ms: f64,
    /// Rows of all executions.
    pub rows: f64,
    /// Rows of all executions that conditions removed.
    pub removed: f64,
    /// Blocks that it and the nodes below read, from the server's buffers or elsewhere; 0 without `BUFFERS`.
    pub blocks: f64,
    /// Blocks of them that were not in the server's buffers.
    pub read: f64,
    /// Blocks that it and the nodes below wrote into temporary files.
    pub temporary: f64,
    /// Bytes of write-ahead log of it and the nodes below (from 13 on).
    pub wal_bytes: f64,
    /// Whether its own sort or hash table went to disk.
    pub spill: SpillPlace,
    /// Largest memory or disk space of its sort or hash table, in KiB.
    pub space_kb: f64,
    /// Name of an init plan or of a subplan, as conditions refer to it.
    pub subplan: Option<String>,
    /// Blocks of a bitmap that was too small for the places of single rows.
    pub lossy: f64,
}

impl ActualWork {
    /// Reads the work from the fields of a node; `None` if it was only planned.
    pub(super) fn read(fields: &Map<String, Value>) -> Option<Self> {
        let number = |name: &str| fields.get(name).and_then(Value::as_f64).unwrap_or(0.0);
        let text = |name: &str| fields.get(name).and_then(Value::as_str);
        let loops = fields.get("Actual Loops")?.as_f64()?;
        let is_on_disk = text("Sort Space Type") == Some("Disk")
            || number("Hash Batches") > 1.0
            || number("HashAgg Batches") > 1.0
            || number("Disk Usage") > 0.0;
        let space = ["Sort Space Used", "Peak Memory Usage", "Disk Usage"];
        let removed = [
            "Rows Removed by Filter",
            "Rows Removed by Join Filter",
            "Rows Removed by Index Recheck",
        ];
        Some(ActualWork {
            loops,
            ms: number("Actual Total Time") * loops,
            rows: number("Actual Rows") * loops,
            removed: removed.iter().map(|name| number(name)).sum::<f64>() * loops,
            blocks: number("Shared Hit Blocks") + number("Shared Read Blocks"),
            read: number("Shared Read Blocks"),
            temporary: number("Temp Written Blocks"),
            wal_bytes: number("WAL Bytes"),
            spill: match is_on_disk {
                true => SpillPlace::Disk,
                false => SpillPlace::Memory,
            },
            space_kb: space.iter().map(|name| number(name)).fold(0.0, f64::max),
            subplan: text("Subplan Name").map(str::to_owned),
            lossy: number("Lossy Heap Blocks"),
        })
    }
}
