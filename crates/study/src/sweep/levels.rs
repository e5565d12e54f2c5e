//! The levels of settings, as they are typed.

use crate::sweep::{Setting, Variant};

use crate::failure::Failure;

/// The most combinations of settings.
const VARIANTS_MAX: usize = 1_000;

/// Every combination of what `--set` and `--variant` name; at least one.
///
/// # Errors
/// With the first that cannot be read.
pub fn variants(set: &[String], variant: &[String]) -> Result<Vec<Variant>, Failure> {
    let mut all = match variant {
        [] => vec![Variant::default()],
        given => given
            .iter()
            .map(|text| named(text))
            .collect::<Result<_, _>>()?,
    };
    for text in set {
        let levels = setting(text)?;
        let is_level = levels.len() > 1;
        all = all
            .iter()
            .flat_map(|base| levels.iter().map(move |level| with(base, level, is_level)))
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

/// A setting of one value belongs to every variant, and is in no name.
fn with(base: &Variant, level: &Setting, is_level: bool) -> Variant {
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

fn setting(text: &str) -> Result<Vec<Setting>, Failure> {
    let (name, values) = pair(text).ok_or_else(|| {
        Failure::usage(format!(
            "--set '{text}' is no setting; give NAME=VALUE, or several values with commas between them, such as --set work_mem=4MB,64MB"
        ))
    })?;
    let values = split(values, ',').into_iter().map(unquoted);
    Ok(values
        .map(|value| Setting {
            name: name.to_owned(),
            value,
        })
        .collect())
}

fn named(text: &str) -> Result<Variant, Failure> {
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
        settings: settings(rest).ok_or_else(fail)?,
    })
}

/// Parses settings with semicolons between them. `None` if one is no setting.
pub fn settings(text: &str) -> Option<Vec<Setting>> {
    let parts = split(text, ';').into_iter().map(str::trim);
    parts
        .filter(|part| !part.is_empty())
        .map(|part| {
            let (name, value) = pair(part)?;
            Some(Setting {
                name: name.trim().to_owned(),
                value: unquoted(value.trim()),
            })
        })
        .collect()
}

fn pair(text: &str) -> Option<(&str, &str)> {
    text.split_once('=')
        .filter(|(name, _)| !name.trim().is_empty())
}

/// Parts between separators that do not stand in quotes.
fn split(text: &str, separator: char) -> Vec<&str> {
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

fn unquoted(text: &str) -> String {
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
        let variants = variants(&owned(set), &owned(variant)).unwrap();
        let text = |setting: &Setting| format!("{}={}", setting.name, setting.value);
        variants
            .into_iter()
            .map(|one| (one.name, one.settings.iter().map(text).collect()))
            .collect()
    }

    #[test]
    fn every_combination_is_a_variant_with_a_name() {
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
    fn what_cannot_be_read_is_said() {
        let fails = |set: &[&str], variant: &[&str]| {
            let owned = |texts: &[&str]| {
                texts
                    .iter()
                    .map(|text| (*text).to_owned())
                    .collect::<Vec<_>>()
            };
            variants(&owned(set), &owned(variant)).unwrap_err().message
        };
        assert!(fails(&["work_mem"], &[]).contains("is no setting"));
        assert!(fails(&[], &["work_mem=4MB"]).contains("is no variant"));
        assert!(fails(&[], &["a: work_mem"]).contains("is no variant"));
        assert!(fails(&[], &["a:", "a: x=1"]).contains("two variants are called 'a'"));
        assert!(fails(&["a=1,1"], &[]).contains("two variants"));
    }
}
