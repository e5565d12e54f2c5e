//! Start-up options that the user gives for captured sessions (`--startup-options`). A log does not have those that
//! the clients sent.

use std::collections::BTreeMap;
use std::fmt;

/// Sessions by their captured names. A name that is absent matches any.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionSelector {
    user: Option<String>,
    database: Option<String>,
    application: Option<String>,
}

impl SessionSelector {
    /// Parses `USER@DATABASE/APPLICATION`, of which each part may be left out.
    pub fn parse(text: &str) -> Self {
        let (names, application) = text.split_once('/').unwrap_or((text, ""));
        let (user, database) = names.rsplit_once('@').unwrap_or((names, ""));
        let some = |name: &str| Some(name.to_owned()).filter(|name| !name.is_empty());
        SessionSelector {
            user: some(user),
            database: some(database),
            application: some(application),
        }
    }

    fn matches(&self, user: &str, database: &str, application: &str) -> bool {
        [
            (&self.user, user),
            (&self.database, database),
            (&self.application, application),
        ]
        .iter()
        .all(|(wanted, name)| wanted.as_ref().is_none_or(|wanted| wanted == name))
    }

    /// Returns the number of names.
    fn names(&self) -> usize {
        let all = [&self.user, &self.database, &self.application];
        all.iter().filter(|name| name.is_some()).count()
    }
}

impl fmt::Display for SessionSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.user.as_deref().unwrap_or_default())?;
        if let Some(database) = &self.database {
            write!(f, "@{database}")?;
        }
        match &self.application {
            Some(application) => write!(f, "/{application}"),
            None => Ok(()),
        }
    }
}

/// Start-up options for selected sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StartupOptions(BTreeMap<SessionSelector, String>);

/// Name in a run's manifest.
const DESCRIBED: &str = "startup_options";

impl StartupOptions {
    /// Adds `[SESSIONS=]OPTIONS`, such as `-c search_path=app` or `app@shop=-c work_mem=64MB`. OPTIONS begin with `-`.
    ///
    /// # Errors
    /// If there are no options.
    pub fn add(&mut self, text: &str) -> Result<(), String> {
        let (sessions, options) = match text.split_once("=-") {
            _ if text.starts_with('-') => ("", text),
            Some((sessions, _)) => (sessions, &text[sessions.len() + 1..]),
            None => {
                return Err(format!(
                    "--startup-options '{text}' has no option of a session; give '-c NAME=VALUE', or 'USER@DATABASE/APPLICATION=-c NAME=VALUE'"
                ));
            }
        };
        let selector = SessionSelector::parse(sessions);
        let given = self.0.entry(selector).or_default();
        if !given.is_empty() {
            given.push(' ');
        }
        given.push_str(options);
        Ok(())
    }

    /// Returns the options of a session; those of more specific selectors come later and win. Empty if there are none.
    pub(crate) fn of_session(&self, user: &str, database: &str, application: &str) -> String {
        let mut matching: Vec<_> = (self.0.iter())
            .filter(|(selector, _)| selector.matches(user, database, application))
            .collect();
        matching.sort_by_key(|(selector, _)| selector.names());
        let options: Vec<&str> = matching.iter().map(|(_, options)| &***options).collect();
        options.join(" ")
    }

    /// Whether any of them set `search_path`.
    pub fn name_search_path(&self) -> bool {
        let mut options = self.0.values();
        options.any(|options| options.to_lowercase().contains("search_path"))
    }

    /// Adds them to the options in a run's manifest.
    pub(crate) fn describe(&self, described: &mut BTreeMap<String, String>) {
        for (selector, options) in &self.0 {
            let name = format!("{DESCRIBED} {selector}");
            described.insert(name.trim_end().to_owned(), options.clone());
        }
    }

    /// Restores them from a run's manifest.
    pub(crate) fn of_described(described: &BTreeMap<String, String>) -> Self {
        let all = described.iter().filter_map(|(name, options)| {
            let sessions = name.strip_prefix(DESCRIBED)?;
            let selector = SessionSelector::parse(sessions.trim_start());
            Some((selector, options.clone()))
        });
        StartupOptions(all.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn startup_options_of_more_names_come_later() {
        let mut options = StartupOptions::default();
        for given in [
            "app@shop/job=-c c=3",
            "-c a=1",
            "@shop=-c b=2",
            "-c search_path=x",
            "/job=--d=4",
        ] {
            options.add(given).unwrap();
        }
        let of = |user, database, application| options.of_session(user, database, application);
        assert_eq!(of("app", "other", ""), "-c a=1 -c search_path=x");
        assert_eq!(of("x", "shop", ""), "-c a=1 -c search_path=x -c b=2");
        let all = "-c a=1 -c search_path=x --d=4 -c b=2 -c c=3";
        assert_eq!(of("app", "shop", "job"), all);
        let mut described = BTreeMap::new();
        options.describe(&mut described);
        assert_eq!(described["startup_options @shop"], "-c b=2");
        assert_eq!(StartupOptions::of_described(&described), options);
        assert!(options.add("app=search_path").is_err());
        assert!(options.add("search_path=app").is_err());
    }
}
