//! Asynchronous reads, which version 18 introduced and does by default.

use super::super::result::UpgradeObject;
use super::{Sides, server_object};

/// Setting of version 18 that decides how pages are read.
pub(crate) const IO_METHOD: &str = "io_method";
/// Value with which sessions read as in versions before 18.
const SYNC: &str = "sync";

/// Returns the setting if the old version lacks it, and sessions of the new server do not read as those of the old one.
pub(super) fn asynchronous_reads(sides: &Sides<'_>) -> Option<UpgradeObject> {
    if sides.old.settings.contains_key(IO_METHOD) {
        return None;
    }
    let new = sides.new.settings.get(IO_METHOD)?;
    // A private server may have settings of its own.
    let value = match sides.is_upgraded() {
        true => &new.setting,
        false => &new.boot_val,
    };
    let value = value.as_deref().filter(|value| *value != SYNC)?;
    let object = server_object(IO_METHOD).detail(format!("{SYNC}, before 18 → {value}"));
    Some(object.statement(format!("ALTER SYSTEM SET {IO_METHOD} = '{SYNC}'")))
}
