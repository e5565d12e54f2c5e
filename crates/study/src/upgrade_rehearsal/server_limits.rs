//! Limits of a rehearsal that come from its servers: their builds, JIT compilation, settings, and data of another moment.

use compare::targets::Detail;

use super::start_checks::StartChecks;
use crate::environment::{MissingReason, MissingSetting};

/// Name of the difference between builds with and without the library of JIT compilation.
const JIT_LIBRARY: &str = "JIT library";

/// Private servers that lack the library of JIT compilation, which production uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MissingJit {
    /// One of them, so that times compare the builds, too.
    OfOne(String),
    /// Both, with the reason as for one.
    OfBoth(String),
}

/// Describes that production compiles statements just in time, and that a private server cannot.
pub(super) fn jit(builds: &[Detail], checks: &StartChecks) -> Option<MissingJit> {
    let differs = builds.iter().any(|one| one.what == JIT_LIBRARY);
    if !checks.does_production_compile {
        return None;
    }
    let without = match (differs, checks.does_old_side_compile) {
        (true, true) => "the new private server lacks its library",
        (true, false) => "the old private server lacks its library",
        (false, true) => return None,
        (false, false) => "neither private server has its library",
    };
    let text = format!(
        "JIT compilation is on in production, and {without}: what it changes in time is not measured. Install packages of both \
         versions with JIT from the source that production uses, and rehearse with another -o."
    );
    Some(match differs {
        true => MissingJit::OfOne(text),
        false => MissingJit::OfBoth(text),
    })
}

/// Describes the differences of the builds.
pub(super) fn builds(builds: &[Detail]) -> Option<String> {
    let side = |side: &Option<String>| side.clone().unwrap_or_else(|| "unknown".to_owned());
    let all = builds
        .iter()
        .map(|one| format!("{} {} → {}", one.what, side(&one.before), side(&one.after)));
    let all: Vec<String> = all.collect();
    (!all.is_empty()).then(|| {
        format!(
            "The servers have unequal builds ({}): times can differ by the build and not by the version.",
            all.join("; ")
        )
    })
}

/// Describes that the new version is not released, by its version such as `19rc1`, `19beta2` or `20devel`.
pub(super) fn prerelease(version: &str) -> Option<String> {
    let kinds = [
        ("rc", "a release candidate"),
        ("beta", "a beta version"),
        ("devel", "a development version"),
    ];
    let suffix = version.split_whitespace().next()?;
    let suffix = suffix.trim_start_matches(|c: char| c.is_ascii_digit());
    let (_, kind) = kinds.iter().find(|(name, _)| suffix.starts_with(name))?;
    Some(format!(
        "PostgreSQL {version} is {kind}: rehearse again with the released version before the upgrade of production."
    ))
}

/// Describes that the copy is not of the moment at which the capture began.
pub(super) fn other_data(differences: &[String]) -> Option<String> {
    (!differences.is_empty()).then(|| {
        format!(
            "The copy does not have the data that the capture began with, so errors and answers may be of the data: {}. Make the \
             copy at the start of the capture.",
            differences.join("; ")
        )
    })
}

/// Describes the settings of `--template` that the databases of the old server and of the new one do not have.
pub(super) fn missing_settings([old, new]: &[Vec<MissingSetting>; 2]) -> Vec<String> {
    let of_side = |side: &'static str, missing: &[MissingSetting]| -> Vec<String> {
        let all = missing.iter();
        all.map(|one| format!("on the {side} server, {}", one.sentence))
            .collect()
    };
    [of_side("old", old), of_side("new", new)].concat()
}

/// Names the settings of `--template` that only one server refuses, so that the replays on both have unequal settings.
pub(super) fn unequal_settings([old, new]: &[Vec<MissingSetting>; 2]) -> Option<String> {
    let only = |side: &str, one: &[MissingSetting], other: &[MissingSetting]| {
        let is_refused = |one: &&MissingSetting| one.reason == MissingReason::Refused;
        let refused_there = |setting: &str| {
            let mut refused = other.iter().filter(is_refused);
            refused.any(|one| one.setting == setting)
        };
        let names = one.iter().filter(is_refused);
        let names = names.filter(|one| !refused_there(&one.setting));
        let names: Vec<&str> = names.map(|one| one.setting.as_str()).collect();
        (!names.is_empty()).then(|| format!("the {side} server refuses {}", names.join(", ")))
    };
    let sides = [only("old", old, new), only("new", new, old)];
    let refused: Vec<String> = sides.into_iter().flatten().collect();
    (!refused.is_empty()).then(|| {
        format!(
            "The databases of both servers have unequal settings of --template, which change times and errors: {}. See the notes \
             for the reasons.",
            refused.join("; ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(setting: &str, reason: MissingReason) -> MissingSetting {
        MissingSetting {
            setting: setting.to_owned(),
            reason,
            sentence: format!("{setting} is missing"),
        }
    }

    #[test]
    fn setting_that_only_one_server_refuses_makes_the_servers_unequal() {
        let [one, other] =
            ["work_mem", "temp_file_limit"].map(|setting| missing(setting, MissingReason::Refused));
        let left_out = missing("default_transaction_read_only", MissingReason::LeftOut);
        let both = [vec![one.clone(), left_out], vec![one.clone()]];
        assert_eq!(unequal_settings(&both), None);
        let notes = missing_settings(&both);
        assert_eq!(notes.len(), 3);
        assert_eq!(notes[2], "on the new server, work_mem is missing");
        let differing = unequal_settings(&[vec![one.clone(), other], vec![one.clone()]]);
        let differing = differing.unwrap();
        assert!(
            differing.contains("the old server refuses temp_file_limit."),
            "{differing}"
        );
        let differing = unequal_settings(&[Vec::new(), vec![one]]).unwrap();
        assert!(
            differing.contains("the new server refuses work_mem."),
            "{differing}"
        );
    }

    fn detail(what: &str) -> Detail {
        Detail {
            what: what.to_owned(),
            before: Some("on".to_owned()),
            after: Some("off".to_owned()),
        }
    }

    #[test]
    fn jit_that_production_has_and_a_private_server_lacks_is_a_limit() {
        let checks = |does_production_compile, does_old_side_compile| StartChecks {
            does_production_compile,
            does_old_side_compile,
            ..StartChecks::default()
        };
        let differs = [detail(JIT_LIBRARY)];
        let of_one = |checks| match jit(&differs, &checks) {
            Some(MissingJit::OfOne(text)) => text,
            other => panic!("{other:?}"),
        };
        let found = of_one(checks(true, true));
        assert!(found.contains("the new private server lacks"), "{found}");
        let found = of_one(checks(true, false));
        assert!(found.contains("the old private server lacks"), "{found}");
        match jit(&[], &checks(true, false)) {
            Some(MissingJit::OfBoth(found)) => assert!(found.contains("neither"), "{found}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(jit(&[], &checks(true, true)), None);
        assert_eq!(jit(&differs, &checks(false, true)), None);
    }

    #[test]
    fn new_version_that_is_not_released_is_named() {
        for (version, kind) in [
            ("19rc1", "candidate"),
            ("19beta2 (Debian 19~beta2-1)", "beta"),
            ("20devel", "development"),
        ] {
            let found = prerelease(version).unwrap();
            assert!(found.contains(kind), "{found}");
        }
        for version in ["18.6", "15.14 (Debian 15.14-0+deb12u1)", ""] {
            assert_eq!(prerelease(version), None);
        }
    }

    #[test]
    fn unequal_builds_and_other_data_are_named_if_there_are_any() {
        let found = builds(&[detail("compiler"), detail(JIT_LIBRARY)]).unwrap();
        assert!(found.contains("(compiler on → off; JIT library on → off)"));
        assert_eq!(builds(&[]), None);
        assert!(other_data(&["a".to_owned()]).unwrap().contains(": a."));
        assert_eq!(other_data(&[]), None);
    }
}
