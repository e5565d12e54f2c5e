//! Credentials and region from the files of the AWS command line.
//!
//! Format and variables: AWS CLI User Guide, "Configuration and credential file settings".

use std::env;
use std::path::PathBuf;

use ini::Ini;

/// Settings of a profile, as far as they are used.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Profile {
    pub(crate) access_key_id: Option<String>,
    pub(crate) secret_access_key: Option<String>,
    pub(crate) session_token: Option<String>,
    pub(crate) region: Option<String>,
    pub(crate) endpoint_url: Option<String>,
}

impl Profile {
    /// Reads the profile that `AWS_PROFILE` names, or `default`. A file that cannot be read counts as empty, as in the
    /// provider's own tools.
    pub(crate) fn load() -> Self {
        let name = env::var("AWS_PROFILE").unwrap_or_else(|_| "default".to_owned());
        let read = |variable: &str, file: &str| {
            let path = env::var_os(variable).map(PathBuf::from).or_else(|| {
                let home = env::var_os("HOME").map(PathBuf::from)?;
                Some(home.join(".aws").join(file))
            })?;
            Ini::load_from_file(path).ok()
        };
        Self::of(
            &name,
            read("AWS_SHARED_CREDENTIALS_FILE", "credentials").as_ref(),
            read("AWS_CONFIG_FILE", "config").as_ref(),
        )
    }

    fn of(name: &str, credentials: Option<&Ini>, config: Option<&Ini>) -> Self {
        // The configuration file names other profiles than the default one `profile NAME`.
        let in_config = match name {
            "default" => name.to_owned(),
            other => format!("profile {other}"),
        };
        let value = |key: &str| {
            let of_credentials = credentials.and_then(|file| file.get_from(Some(name), key));
            of_credentials
                .or_else(|| config.and_then(|file| file.get_from(Some(&in_config), key)))
                .map(str::to_owned)
        };
        Profile {
            access_key_id: value("aws_access_key_id"),
            secret_access_key: value("aws_secret_access_key"),
            session_token: value("aws_session_token"),
            region: value("region"),
            endpoint_url: value("endpoint_url"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_has_its_keys_from_credentials_and_its_region_from_the_configuration() {
        let credentials = Ini::load_from_str(
            "[default]\naws_access_key_id = A\naws_secret_access_key = a/+\n[ci]\naws_access_key_id=B\n",
        )
        .unwrap();
        let config =
            Ini::load_from_str("[default]\nregion = eu-west-1\n[profile ci]\nregion = us-east-2\n")
                .unwrap();
        let default = Profile::of("default", Some(&credentials), Some(&config));
        assert_eq!(default.access_key_id.as_deref(), Some("A"));
        assert_eq!(default.secret_access_key.as_deref(), Some("a/+"));
        assert_eq!(default.region.as_deref(), Some("eu-west-1"));
        let ci = Profile::of("ci", Some(&credentials), Some(&config));
        assert_eq!(ci.access_key_id.as_deref(), Some("B"));
        assert_eq!(ci.secret_access_key, None);
        assert_eq!(ci.region.as_deref(), Some("us-east-2"));
        assert_eq!(Profile::of("x", None, None), Profile::default());
    }
}
