//! Findings of a search for secrets.

use std::ops::Range;

/// Secrets found in a text.
#[derive(Debug, Default)]
pub(super) struct SecretFindings {
    /// Byte ranges to redact.
    pub(super) secrets: Vec<Range<usize>>,
    /// Comments that hold a secret.
    pub(super) comments: Vec<Range<usize>>,
    /// All comments. In a statement with a secret they are redacted, too, since they may repeat it (`-- was
    /// 'x'`).
    pub(super) all_comments: Vec<Range<usize>>,
    /// Numbers of parameters (from 1) that are secrets.
    pub(super) parameters: Vec<usize>,
    /// A secret is concatenated from values. Each parameter may be a part of it.
    pub(super) is_concatenated: bool,
    /// The text is about a role's password, even if it gives none.
    pub(super) concerns_role: bool,
    /// Calls of `set_config` or `http_header` whose first argument has parameters.
    pub(super) settings_by_parameter: Vec<SettingByParameter>,
    /// A call of `set_config` takes the setting's name from rows or expressions.
    pub(super) names_open_setting: bool,
}

/// A call of `set_config` whose first argument has parameters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SettingByParameter {
    /// Texts and parameters that make the name.
    pub(super) name: Vec<NamePart>,
    /// Numbers of the parameters (from 1) in the value.
    pub(super) values: Vec<usize>,
}

/// Part of a setting's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NamePart {
    Text(String),
    /// A parameter's number, from 1.
    Parameter(usize),
}

impl SecretFindings {
    /// Whether a secret covers this offset.
    pub(super) fn covers(&self, at: usize) -> bool {
        self.secrets.iter().any(|secret| secret.contains(&at))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.secrets.is_empty() && self.comments.is_empty()
    }
}
