//! Renders settings in a form that can be executed or pasted: SQL, lines of a configuration,
//! commands of a provider. Everything other than commands is a comment.

use capture_log::settings::{Provider, Setting, SettingsPlan};

use crate::text::line::wrapped;

/// Output form of settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingsForm {
    /// `ALTER SYSTEM`, for psql. Only for a self-managed server.
    Sql,
    /// `name = 'value'`, as in postgresql.conf and in a console's list of parameters.
    Lines,
    /// The provider's command-line tool. Not for a self-managed server.
    Command,
}

impl SettingsForm {
    /// Returns the usual form for a provider.
    pub fn usual(provider: Provider) -> Self {
        match provider {
            Provider::Own => SettingsForm::Sql,
            _ => SettingsForm::Command,
        }
    }

    /// Whether the form exists for a provider.
    pub fn fits(self, provider: Provider) -> bool {
        match self {
            SettingsForm::Sql => provider == Provider::Own,
            SettingsForm::Lines => true,
            SettingsForm::Command => provider != Provider::Own,
        }
    }
}

const WIDTH: usize = 100;

/// Renders the settings; with `undo`, their reset.
pub fn render_text(plan: &SettingsPlan, form: SettingsForm, undo: bool) -> String {
    let comment = match form {
        SettingsForm::Sql => "-- ",
        SettingsForm::Lines | SettingsForm::Command => "# ",
    };
    let mut page = Page {
        comment,
        lines: Vec::new(),
    };
    if undo {
        page.add_comment("Takes back what `rehearse capture settings` sets: each goes to its default, or to what the configuration file says, and not to a value that it had between.");
    } else {
        page.add_comment(
            "With these settings a server's log can be replayed wholly, with all durations.",
        );
        for text in plan.impossible.iter().chain(&plan.notes) {
            page.add_comment(text);
        }
        let unsure: Vec<&str> = plan
            .settings
            .iter()
            .filter(|s| s.check)
            .map(|s| s.name)
            .collect();
        if !unsure.is_empty() {
            page.add_comment(&format!(
                "Check first that the service knows {}{}; leave out what it does not know.",
                unsure.join(", "),
                match plan.provider {
                    Provider::CloudSql =>
                        " (gcloud sql flags list --database-version=POSTGRES_17 --format='value(name)')",
                    _ => "",
                }
            ));
        }
    }
    page.lines.push(String::new());
    match (form, undo) {
        (SettingsForm::Sql, _) => page.sql(plan, undo),
        (SettingsForm::Lines, false) => page.conf(plan),
        (SettingsForm::Lines, true) => {
            page.add_comment("Remove or reset these:");
            let names = plan.settings.iter().map(|setting| setting.name.to_owned());
            page.lines.extend(names);
        }
        (SettingsForm::Command, undo) => page.command(plan, undo),
    }
    page.lines.push(String::new());
    page.lines.join("\n")
}

struct Page {
    comment: &'static str,
    lines: Vec<String>,
}

/// Quotes a value in a way that SQL, postgresql.conf and shells read alike: no value contains a
/// quote.
fn quoted(setting: &Setting) -> String {
    format!("'{}'", setting.value)
}

impl Page {
    fn add_comment(&mut self, text: &str) {
        self.lines
            .extend(wrapped(text, self.comment, self.comment, WIDTH));
    }

    /// Adds lines of code, each with a comment after it.
    fn add_commented_lines(&mut self, lines: Vec<(String, &str)>) {
        let width = lines.iter().map(|(code, _)| code.len()).max().unwrap_or(0);
        for (code, why) in lines {
            self.lines
                .push(format!("{code:width$}  {}{why}", self.comment));
        }
    }

    fn sql(&mut self, plan: &SettingsPlan, undo: bool) {
        if undo {
            let resets = plan.settings.iter();
            let resets = resets.map(|setting| format!("ALTER SYSTEM RESET {};", setting.name));
            self.lines.extend(resets);
        } else {
            let names: Vec<String> = plan
                .settings
                .iter()
                .map(|s| format!("'{}'", s.name))
                .collect();
            self.add_comment("What is set now, to be kept:");
            self.add_comment(&format!(
                "SELECT name, setting, source FROM pg_settings WHERE name IN ({});",
                names.join(", ")
            ));
            let sets = plan.settings.iter().map(|setting| {
                let set = format!("ALTER SYSTEM SET {} = {};", setting.name, quoted(setting));
                (set, setting.why)
            });
            self.add_commented_lines(sets.collect());
        }
        self.lines.push("SELECT pg_reload_conf();".to_owned());
        if !undo {
            self.add_comment("A new file holds nothing that was written with the old settings (where logging_collector is on).");
            self.lines.push("SELECT pg_rotate_logfile();".to_owned());
            self.add_comment("Afterwards: rehearse capture settings --undo");
        }
    }

    fn conf(&mut self, plan: &SettingsPlan) {
        let lines = plan.settings.iter().map(|setting| {
            (
                format!("{} = {}", setting.name, quoted(setting)),
                setting.why,
            )
        });
        self.add_commented_lines(lines.collect());
    }

    fn add_reasons(&mut self, plan: &SettingsPlan) {
        for setting in &plan.settings {
            self.add_comment(&format!("{}: {}", setting.name, setting.why));
        }
    }

    fn command(&mut self, plan: &SettingsPlan, undo: bool) {
        if !undo {
            self.add_reasons(plan);
        }
        match plan.provider {
            // This form does not exist; the program rejects it.
            Provider::Own => (),
            Provider::Rds | Provider::Aurora => self.amazon(plan, undo),
            Provider::CloudSql | Provider::AlloyDb => self.google(plan, undo),
            Provider::Azure => self.azure(plan, undo),
        }
    }

    fn amazon(&mut self, plan: &SettingsPlan, undo: bool) {
        let cluster = match plan.provider {
            Provider::Aurora => "cluster-",
            _ => "",
        };
        let verb = if undo { "reset" } else { "modify" };
        self.lines.push("GROUP=my-parameter-group".to_owned());
        self.lines.push(format!(
            "aws rds {verb}-db-{cluster}parameter-group --db-{cluster}parameter-group-name \"$GROUP\" --parameters \\"
        ));
        let last = plan.settings.len() - 1;
        for (index, Setting { name, value, .. }) in plan.settings.iter().enumerate() {
            let value = match undo {
                true => String::new(),
                false => format!("ParameterValue={value},"),
            };
            let on = if index < last { " \\" } else { "" };
            self.lines.push(format!(
                "  \"ParameterName={name},{value}ApplyMethod=immediate\"{on}"
            ));
        }
    }

    fn google(&mut self, plan: &SettingsPlan, undo: bool) {
        let command = match plan.provider {
            Provider::AlloyDb => {
                self.lines
                    .push("INSTANCE=my-instance CLUSTER=my-cluster REGION=my-region".to_owned());
                "gcloud alloydb instances update \"$INSTANCE\" --cluster=\"$CLUSTER\" --region=\"$REGION\""
            }
            _ => {
                self.lines.push("INSTANCE=my-instance".to_owned());
                "gcloud sql instances patch \"$INSTANCE\""
            }
        };
        let flags = match undo {
            true => {
                self.add_comment("Put here the flags that the instance had before; all others go back to their defaults.");
                "NAME=VALUE,NAME=VALUE".to_owned()
            }
            false => {
                self.add_comment("Add the flags that the instance has and is to keep.");
                let flags = plan.settings.iter();
                let flags: Vec<String> = flags.map(|s| format!("{}={}", s.name, s.value)).collect();
                flags.join(",")
            }
        };
        self.lines.push(format!("{command} \\"));
        self.lines.push(format!("  --database-flags='{flags}'"));
    }

    fn azure(&mut self, plan: &SettingsPlan, undo: bool) {
        self.lines
            .push("GROUP=my-resource-group SERVER=my-server".to_owned());
        for setting in &plan.settings {
            let value = match undo {
                // Without a value the default is set.
                true => String::new(),
                false => format!(" --value={}", quoted(setting)),
            };
            self.lines.push(format!(
                "az postgres flexible-server parameter set --resource-group \"$GROUP\" --server-name \"$SERVER\" --name {}{value}",
                setting.name
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capture_log::settings::plan_for_replay;

    #[test]
    fn everything_but_commands_is_a_comment() {
        for provider in [
            Provider::Own,
            Provider::Rds,
            Provider::Aurora,
            Provider::CloudSql,
            Provider::AlloyDb,
            Provider::Azure,
        ] {
            let plan = plan_for_replay(provider, None).unwrap();
            for form in [
                SettingsForm::Sql,
                SettingsForm::Lines,
                SettingsForm::Command,
            ] {
                for undo in [false, true] {
                    let text = render_text(&plan, form, undo);
                    let comment = if form == SettingsForm::Sql {
                        "-- "
                    } else {
                        "# "
                    };
                    for line in text.lines().filter(|line| !line.is_empty()) {
                        let code = [
                            "ALTER SYSTEM ",
                            "SELECT pg_reload_conf();",
                            "SELECT pg_rotate_logfile();",
                            "log_",
                            "lc_",
                            "aws rds ",
                            "  \"ParameterName=",
                            "gcloud ",
                            "  --database-flags=",
                            "az postgres ",
                            "GROUP=",
                            "INSTANCE=",
                        ];
                        assert!(
                            line.starts_with(comment) || code.iter().any(|c| line.starts_with(c)),
                            "{provider:?} {form:?} {undo}: {line}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn commands_name_every_setting_once() {
        for provider in [Provider::Rds, Provider::CloudSql, Provider::Azure] {
            let plan = plan_for_replay(provider, Some(15)).unwrap();
            let text = render_text(&plan, SettingsForm::Command, false);
            let commands: String = text
                .lines()
                .filter(|line| !line.starts_with('#'))
                .map(|line| format!("{line} "))
                .collect();
            for setting in &plan.settings {
                let after = ["=", ",", " "].map(|end| format!("{}{end}", setting.name));
                let found: usize = after
                    .iter()
                    .map(|name| commands.matches(name).count())
                    .sum();
                assert_eq!(found, 1, "{} in {commands}", setting.name);
            }
            assert!(!commands.contains('\n'));
        }
    }
}
