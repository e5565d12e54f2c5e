//! Differences between the builds of two servers.

use run::Facts;

use super::schema::Detail;

/// Options of `configure` that change speed or results.
const OPTIONS: [&str; 12] = [
    "--enable-cassert",
    "--enable-coverage",
    "--enable-profiling",
    "--disable-atomics",
    "--disable-spinlocks",
    "--with-blocksize",
    "--with-wal-blocksize",
    "--with-icu",
    "--without-icu",
    "--with-llvm",
    "--with-lz4",
    "--with-zstd",
];

/// Name of the difference of these options.
const BUILD_OPTIONS: &str = "options of the build";

/// Flags of the compiler that change speed.
fn is_speed_flag(flag: &str) -> bool {
    [
        "-O",
        "-march",
        "-mtune",
        "-flto",
        "-ffast-math",
        "-fno-omit",
        "-fprofile",
        "-fsanitize",
    ]
    .iter()
    .any(|prefix| flag.starts_with(prefix))
}

/// Returns the differences between the builds that both sides know.
pub(super) fn differences(before: &Facts, after: &Facts) -> Vec<Detail> {
    let mut found = Vec::new();
    let mut differ = |what: &str, was: Option<String>, is: Option<String>| {
        if let (Some(was), Some(is)) = (was, is)
            && was != is
        {
            found.push(Detail {
                what: what.to_owned(),
                before: Some(was),
                after: Some(is),
            });
        }
    };
    type Property = (&'static str, fn(&Facts) -> Option<String>);
    let properties: [Property; 7] = [
        ("packager", packager),
        ("compiler", compiler),
        ("platform", platform),
        ("optimisation", |facts| {
            words(facts, "CFLAGS", is_speed_flag)
        }),
        (BUILD_OPTIONS, |facts| {
            words(facts, "CONFIGURE", |word| {
                OPTIONS.iter().any(|option| word.starts_with(option))
            })
        }),
        ("JIT library", |facts| value(facts, "jit_available")),
        ("assertions", |facts| {
            let mut settings = facts.settings.iter();
            settings
                .find(|one| one.name == "debug_assertions")?
                .value
                .clone()
        }),
    ];
    let major = |facts| {
        value(facts, "version")?
            .split('.')
            .next()
            .map(str::to_owned)
    };
    for (what, of) in properties {
        // The defaults of options change with the major version.
        if what == BUILD_OPTIONS && major(before) != major(after) {
            continue;
        }
        differ(what, of(before), of(after));
    }
    found
}

fn value(facts: &Facts, name: &str) -> Option<String> {
    let mut build = facts.build.iter();
    Some(build.find(|one| one.name == name)?.value.clone())
}

/// Returns the packager in brackets after the version number: `PostgreSQL 15.14 (Debian 15.14-0+deb12u1) on …`.
fn packager(facts: &Facts) -> Option<String> {
    let version = value(facts, "version")?;
    let head = version.split(" on ").next()?;
    let name = head.split_once(" (").map(|(_, name)| name);
    let name = name.and_then(|name| name.split([' ', ')']).next());
    Some(name.unwrap_or("none").to_owned())
}

fn platform(facts: &Facts) -> Option<String> {
    let version = value(facts, "version")?;
    let (_, rest) = version.split_once(" on ")?;
    Some(rest.split(',').next()?.to_owned())
}

/// Returns name and version of the compiler, without its packager: `gcc (Debian 12.2.0-14) 12.2.0` is `gcc 12.2.0`.
fn compiler(facts: &Facts) -> Option<String> {
    let version = value(facts, "version")?;
    let (_, rest) = version.split_once("compiled by ")?;
    let text = rest.rsplit_once(", ").map_or(rest, |(text, _)| text);
    let without_brackets: String = match (text.find('('), text.find(')')) {
        (Some(from), Some(until)) if from < until => {
            format!("{}{}", &text[..from], &text[until + 1..])
        }
        _ => text.to_owned(),
    };
    let words: Vec<&str> = without_brackets.split_whitespace().take(2).collect();
    Some(words.join(" "))
}

/// Returns the words of a value of `pg_config` that matter, sorted; `None` if it is not known.
fn words(facts: &Facts, name: &str, matters: impl Fn(&str) -> bool) -> Option<String> {
    let value = value(facts, name)?;
    let words = value.split_whitespace().map(|word| word.trim_matches('\''));
    let mut words: Vec<&str> = words.filter(|word| matters(word)).collect();
    words.sort_unstable();
    words.dedup();
    Some(match words.is_empty() {
        true => "none".to_owned(),
        false => words.join(" "),
    })
}

#[cfg(test)]
mod tests {
    use run::BuildFact;

    use super::*;

    fn facts(values: &[(&str, &str)]) -> Facts {
        let build = values.iter().map(|(name, value)| BuildFact {
            name: (*name).to_owned(),
            value: (*value).to_owned(),
        });
        Facts {
            build: build.collect(),
            ..Facts::default()
        }
    }

    const DEBIAN: &str = "PostgreSQL 15.14 (Debian 15.14-0+deb12u1) on x86_64-pc-linux-gnu, \
        compiled by gcc (Debian 12.2.0-14+deb12u1) 12.2.0, 64-bit";
    const ARCHIVE: &str = "PostgreSQL 15.14 on x86_64-pc-linux-gnu, compiled by gcc (GCC) 4.8.5 20150623 (Red Hat 4.8.5-44), 64-bit";

    #[test]
    fn unequal_builds_are_found() {
        let debian = facts(&[
            ("version", DEBIAN),
            ("jit_available", "on"),
            ("CFLAGS", "-Wall -g -O2 -fstack-protector"),
            (
                "CONFIGURE",
                " '--with-icu' '--with-llvm' '--prefix=/usr/lib/postgresql/15'",
            ),
        ]);
        let archive = facts(&[
            ("version", ARCHIVE),
            ("jit_available", "off"),
            ("CFLAGS", "-Wall -O2"),
            ("CONFIGURE", " '--with-icu' '--prefix=/opt'"),
        ]);
        let found = differences(&debian, &archive);
        let found: Vec<(&str, &str, &str)> = found
            .iter()
            .map(|one| {
                (
                    &*one.what,
                    one.before.as_deref().unwrap(),
                    one.after.as_deref().unwrap(),
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                ("packager", "Debian", "none"),
                ("compiler", "gcc 12.2.0", "gcc 4.8.5"),
                (
                    "options of the build",
                    "--with-icu --with-llvm",
                    "--with-icu"
                ),
                ("JIT library", "on", "off"),
            ]
        );
        assert_eq!(differences(&debian, &debian), []);
    }

    #[test]
    fn what_one_side_does_not_know_is_no_difference() {
        let newer = DEBIAN.replace("15.14", "15.15");
        let one = facts(&[("version", DEBIAN), ("jit_available", "on")]);
        assert_eq!(differences(&one, &facts(&[("version", &newer)])), []);
        assert_eq!(differences(&one, &Facts::default()), []);
    }
}
