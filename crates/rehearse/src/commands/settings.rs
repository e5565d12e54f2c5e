//! `rehearse capture settings`: prints the logging settings that a replay needs.

use capture_log::settings;
use capture_log::settings::Provider;
use report::{SettingsForm, settings_text, to_document};

use crate::exit_status::ExitStatus;
use crate::options;
use crate::options::{CaptureSettings, SettingsFormat};
use crate::terminal;
use study::Failure;

/// Prints the settings.
pub fn run(options: &CaptureSettings) -> Result<ExitStatus, Failure> {
    let provider = match options.provider {
        options::Provider::Own => Provider::Own,
        options::Provider::Rds => Provider::Rds,
        options::Provider::Aurora => Provider::Aurora,
        options::Provider::CloudSql => Provider::CloudSql,
        options::Provider::AlloyDb => Provider::AlloyDb,
        options::Provider::Azure => Provider::Azure,
    };
    let plan = settings::plan_for_replay(provider, options.version).map_err(Failure::usage)?;
    let form = match options.format {
        Some(SettingsFormat::Json) => {
            terminal::say_line(&to_document(&plan));
            return Ok(ExitStatus::Success);
        }
        None => SettingsForm::usual(provider),
        Some(SettingsFormat::Sql) => SettingsForm::Sql,
        Some(SettingsFormat::Conf) => SettingsForm::Lines,
        Some(SettingsFormat::Command) => SettingsForm::Command,
    };
    if !form.fits(provider) {
        return Err(Failure::usage(match form {
            SettingsForm::Sql => {
                "a provider's server takes no ALTER SYSTEM; give --format command or conf, or --provider self"
            }
            _ => {
                "a server of one's own has no provider's command; give --format sql or conf, or --provider rds, aurora, cloudsql, alloydb or azure"
            }
        }));
    }
    terminal::say(&settings_text::render_text(&plan, form, options.undo));
    Ok(ExitStatus::Success)
}
