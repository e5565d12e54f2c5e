//! Text on the starting point of a capture, and the commands that bring a copy of the server to it.
//!
//! Names in capitals are the user's to fill in.

use clock::{duration_text, rfc3339_text};
use workload::{Archiving, Hosting, StartingPoint};

use crate::text::line::one_line;
use crate::text::style::{TextStyle, Tone};
use crate::text::units::counted;

/// The recipes to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recipes {
    /// Those that fit what is known of the server.
    Fitting,
    /// All.
    All,
}

/// A way to make a copy.
struct Recipe {
    title: &'static str,
    /// It fits what is known of the server.
    fits: bool,
    commands: String,
}

/// Renders the starting point and recipes, ending with a line feed. `workload` is the path of the workload.
pub fn render_text(
    point: &StartingPoint,
    workload: &str,
    recipes: Recipes,
    style: &TextStyle,
) -> String {
    let mut lines = vec![style.paint(Tone::Heading, &describe(point))];
    lines.extend(transactions(point));
    for missing in &point.missing {
        lines.push(format!("  not noted: {}", one_line(missing, 200)));
    }
    lines.push("  To bring a copy to this moment (docs/how-to/make-the-copy.md):".to_owned());
    for recipe in all_recipes(point) {
        if recipe.fits || recipes == Recipes::All {
            lines.push(String::new());
            lines.push(style.paint(Tone::Heading, &format!("  {}", recipe.title)));
            lines.extend(recipe.commands.lines().map(|line| format!("    {line}")));
        }
    }
    lines.push(String::new());
    lines.push(style.paint(
        Tone::Heading,
        "  Then, in the copy, the sequences: recovery leaves them up to 32 values too high, a dump later still",
    ));
    lines.push(format!(
        "    rehearse inspect {workload} --sequences | psql -d postgres://COPY/postgres"
    ));
    if recipes == Recipes::Fitting {
        lines.push(format!(
            "  `rehearse inspect {workload} --copy-commands` prints this again, with all other ways."
        ));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// Describes the moment in one line.
pub(crate) fn describe(point: &StartingPoint) -> String {
    let position = match (&point.lsn, point.timeline) {
        (Some(lsn), Some(timeline)) => format!("LSN {lsn} on timeline {timeline}, "),
        (Some(lsn), None) => format!("LSN {lsn}, "),
        (None, _) => String::new(),
    };
    let name = point.restore_point.as_ref();
    let name = name.map_or_else(String::new, |name| format!(", restore point {name}"));
    let sequences: usize = point.databases.iter().map(|one| one.sequences.len()).sum();
    format!(
        "Starting point: {position}{}{name}; {} of {}",
        rfc3339_text(point.server_time_us),
        counted(sequences as u64, "sequence"),
        counted(point.databases.len() as u64, "database"),
    )
}

fn transactions(point: &StartingPoint) -> Option<String> {
    let writing = point.writing_transactions.filter(|&number| number > 0)?;
    let longest = point.transactions.iter().find(|one| one.has_written);
    let longest = longest.map_or_else(String::new, |one| {
        let name = format!("{}@{} {}", one.user, one.database, one.application);
        let age = duration_text(one.age_us.saturating_mul(1_000));
        format!("; the longest for {age}: {}", one_line(name.trim(), 60))
    });
    Some(format!(
        "  {} had written and was not over: the copy lacks what was written until now{longest}",
        counted(writing, "transaction"),
    ))
}

fn all_recipes(point: &StartingPoint) -> Vec<Recipe> {
    let own = point.hosting == Hosting::SelfManaged;
    let is = |hosting| point.hosting == hosting;
    let has_position = point.lsn.is_some();
    vec![
        Recipe {
            title: "pg_dump with the exported snapshot",
            fits: point.exported_snapshot.is_some(),
            commands: dump(point),
        },
        Recipe {
            title: "pgBackRest",
            fits: own && has_position && point.archiving == Archiving::PgBackRest,
            commands: pgbackrest(point),
        },
        Recipe {
            title: "A base backup that was complete before the capture, and archived WAL",
            fits: own && has_position && point.archiving != Archiving::PgBackRest,
            commands: base_backup(point),
        },
        Recipe {
            title: "Amazon RDS",
            fits: is(Hosting::Rds),
            commands: provider(
                point,
                "aws rds restore-db-instance-to-point-in-time --source-db-instance-identifier SOURCE \\\n  --target-db-instance-identifier rehearse-copy --restore-time TIME",
            ),
        },
        Recipe {
            title: "Amazon Aurora",
            fits: is(Hosting::Aurora),
            commands: provider(
                point,
                "aws rds restore-db-cluster-to-point-in-time --source-db-cluster-identifier SOURCE \\\n  --db-cluster-identifier rehearse-copy --restore-type copy-on-write --restore-to-time TIME\naws rds create-db-instance --db-cluster-identifier rehearse-copy --engine aurora-postgresql \\\n  --db-instance-identifier rehearse-copy-1 --db-instance-class CLASS",
            ),
        },
        Recipe {
            title: "Google Cloud SQL",
            fits: is(Hosting::CloudSql),
            commands: provider(
                point,
                "gcloud sql instances clone SOURCE rehearse-copy --point-in-time TIME",
            ),
        },
        Recipe {
            title: "Google AlloyDB",
            fits: is(Hosting::AlloyDb),
            commands: provider(
                point,
                "gcloud alloydb clusters restore rehearse-copy --region REGION --source-cluster SOURCE \\\n  --point-in-time TIME",
            ),
        },
        Recipe {
            title: "Azure Database for PostgreSQL",
            fits: is(Hosting::Azure),
            commands: provider(
                point,
                "az postgres flexible-server restore --resource-group GROUP --name rehearse-copy \\\n  --source-server SOURCE --restore-time TIME",
            ),
        },
        Recipe {
            title: "CloudNativePG",
            fits: is(Hosting::CloudNativePg),
            commands: cloud_native_pg(point),
        },
        Recipe {
            title: "Neon",
            fits: is(Hosting::Neon),
            commands: format!(
                "neon branches create --name rehearse-copy --parent {}",
                point.lsn.as_deref().unwrap_or("TIME")
            ),
        },
        Recipe {
            title: "DBLab: the last snapshot before the capture",
            fits: false,
            commands: format!(
                "# choose one whose dataStateAt is shortly before {}\ndblab snapshot list\ndblab clone create --username NAME --password PASSWORD --id rehearse-copy --snapshot-id ID\n# what was written between the snapshot and the capture is missing in it",
                rfc3339_text(point.server_time_us)
            ),
        },
    ]
}

fn dump(point: &StartingPoint) -> String {
    let Some(exported) = &point.exported_snapshot else {
        return "# no snapshot was exported: capture with --export-snapshot".to_owned();
    };
    let database = &exported.database;
    format!(
        "# begin within {} of the start of the capture, and leave the capture running until it has begun\npg_dump -d postgres://SOURCE/{database} --snapshot={} -Fd -j 4 -f {database}.dump\ncreatedb --maintenance-db=postgres://COPY/postgres {database}\npg_restore -d postgres://COPY/{database} -j 4 {database}.dump",
        duration_text(i64::try_from(exported.held_s).unwrap_or(0) * 1_000_000_000),
        exported.id
    )
}

fn pgbackrest(point: &StartingPoint) -> String {
    // By position, pgBackRest chooses the backup itself. By name, the user would have to.
    format!(
        "psql -d postgres://SOURCE/postgres -c 'SELECT pg_switch_wal()'\npgbackrest --stanza=STANZA --pg1-path=COPY --type=lsn --target={} --target-exclusive \\\n  --target-action=promote --archive-mode=off restore\npg_ctl -D COPY -l COPY.log -o '-p 5433' -w start",
        point.lsn.as_deref().unwrap_or("LSN")
    )
}

/// Settings that end a recovery at the point. By position, the record that begins there must not be applied: it may be a
/// commit of the capture. A restore point's name needs no such rule.
fn recovery_target(point: &StartingPoint) -> String {
    match (&point.restore_point, &point.lsn) {
        (Some(name), _) => format!("recovery_target_name = '{name}'"),
        (None, Some(lsn)) => {
            format!("recovery_target_lsn = '{lsn}'\nrecovery_target_inclusive = off")
        }
        (None, None) => format!(
            "recovery_target_time = '{}'",
            rfc3339_text(point.server_time_us)
        ),
    }
}

fn base_backup(point: &StartingPoint) -> String {
    let major: u32 = {
        let digits = point
            .server_version
            .split(|one: char| !one.is_ascii_digit());
        digits
            .into_iter()
            .next()
            .and_then(|text| text.parse().ok())
            .unwrap_or(0)
    };
    // Until 11, a file of its own had these settings.
    let (file, signal) = match major {
        1..12 => ("recovery.conf", ""),
        _ => ("postgresql.auto.conf", "touch COPY/recovery.signal\n"),
    };
    let unarchived = match point.archiving {
        Archiving::Off => {
            "# archive_mode is off: ARCHIVE is the directory of a pg_receivewal that runs since before the backup\n"
        }
        _ => "",
    };
    format!(
        "# COPY is what pg_basebackup -D COPY --checkpoint=fast wrote before the capture began\n{unarchived}psql -d postgres://SOURCE/postgres -c 'SELECT pg_switch_wal()'\ncat >> COPY/{file} <<'END'\nrestore_command = 'cp ARCHIVE/%f \"%p\"'\n{}\nrecovery_target_action = 'promote'\nEND\necho 'archive_mode = off' >> COPY/postgresql.auto.conf\n{signal}pg_ctl -D COPY -l COPY.log -o '-p 5433' -w start",
        recovery_target(point)
    )
}

/// Providers restore to whole seconds. The copy is brought to the next one, and what it already has is not replayed.
fn provider(point: &StartingPoint, command: &str) -> String {
    let next_s = point.server_time_us.div_euclid(1_000_000) + 1;
    let time = rfc3339_text(next_s * 1_000_000).replace(".000000", "");
    format!(
        "{}\n# the copy has the first instants of the capture: replay with --from {time}",
        command.replace("TIME", &time)
    )
}

fn cloud_native_pg(point: &StartingPoint) -> String {
    let target = match &point.lsn {
        Some(lsn) => format!("targetLSN: \"{lsn}\"\n        exclusive: true"),
        None => format!("targetTime: \"{}\"", rfc3339_text(point.server_time_us)),
    };
    format!(
        "kubectl cnpg psql SOURCE -- -c 'SELECT pg_switch_wal()'\n# in the new Cluster; SOURCE is one of its externalClusters, with the backups\nspec:\n  bootstrap:\n    recovery:\n      source: SOURCE\n      recoveryTarget:\n        {target}"
    )
}

/// SQL that sets each sequence of a column to the column's largest value, or to its start if there is none. A descending
/// sequence has the smallest.
pub const SEQUENCES_FROM_DATA_SQL: &str = r"DO $$
DECLARE one record;
BEGIN
    FOR one IN
        SELECT seqrelid::regclass AS sequence, refobjid::regclass AS of_table, attname,
               CASE WHEN seqincrement > 0 THEN 'max' ELSE 'min' END AS last, seqstart
        FROM pg_sequence
        JOIN pg_depend ON classid = 'pg_class'::regclass AND objid = seqrelid
            AND refclassid = 'pg_class'::regclass AND refobjsubid > 0 AND deptype IN ('a', 'i')
        JOIN pg_attribute ON attrelid = refobjid AND attnum = refobjsubid
    LOOP
        EXECUTE format('SELECT setval(%L, coalesce(%s(%I), %s), %s(%I) IS NOT NULL) FROM %s',
            one.sequence, one.last, one.attname, one.seqstart, one.last, one.attname, one.of_table);
    END LOOP;
END $$;
";

/// Returns SQL for psql that gives the sequences of a copy the values that they had, ending with a line feed.
pub fn sequences_sql(point: &StartingPoint) -> String {
    let mut sql = String::from("\\set ON_ERROR_STOP on\n");
    for database in point
        .databases
        .iter()
        .filter(|one| !one.sequences.is_empty())
    {
        sql.push_str(&format!("\\connect {}\n", quoted(&database.name)));
        for sequence in &database.sequences {
            let name = format!("{}.{}", quoted(&sequence.schema), quoted(&sequence.name));
            sql.push_str(&format!(
                "SELECT pg_catalog.setval('{}', {}, {});\n",
                name.replace('\'', "''"),
                sequence.last_value,
                sequence.is_called
            ));
        }
    }
    sql
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use workload::{DatabaseState, SequenceValue};

    use super::*;

    fn point() -> StartingPoint {
        StartingPoint {
            server_time_us: 1_772_357_405_250_000,
            server_version: "15.4".to_owned(),
            timeline: Some(1),
            lsn: Some("0/3000110".to_owned()),
            restore_point: Some("rehearse_1".to_owned()),
            archiving: Archiving::Other,
            ..StartingPoint::default()
        }
    }

    fn text(point: &StartingPoint, recipes: Recipes) -> String {
        render_text(point, "a.workload", recipes, &TextStyle::default())
    }

    #[test]
    fn recovery_ends_at_the_restore_point_or_before_the_record_at_the_position() {
        let named = text(&point(), Recipes::Fitting);
        assert!(
            named.contains("recovery_target_name = 'rehearse_1'"),
            "{named}"
        );
        assert!(!named.contains("inclusive"), "{named}");
        let unnamed = StartingPoint {
            restore_point: None,
            ..point()
        };
        let by_position = text(&unnamed, Recipes::Fitting);
        assert!(
            by_position
                .contains("recovery_target_lsn = '0/3000110'\n    recovery_target_inclusive = off"),
            "{by_position}"
        );
    }

    #[test]
    fn recipes_are_those_of_the_hosting_and_all_if_requested() {
        let rds = StartingPoint {
            hosting: Hosting::Rds,
            ..point()
        };
        let fitting = text(&rds, Recipes::Fitting);
        assert!(
            fitting.contains("--restore-time 2026-03-01T09:30:06Z"),
            "{fitting}"
        );
        assert!(
            fitting.contains("replay with --from 2026-03-01T09:30:06Z"),
            "{fitting}"
        );
        assert!(!fitting.contains("recovery_target"), "{fitting}");
        let all = text(&rds, Recipes::All);
        for part in [
            "pgbackrest",
            "recovery_target",
            "gcloud sql",
            "targetLSN",
            "neon",
            "dblab",
        ] {
            assert!(all.contains(part), "{part}: {all}");
        }
    }

    #[test]
    fn earlier_versions_read_the_target_from_recovery_conf() {
        let old = StartingPoint {
            server_version: "11.22".to_owned(),
            ..point()
        };
        let shown = text(&old, Recipes::Fitting);
        assert!(shown.contains("COPY/recovery.conf") && !shown.contains("recovery.signal"));
    }

    #[test]
    fn sequences_are_set_in_their_database_with_quoted_names() {
        let mut point = point();
        point.databases.push(DatabaseState {
            name: "my \"shop".to_owned(),
            sequences: vec![SequenceValue {
                schema: "public".to_owned(),
                name: "o'id".to_owned(),
                last_value: 7,
                is_called: true,
            }],
            ..DatabaseState::default()
        });
        assert_eq!(
            sequences_sql(&point),
            "\\set ON_ERROR_STOP on\n\\connect \"my \"\"shop\"\nSELECT pg_catalog.setval('\"public\".\"o''id\"', 7, true);\n"
        );
    }
}
