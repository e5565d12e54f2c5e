//! Contents of an evidence archive: facts collected during the replay, and exports of the run.

use std::collections::HashMap;
use std::io::Write;

use ::run::{Artefact, Moment, PlanFact, RunReader};
use plans::PlanSide;
use serde_json::json;
use sha2::{Digest, Sha256};
use workload::Literals;

use super::pack::{Pack, Packed};
use super::report::EvidenceArtefact;
use super::to_json;
use crate::failure::Failure;

/// Tables with columns that can contain the application's values, and those columns.
const WITH_VALUES: [(&str, &[&str]); 3] = [
    ("executions", &["message", "traceparent"]),
    ("contexts", &["route"]),
    ("plans", &["plan", "message"]),
];

/// Optional tables of a run, and the options that create them.
const ASKED_FOR: [(&str, &[&str], &str); 4] = [
    (
        "settings, extensions, relations and indexes",
        &[
            "settings",
            "extensions",
            "databases",
            "relations",
            "indexes",
            "target-notes",
        ],
        "the replay was told not to ask (--no-facts), or watched alone",
    ),
    ("plans", &["plans"], "not asked for: replay with --explain"),
    (
        "what was seen meanwhile",
        &[
            "probes",
            "seen-statements",
            "statement-statistics",
            "sample-windows",
            "activity",
            "blocking",
            "locks",
            "counters",
        ],
        "not asked for: replay with --observe",
    ),
    (
        "a CPU profile",
        &[
            "profile",
            "stacks",
            "stack-samples",
            "profiled-backends",
            "session-backends",
            "statement-spans",
            "profiled-statements",
        ],
        "not asked for: replay with --profile",
    ),
];

pub struct Contents<'r> {
    reader: &'r RunReader,
    name: &'r str,
    literals: Literals,
    /// Name and version of the program that packs.
    program: (&'r str, &'r str),
    /// Summary of the run, as a JSON document.
    summary: &'r str,
    /// Packed and missing artefacts.
    pub artefacts: Vec<EvidenceArtefact>,
}

impl<'r> Contents<'r> {
    pub fn of(
        reader: &'r RunReader,
        (name, summary): (&'r str, &'r str),
        literals: Literals,
        program: (&'r str, &'r str),
    ) -> Self {
        Contents {
            reader,
            name,
            literals,
            program,
            summary,
            artefacts: Vec::new(),
        }
    }

    /// Packs all items.
    ///
    /// # Errors
    /// If the run cannot be read or the archive cannot be written.
    pub fn gather(&mut self, pack: &mut Pack) -> Result<(), Failure> {
        self.pack_collected(pack, Moment::Before)?;
        self.pack_collected(pack, Moment::After)?;
        self.program(pack)?;
        self.run(pack)?;
        self.tables(pack)?;
        self.plans(pack)?;
        self.profile(pack)
    }

    pub fn left_out(&self) -> Vec<String> {
        match self.literals {
            Literals::Shown => Vec::new(),
            Literals::Hidden => {
                vec!["messages of errors and values in plans: --show-literals".to_owned()]
            }
        }
    }

    fn has(&mut self, name: &str, moment: &'static str, how: &str, file: &str, packed: Packed) {
        self.artefacts.push(EvidenceArtefact {
            name: name.to_owned(),
            moment,
            how: how.to_owned(),
            file: Some(file.to_owned()),
            bytes: Some(packed.bytes),
            sha256: Some(packed.sha256),
            missing: None,
        });
    }

    fn lacks(&mut self, name: &str, moment: &'static str, how: &str, why: &str) {
        self.artefacts.push(EvidenceArtefact {
            name: name.to_owned(),
            moment,
            how: how.to_owned(),
            file: None,
            bytes: None,
            sha256: None,
            missing: Some(why.to_owned()),
        });
    }

    /// Packs the items that were collected before or after the replay.
    fn pack_collected(&mut self, pack: &mut Pack, moment: Moment) -> Result<(), Failure> {
        let Some(artefacts) = self.reader.evidence(moment)? else {
            let why = match moment {
                Moment::Before => {
                    "not gathered: --no-facts, an older run, or one that was made otherwise"
                }
                Moment::After => {
                    "not gathered: the replay did not come to its end, or as before it"
                }
            };
            self.lacks("machine", moment.name(), "files of Linux", why);
            self.lacks("server", moment.name(), "questions to the server", why);
            return Ok(());
        };
        for one in artefacts {
            self.gathered_one(pack, moment, &one)?;
        }
        Ok(())
    }

    fn gathered_one(
        &mut self,
        pack: &mut Pack,
        moment: Moment,
        one: &Artefact,
    ) -> Result<(), Failure> {
        let Some(content) = &one.content else {
            let why = one.missing.as_deref().unwrap_or("nobody knows why");
            self.lacks(&one.name, moment.name(), &one.how, why);
            return Ok(());
        };
        let form = match content.starts_with('[') {
            true => "json",
            false => "txt",
        };
        let file = format!("{}.{}.{form}", plain_path(&one.name), moment.name());
        let packed = pack.file(&file, content.as_bytes())?;
        self.has(&one.name, moment.name(), &one.how, &file, packed);
        Ok(())
    }

    fn program(&mut self, pack: &mut Pack) -> Result<(), Failure> {
        let content = json!({
            "program": self.program.0,
            "version": self.program.1,
            "format_of_runs": ::run::FORMAT,
            "built_for": format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
            "debug": cfg!(debug_assertions),
        });
        let packed = pack.file("program.json", to_json(&content).as_bytes())?;
        self.has("program", "run", "what packed this", "program.json", packed);
        Ok(())
    }

    /// Packs the run's manifest, summary and statement mix.
    fn run(&mut self, pack: &mut Pack) -> Result<(), Failure> {
        let info = to_json(self.reader.info());
        let packed = pack.file("run/manifest.json", info.as_bytes())?;
        let how = "what the run says of itself: options, target, workload, counts";
        self.has("run/manifest", "run", how, "run/manifest.json", packed);

        let packed = pack.file("run/summary.json", self.summary.as_bytes())?;
        let how = format!("rehearse show {} --json", self.name);
        self.has("run/summary", "run", &how, "run/summary.json", packed);
        self.mix(pack)
    }

    /// Packs the statement mix: fingerprints, counts and times.
    fn mix(&mut self, pack: &mut Pack) -> Result<(), Failure> {
        #[derive(Default)]
        struct Sum {
            executions: u64,
            failed: u64,
            service_ns: u64,
            rows: u64,
        }
        let mut sums: HashMap<u64, Sum> = HashMap::new();
        for execution in self.reader.executions()? {
            let execution = execution?;
            let Some(fingerprint) = execution.fingerprint else {
                continue;
            };
            let sum = sums.entry(fingerprint.0).or_default();
            sum.executions += 1;
            sum.failed += u64::from(matches!(execution.outcome, ::run::Outcome::Failed(_)));
            sum.rows += execution.rows;
            if let (Some(sent_ns), Some(done_ns)) = (execution.sent_ns, execution.done_ns) {
                sum.service_ns += (done_ns - sent_ns).max(0) as u64;
            }
        }
        let mut mix: Vec<serde_json::Value> = Vec::new();
        for text in self.reader.statements()? {
            let text = text?;
            let sum = sums.remove(&text.fingerprint.0).unwrap_or_default();
            mix.push(json!({
                "fingerprint": format!("{:016x}", text.fingerprint.0),
                "class": text.class.name(),
                "executions": sum.executions,
                "failed": sum.failed,
                "service_s": sum.service_ns as f64 / 1e9,
                "rows": sum.rows,
                "statement": text.sql,
            }));
        }
        mix.sort_by_key(|one| std::cmp::Reverse(one["executions"].as_u64()));
        let packed = pack.file("run/mix.json", to_json(&mix).as_bytes())?;
        let how = "executions of the run, by statement without values";
        self.has("run/mix", "run", how, "run/mix.json", packed);
        Ok(())
    }

    /// Packs the run's tables without values.
    fn tables(&mut self, pack: &mut Pack) -> Result<(), Failure> {
        let tables: Vec<String> = self
            .reader
            .tables()
            .into_iter()
            .map(str::to_owned)
            .collect();
        for table in &tables {
            // Each piece of these has a file of its own.
            if table.starts_with("evidence-") {
                continue;
            }
            let left_out = WITH_VALUES.iter().find(|(with, _)| with == table);
            let left_out = match (left_out, self.literals) {
                (Some((_, columns)), Literals::Hidden) => *columns,
                _ => &[],
            };
            let file = format!("run/{table}.csv");
            let reader = self.reader;
            let packed = pack.written(&file, |out| {
                reader.write_csv(table, left_out, out)?;
                out.flush().map_err(Failure::could_not)
            })?;
            let mut how = format!("the run's table {table}");
            if !left_out.is_empty() {
                how.push_str(&format!(", without {}", left_out.join(" and ")));
            }
            self.has(&format!("run/{table}"), "run", &how, &file, packed);
        }
        for (what, names, why) in ASKED_FOR {
            for name in names {
                if !tables.iter().any(|table| table == name) {
                    self.lacks(&format!("run/{name}"), "run", what, why);
                }
            }
        }
        Ok(())
    }

    /// Packs plans as their nodes, since the plan texts contain values.
    fn plans(&mut self, pack: &mut Pack) -> Result<(), Failure> {
        let Some(plans) = self.reader.plans()? else {
            return Ok(());
        };
        let literals = self.literals;
        let shown: Vec<serde_json::Value> =
            plans.iter().map(|plan| plan_of(plan, literals)).collect();
        let packed = pack.file("run/plan-steps.json", to_json(&shown).as_bytes())?;
        let how = "EXPLAIN (FORMAT JSON), read into steps";
        self.has("run/plan-steps", "run", how, "run/plan-steps.json", packed);
        Ok(())
    }

    /// Packs the profile as folded stacks, which other programs can draw.
    fn profile(&mut self, pack: &mut Pack) -> Result<(), Failure> {
        let Some(profile) = self.reader.profile()? else {
            return Ok(());
        };
        let mut folded: Vec<(String, u64)> = Vec::new();
        for stack in profile.stacks()? {
            let stack = stack?;
            folded.push((stack.frames, stack.samples));
        }
        folded.sort_unstable();
        let packed = pack.written("run/profile.folded", |out| {
            for (frames, count) in &folded {
                writeln!(out, "{frames} {count}").map_err(Failure::could_not)?;
            }
            Ok(())
        })?;
        let how = "perf record of the server's processes, folded";
        self.has(
            "run/profile-folded",
            "run",
            how,
            "run/profile.folded",
            packed,
        );
        Ok(())
    }
}

fn plan_of(plan: &PlanFact, literals: Literals) -> serde_json::Value {
    json!({
        "fingerprint": format!("{:016x}", plan.fingerprint.0),
        "calls": plan.calls,
        "service_s": plan.service_ns as f64 / 1e9,
        "database": plan.database,
        "plan": PlanSide::of(Some(plan), literals),
    })
}

/// Converts a name to a path below the archive's directory. Database names can contain any
/// character.
fn plain_path(name: &str) -> String {
    let parts: Vec<String> = name
        .split('/')
        .map(|part| {
            let safe = |c: char| match c.is_ascii_alphanumeric() || "-_.".contains(c) {
                true => c,
                false => '_',
            };
            let part: String = part.chars().map(safe).collect();
            match part.trim_start_matches('.') {
                "" => "_".to_owned(),
                part => part.to_owned(),
            }
        })
        .collect();
    let plain = parts.join("/");
    match plain == name {
        true => plain,
        // Two names that differ only in what was changed stay two.
        false => {
            let digits = Sha256::digest(name.as_bytes());
            let digits: String = digits[..4]
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            format!("{plain}.{digits}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leaves_the_bundle() {
        assert_eq!(
            plain_path("database/shop/stat-tables"),
            "database/shop/stat-tables"
        );
        assert!(plain_path("database/../../etc").starts_with("database/_/_/etc."));
        assert!(plain_path("database/a b\nc/x").starts_with("database/a_b_c/x."));
        assert!(plain_path("database//x").starts_with("database/_/x."));
        assert_ne!(
            plain_path("database/магазин/x"),
            plain_path("database/журналы/x")
        );
    }
}
