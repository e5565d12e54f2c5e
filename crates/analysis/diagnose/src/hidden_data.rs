//! Data that an observation did not see, since its role lacks a grant.

use schemars::JsonSchema;
use serde::Serialize;
use time_breakdown::observed::Observed;

use super::evidence::Evidence;

/// Data that the role of an observation could not see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HiddenData {
    /// Description.
    pub description: String,
    /// Statements that grant the right to see it.
    pub grant: String,
}

impl Evidence {
    /// Returns what the role of the observation could not see for lack of a grant.
    pub fn hidden_data(&self) -> Vec<HiddenData> {
        self.observed.as_ref().map_or_else(|_| Vec::new(), hidden)
    }
}

fn hidden(observed: &Observed) -> Vec<HiddenData> {
    let off = observed.probes.iter().filter_map(|probe| {
        let why = probe.disabled_reason.clone()?;
        Some((why, probe.remedy.clone()?))
    });
    let unseen = observed.notes.iter().filter_map(|note| {
        let counted = note.count.map(|count| format!(" ({count})"));
        let text = format!("{}{}", note.text, counted.unwrap_or_default());
        Some((text, note.remedy.clone()?))
    });
    off.chain(unseen)
        .filter(|(_, remedy)| remedy.starts_with("GRANT "))
        .map(|(description, grant)| HiddenData { description, grant })
        .collect()
}
