//! Parses the levels of settings that `--set` and `--variant` specify.

use crate::sweep::{Setting, Variant};

use crate::failure::Failure;

/// Maximum number of combinations of settings.
const VARIANTS_MAX: usize = 1_000;

/// Returns each combination of what `--set` and `--variant` specify; at least one.
///
/// # Errors
/// With the first argument that cannot be parsed.
pub fn parse_variants(set: &[String], variant: &[String]) -> Result<Vec<Variant>, Failure> {
    let mut all = match variant {
        [] => vec![Variant::default()],
        given => given
            .iter()
            .map(|text| parse_variant(text))
            .collect::<Result<_, _>>()?,
    };
    for text in set {
        let levels = parse_setting(text)?;
        let is_level = levels.len() > 1;
        all = all
            .iter()
            .flat_map(|base| {
                levels
                    .iter()
                    .map(move |level| add_setting(base, level, is_level))
            })
            .collect();
        if all.len() > VARIANTS_MAX {
            return Err(Failure::usage(format!(
                "these settings have more than {VARIANTS_MAX} combinations; give fewer values, or name those that matter with --variant"
            )));
        }
    }
    for (place, one) in all.iter().enumerate() {
        if all[..place].iter().any(|other| other.name == one.name) {
            return Err(Failure::usage(format!(
                "two variants are called '{}'; give each a name of its own",
                one.name
            )));
        }
    }
    Ok(all)
}

/// Adds a setting to a variant. A setting with a single value belongs to every variant, so it is not part of the
/// name.
fn add_setting(base: &Variant, level: &Setting, is_level: bool) -> Variant {
    let mut settings = base.settings.clone();
    settings.retain(|other| !other.name.eq_ignore_ascii_case(&level.name));
    settings.push(level.clone());
    let named = format!("{}={}", level.name, level.value);
    let name = match (is_level, base.name.is_empty()) {
        (false, _) => base.name.clone(),
        (true, true) => named,
        (true, false) => format!("{}, {named}", base.name),
    };
    Variant { name, settings }
}

fn parse_setting(text: &str) -> Result<Vec<Setting>, Failure> {
    let (name, values) = split_pair(text).ok_or_else(|| {
        Failure::usage(format!(
            "--set '{text}' is no setting; give NAME=VALUE, or several values with commas between them, such as --set work_mem=4MB,64MB"
        ))
    })?;
    let values = split_unquoted(values, ',').into_iter().map(unquote);
    Ok(values
        .map(|value| Setting {
            name: name.to_owned(),
            value,
        })
        .collect())
}

fn parse_variant(text: &str) -> Result<Variant, Failure> {
    let fail = || {
        Failure::usage(format!(
            "--variant '{text}' is no variant; give 'NAME: SETTING=VALUE; SETTING=VALUE', or 'NAME:' for one that sets nothing"
        ))
    };
    let (name, rest) = text.split_once(':').ok_or_else(fail)?;
    if name.trim().is_empty() {
        return Err(fail());
    }
    Ok(Variant {
        name: name.trim().to_owned(),
        settings: parse_settings(rest).ok_or_else(fail)?,
    })
}

/// Parses settings with semicolons between them. `None` if one is no setting.
pub fn parse_settings(text: &str) -> Option<Vec<Setting>> {
    let parts = split_unquoted(text, ';').into_iter().map(str::trim);
    parts
        .filter(|part| !part.is_empty())
        .map(|part| {
            let (name, value) = split_pair(part)?;
            Some(Setting {
                name: name.trim().to_owned(),
                value: unquote(value.trim()),
            })
        })
        .collect()
}

fn split_pair(text: &str) -> Option<(&str, &str)> {
    text.split_once('=')
        .filter(|(name, _)| !name.trim().is_empty())
}

/// Splits a text at separators outside quotes.
fn split_unquoted(text: &str, separator: char) -> Vec<&str> {
    let (mut parts, mut from, mut quoted) = (Vec::new(), 0, false);
    for (at, character) in text.char_indices() {
        match character {
            '\'' => quoted = !quoted,
            one if one == separator && !quoted => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts
}

fn unquote(text: &str) -> String {
    let inner = text
        .strip_prefix('\'')
        .and_then(|text| text.strip_suffix('\''));
    inner.map_or_else(|| text.to_owned(), |inner| inner.replace("''", "'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(set: &[&str], variant: &[&str]) -> Vec<(String, Vec<String>)> {
        let owned = |texts: &[&str]| {
            texts
                .iter()
                .map(|text| (*text).to_owned())
                .collect::<Vec<_>>()
        };
        let variants = parse_variants(&owned(set), &owned(variant)).unwrap();
        let text = |setting: &Setting| format!("{}={}", setting.name, setting.value);
        variants
            .into_iter()
            .map(|one| (one.name, one.settings.iter().map(text).collect()))
            .collect()
    }

    #[test]
    fn variants_of_several_levels_are_all_combinations() {
        assert_eq!(all(&[], &[]), [(String::new(), Vec::new())]);
        let found = all(&["work_mem=4MB,64MB", "jit=off"], &[]);
        assert_eq!(found[0].0, "work_mem=4MB");
        assert_eq!(found[1].1, ["work_mem=64MB", "jit=off"]);
        let found = all(&["search_path='a,b',c"], &["one:", "two: x.y=1; z='a;b'"]);
        assert_eq!(found.len(), 4);
        assert_eq!(found[0].1, ["search_path=a,b"]);
        assert_eq!(found[3].0, "two, search_path=c");
        assert_eq!(found[3].1, ["x.y=1", "z=a;b", "search_path=c"]);
    }

    #[test]
    fn variants_of_an_invalid_argument_fail_with_its_text() {
        let fails = |set: &[&str], variant: &[&str]| {
            let owned = |texts: &[&str]| {
                texts
                    .iter()
                    .map(|text| (*text).to_owned())
                    .collect::<Vec<_>>()
            };
            parse_variants(&owned(set), &owned(variant))
                .unwrap_err()
                .message
        };
        assert!(fails(&["work_mem"], &[]).contains("is no setting"));
        assert!(fails(&[], &["work_mem=4MB"]).contains("is no variant"));
        assert!(fails(&[], &["a: work_mem"]).contains("is no variant"));
        assert!(fails(&[], &["a:", "a: x=1"]).contains("two variants are called 'a'"));
        assert!(fails(&["a=1,1"], &[]).contains("two variants"));
    }
}
