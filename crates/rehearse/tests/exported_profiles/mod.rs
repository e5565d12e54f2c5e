//! Profiles in the formats of pprof and speedscope.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::succeeds;

/// Requires that a file for speedscope has the structure of its schema. Returns the sum of the weights of all samples, in
/// nanoseconds, and the number of statements with a profile.
pub fn speedscope_time(arguments: &[&str], file: &str) -> (f64, usize) {
    succeeds(&[&["flame"], arguments, &["-o", file]].concat());
    let view: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(
        view["$schema"],
        "https://www.speedscope.app/file-format-schema.json"
    );
    let frames = view["shared"]["frames"].as_array().unwrap();
    assert!(frames.iter().all(|frame| frame["name"].is_string()));
    let profiles = view["profiles"].as_array().unwrap();
    for profile in profiles {
        assert_eq!(profile["type"], "sampled");
        assert_eq!(profile["unit"], "nanoseconds");
        let samples = profile["samples"].as_array().unwrap();
        let weights = profile["weights"].as_array().unwrap();
        assert_eq!(samples.len(), weights.len());
        let indices = samples.iter().flat_map(|one| one.as_array().unwrap());
        for index in indices {
            assert!((index.as_u64().unwrap() as usize) < frames.len());
        }
        assert_eq!(profile["startValue"], 0);
        assert_eq!(profile["endValue"].as_f64().unwrap(), sum(weights));
    }
    let all = profiles[0]["weights"].as_array().unwrap();
    (sum(all), profiles.len() - 1)
}

fn sum(weights: &[Value]) -> f64 {
    weights.iter().map(|one| one.as_f64().unwrap()).sum()
}

/// Writes a file for pprof, and returns what `go tool pprof` reads of it: the number of samples and the report with its
/// labels. `None` if Go is not installed.
pub fn pprof_samples(arguments: &[&str], file: &str) -> Option<(u64, String)> {
    succeeds(&[&["flame"], arguments, &["-o", file]].concat());
    let is_required = std::env::var_os("REHEARSE_TEST_GO").is_some_and(|value| value == "1");
    let installed = Path::new("/usr/local/go/bin/go");
    let go = match installed.exists() {
        true => installed,
        false => Path::new("go"),
    };
    let pprof = |options: &[&str]| {
        let mut command = Command::new(go);
        command.args(["tool", "pprof"]).args(options).arg(file);
        command.env("PPROF_TMPDIR", Path::new(file).parent().unwrap());
        command.output()
    };
    let top = match pprof(&["-top", "-nodecount=1000", "-sample_index=samples"]) {
        Ok(top) => top,
        Err(error) if !is_required => {
            test_support::report_skipped(&format!("go tool pprof: {error}"));
            return None;
        }
        Err(error) => panic!("go tool pprof: {error}"),
    };
    assert!(top.status.success(), "{top:?}");
    let text = String::from_utf8(top.stdout).unwrap();
    // "Showing nodes accounting for 180, 100% of 180 total"
    let total = text.lines().find_map(|line| line.strip_suffix(" total"));
    let total = total.and_then(|line| line.rsplit(' ').next()?.parse().ok());
    let total = total.unwrap_or_else(|| panic!("{text}"));
    let tags = pprof(&["-tags", "-sample_index=samples"]).unwrap();
    let tags = String::from_utf8(tags.stdout).unwrap();
    Some((total, format!("{text}\n{tags}")))
}
