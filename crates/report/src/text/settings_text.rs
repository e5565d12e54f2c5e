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

/// File in psql's working directory with the values that the settings had before.
const UNDO_FILE: &str = "rehearse-settings-undo.sql";

/// Fails in psql if the file exists. Its values would be lost if it were written again: after an interrupted run the
/// server has a part of the new settings.
const REFUSE_TO_OVERWRITE: &str = "DO $$ BEGIN RAISE EXCEPTION 'rehearse-settings-undo.sql exists in this directory, with the values from before an earlier run; nothing was changed' USING HINT = 'If it is of this server, first run: rehearse capture settings --undo | psql. Otherwise run psql in another directory, or move the file.'; END $$;";

/// Fails in psql if the file could not be written.
const REFUSE_WITHOUT_UNDO: &str = "DO $$ BEGIN RAISE EXCEPTION 'rehearse-settings-undo.sql could not be written into this directory; nothing was changed' USING HINT = 'Run psql in a directory that can be written, with free space.'; END $$;";

/// First statement of the file: fails on another server. `%s` is the system identifier, which physical replicas share.
const REFUSE_OTHER_SERVER: &str = "DO $r$ BEGIN IF (SELECT system_identifier FROM pg_control_system()) <> %s THEN RAISE EXCEPTION ''rehearse-settings-undo.sql has the values of another server; nothing was changed''; END IF; END $r$;";

/// The entries that `ALTER SYSTEM` made. pg_settings would not do: it has only the value in effect.
const SET_BY_ALTER_SYSTEM: &str = "f.sourcefile LIKE '%/postgresql.auto.conf'";

/// Describes the values that an undo restores.
fn undo_description(provider: Provider, form: SettingsForm) -> &'static str {
    match (form, provider) {
        (SettingsForm::Sql, _) => {
            "Restores the values that postgresql.auto.conf had before. Run it in the directory in which psql set the settings: rehearse-settings-undo.sql is there."
        }
        (_, Provider::Own) => {
            "Takes back the lines of `rehearse capture settings`. Give a setting that had a line before its earlier value instead."
        }
        _ => {
            "Takes back what `rehearse capture settings` sets: each goes to its default. Set those again that had another value before."
        }
    }
}

/// Returns the command that prints the values set so far, as a comment.
fn print_current_values(provider: Provider) -> &'static str {
    match provider {
        Provider::Own => {
            "Note what is set now, to restore it afterwards: SELECT name, setting, sourcefile FROM pg_file_settings WHERE name LIKE 'log%';"
        }
        Provider::Rds => {
            "Note what is set now, to restore it afterwards: aws rds describe-db-parameters --db-parameter-group-name GROUP --source user"
        }
        Provider::Aurora => {
            "Note what is set now, to restore it afterwards: aws rds describe-db-cluster-parameters --db-cluster-parameter-group-name GROUP --source user"
        }
        Provider::CloudSql => {
            "Note what is set now, to restore it afterwards: gcloud sql instances describe INSTANCE --format='value(settings.databaseFlags)'"
        }
        Provider::AlloyDb => {
            "Note what is set now, to restore it afterwards: gcloud alloydb instances describe INSTANCE --cluster=CLUSTER --region=REGION --format='value(databaseFlags)'"
        }
        Provider::Azure => {
            "Note what is set now, to restore it afterwards: az postgres flexible-server parameter list --resource-group GROUP --server-name SERVER --query \"[?source=='user-override'].[name,value]\""
        }
    }
}

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
        page.add_comment(undo_description(plan.provider, form));
    } else {
        page.add_comment(
            "With these settings a server's log can be replayed wholly, with all durations.",
        );
        for text in plan.impossible.iter().chain(&plan.notes) {
            page.add_comment(text);
        }
        if form != SettingsForm::Sql {
            page.add_comment(print_current_values(plan.provider));
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
    fn add(&mut self, code: &str) {
        self.lines.push(code.to_owned());
    }

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
        // Without it psql would change the settings although the earlier values were not written.
        self.add("\\set ON_ERROR_STOP on");
        if undo {
            self.add(&format!(
                "\\echo 'Restoring the settings from {UNDO_FILE} in this directory, which psql wrote when it set them'"
            ));
            self.add(&format!("\\i {UNDO_FILE}"));
            self.add_comment("The next run of `rehearse capture settings` writes a new file.");
            self.add(&format!("\\! mv -f {UNDO_FILE} {UNDO_FILE}.done"));
            return;
        }
        self.write_undo_file(plan);
        let sets = plan.settings.iter().map(|setting| {
            let set = format!("ALTER SYSTEM SET {} = {};", setting.name, quoted(setting));
            (set, setting.why)
        });
        self.add_commented_lines(sets.collect());
        self.add("SELECT pg_reload_conf();");
        self.add_comment("A new file holds nothing that was written with the old settings (if logging_collector is on).");
        self.add("SELECT pg_rotate_logfile();");
        self.add_comment(
            "Afterwards, in the same directory: rehearse capture settings --undo | psql",
        );
    }

    /// Has psql write the undo, or fail if there is one. If all settings have these values, they were set by an earlier
    /// run of this script, and its file is kept. The file gets its name when it is complete.
    fn write_undo_file(&mut self, plan: &SettingsPlan) {
        self.add_comment(&format!(
            "Writes {UNDO_FILE} into this directory: the values that ALTER SYSTEM gave to these settings before. Reading them needs a superuser, or GRANT SELECT ON pg_file_settings and GRANT EXECUTE ON FUNCTION pg_show_all_file_settings. A second run keeps the file; if a setting differs, it stops and changes nothing."
        ));
        let list = |row: fn(&Setting) -> String| {
            let rows: Vec<String> = plan.settings.iter().map(row).collect();
            rows.join(", ")
        };
        let wanted = list(|setting| format!("('{}', {})", setting.name, quoted(setting)));
        let names = list(|setting| format!("('{}')", setting.name));
        self.add(&format!(
            "SELECT count(DISTINCT f.name) < {} AS rehearse_writes_undo FROM pg_file_settings f",
            plan.settings.len()
        ));
        self.add(&format!(
            "  WHERE {SET_BY_ALTER_SYSTEM} AND (f.name, f.setting) IN"
        ));
        self.add(&format!("  ({wanted}) \\gset"));
        self.add("\\if :rehearse_writes_undo");
        self.add(&format!(
            "\\set rehearse_undo_exists `test -e {UNDO_FILE} && echo on || echo off`"
        ));
        self.add("\\if :rehearse_undo_exists");
        self.add(REFUSE_TO_OVERWRITE);
        self.add("\\endif");
        self.add("\\set QUIET on");
        self.add("\\pset format unaligned");
        self.add("\\pset tuples_only on");
        self.add(&format!("\\o {UNDO_FILE}.new"));
        self.add(&format!(
            "SELECT format('{REFUSE_OTHER_SERVER}', system_identifier) FROM pg_control_system();"
        ));
        self.add("SELECT CASE WHEN f.name IS NULL THEN format('ALTER SYSTEM RESET %s;', s.name)");
        self.add("  ELSE format('ALTER SYSTEM SET %s = %L;', s.name, f.setting) END");
        self.add(&format!("  FROM (VALUES {names}) AS s (name)"));
        self.add(&format!(
            "  LEFT JOIN pg_file_settings f ON f.name = s.name AND {SET_BY_ALTER_SYSTEM} ORDER BY f.seqno, s.name;"
        ));
        self.add("SELECT 'SELECT pg_reload_conf();';");
        self.add("\\o");
        self.add("\\pset format aligned");
        self.add("\\pset tuples_only off");
        self.add("\\set QUIET off");
        self.add(&format!(
            "\\set rehearse_undo_exists `grep -q pg_reload_conf {UNDO_FILE}.new && mv {UNDO_FILE}.new {UNDO_FILE} && echo on || echo off`"
        ));
        self.add("\\if :rehearse_undo_exists");
        self.add("\\else");
        self.add(REFUSE_WITHOUT_UNDO);
        self.add("\\endif");
        self.add("\\endif");
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
                            "SELECT ",
                            "DO ",
                            "\\",
                            "  ",
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
