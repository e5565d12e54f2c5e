//! Load of the machine during a run, apart from the replay and its server.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Load of the replaying machine, from the first statement to the last. Shares are from 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MachineLoad {
    /// Share of all processors' time that processes other than the replay and the server used, or the hypervisor stole.
    /// `null` if the server's processes are not on this machine or not visible.
    #[serde(default)]
    pub others: Option<f64>,
    /// Share of all processors' time that the hypervisor stole.
    #[serde(default)]
    pub stolen: f64,
    /// Share of the time in which some process waited for a processor (PSI, `some` of `/proc/pressure/cpu`); `null` if the
    /// kernel does not tell.
    #[serde(default)]
    pub waited: Option<f64>,
    /// Share of the time in which the control group of the replay was throttled; `null` if it has no limit.
    #[serde(default)]
    pub throttled: Option<f64>,
}
