//! Encryption and masks of the parts of a series.

use serde::{Deserialize, Serialize};

/// Encryption and masks of the parts of a series, which each capture of it must have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SeriesProtection {
    /// Public keys that the parts are encrypted to, sorted; empty if they are not encrypted.
    pub recipients: Vec<String>,
    /// Fingerprint of the key of the masks; `None` if values are not masked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mask_key: Option<String>,
    /// Patterns of values that are not masked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keep_values: Vec<String>,
    /// Patterns of statements that are not masked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keep_statements: Vec<String>,
}

impl SeriesProtection {
    /// Describes it as the end of a sentence: `encrypted to age1… and masked with key 0123456789abcdef`.
    pub fn description(&self) -> String {
        let encrypted = match &self.recipients[..] {
            [] => "not encrypted".to_owned(),
            recipients => format!("encrypted to {}", recipients.join(", ")),
        };
        let Some(key) = &self.mask_key else {
            return format!("{encrypted} and not masked");
        };
        let kept = [
            ("values", &self.keep_values),
            ("statements", &self.keep_statements),
        ];
        let kept = kept
            .into_iter()
            .filter(|(_, patterns)| !patterns.is_empty());
        let kept = kept.map(|(name, patterns)| format!(", except {name} {}", patterns.join(", ")));
        format!(
            "{encrypted} and masked with key {key}{}",
            kept.collect::<String>()
        )
    }

    /// Returns the options of a capture with this protection; empty without one.
    pub fn options(&self) -> String {
        let mut options: Vec<String> = (self.recipients.iter())
            .map(|recipient| format!("--encrypt {recipient}"))
            .collect();
        if self.mask_key.is_some() {
            options.push("--mask FILE".to_owned());
        }
        let kept = self.keep_values.iter();
        options.extend(kept.map(|pattern| format!("--mask-keep '{pattern}'")));
        let kept = self.keep_statements.iter();
        options.extend(kept.map(|pattern| format!("--mask-keep-statement '{pattern}'")));
        options.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protection_is_described_with_its_options() {
        let plain = SeriesProtection::default();
        assert_eq!(plain.description(), "not encrypted and not masked");
        assert_eq!(plain.options(), "");
        let masked = SeriesProtection {
            recipients: vec!["age1x".to_owned()],
            mask_key: Some("0123".to_owned()),
            keep_values: vec!["open|closed".to_owned()],
            keep_statements: Vec::new(),
        };
        assert_eq!(
            masked.description(),
            "encrypted to age1x and masked with key 0123, except values open|closed"
        );
        assert_eq!(
            masked.options(),
            "--encrypt age1x --mask FILE --mask-keep 'open|closed'"
        );
    }
}
