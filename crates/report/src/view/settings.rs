//! Settings for a server whose log is to be captured.

use capture::settings::Plan;
use serde::Serialize;

/// What to set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SettingsView {
    /// `rehearse/settings/1`.
    pub schema: &'static str,
    /// The plan, as it is.
    #[serde(flatten)]
    pub plan: Plan,
}

impl From<Plan> for SettingsView {
    fn from(plan: Plan) -> Self {
        SettingsView {
            schema: "rehearse/settings/1",
            plan,
        }
    }
}
