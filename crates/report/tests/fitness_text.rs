//! Suitability of a log as text.

use capture_log::{LogQuality, capture_bytes};
use capture_sink::EventCounter;
use report::{TextStyle, fitness_text, to_json};

const LOG: &str = "\
2026-03-01 09:00:00 UTC:10.0.0.1(5000):app@shop:[7]:LOG:  connection authorized: user=app database=shop
2026-03-01 09:00:00 UTC:10.0.0.1(5000):app@shop:[7]:LOG:  duration: 0.100 ms  statement: BEGIN
2026-03-01 09:00:01 UTC:10.0.0.1(5000):app@shop:[7]:LOG:  duration: 0.100 ms  execute a: select $1, $2
2026-03-01 09:00:01 UTC:10.0.0.1(5000):app@shop:[7]:DETAIL:  Parameters: $1 = 'abcd...', $2 = '1'
2026-03-01 09:00:02 UTC:10.0.0.1(5000):app@shop:[7]:ERROR:  division by zero
2026-03-01 09:00:02 UTC:10.0.0.1(5000):app@shop:[7]:STATEMENT:  select 1 / 0
";

fn fitness() -> LogQuality {
    let prefix = Some("%t:%r:%u@%d:[%p]:");
    let report = capture_bytes(LOG, None, prefix, &mut EventCounter::default()).unwrap();
    report.fitness
}

#[test]
fn each_sentence_has_its_number_and_setting() {
    assert_eq!(
        fitness_text::render_text(&fitness(), false, &TextStyle::default()),
        TEXT
    );
}

#[test]
fn no_sentence_is_wider_than_the_terminal() {
    let style = TextStyle {
        width: 60,
        colour: false,
    };
    let text = fitness_text::render_text(&fitness(), false, &style);
    // Settings stay on one line each, for copying.
    let sentences = text.lines().skip_while(|line| !line.starts_with("  - "));
    let sentences: Vec<&str> = sentences
        .take_while(|line| !line.starts_with('`'))
        .filter(|line| !line.starts_with("      set "))
        .collect();
    assert!(sentences.len() > 7, "{text}");
    assert!(
        sentences.iter().all(|line| line.chars().count() <= 60),
        "{text}"
    );
}

#[test]
fn colours_repeat_the_text() {
    let style = TextStyle {
        width: 100,
        colour: true,
    };
    let text = fitness_text::render_text(&fitness(), false, &style);
    assert!(text.contains("\u{1b}[1;31mno\u{1b}[0m"), "{text:?}");
    assert!(text.contains("\u{1b}[33mpartly\u{1b}[0m"), "{text:?}");
}

#[test]
fn json_has_the_same_content() {
    let json: serde_json::Value = serde_json::from_str(&to_json(&fitness())).unwrap();
    assert_eq!(json["uses"]["replay"], "partly");
    assert_eq!(json["replayable"], 2);
    let first = &json["findings"][0];
    assert_eq!(first["finding"], "values_cut");
    assert_eq!(first["values"], 1);
    assert_eq!(first["affects"], "replay");
    assert_eq!(first["settings"]["log_parameter_max_length"], "-1");
}

const TEXT: &str = "\
What this log is good for
  replay     partly  2 of 3 (66.7 %) statements in it can be sent again as they were
  latencies  yes     durations are known for 2 of 2 (100 %) that succeeded
  pacing     partly  times to the second
  sessions   no      0 of 1 (0.0 %) begin and end in it
  failures   no      0 of 1 (0.0 %) failures have their error code
  No log has the settings that clients sent when they connected (PGOPTIONS, a search_path in the
  driver's URL), nor those of ALTER ROLE or DATABASE … SET. If there were any, replay with
  --startup-options '-c search_path=…'.
What it lacks, and what to set for the next one
  - 1 of 2 (50.0 %) values of parameters are cut, in 1 of 1 (100 %) executions; a replay skips
    these.
      set log_parameter_max_length = -1
      set log_parameter_max_length_on_error = -1
  - Times have whole seconds: statements of different sessions within a second are replayed in an
    order and with pauses that are not theirs.
      set log_line_prefix = '%m [%p] %c %l %e %q%r '
  - 1 of 1 (100 %) failures have no error code: a comparison sees that they failed, but not whether
    a replay fails in the same way.
      set log_line_prefix = '%m [%p] %c %l %e %q%r '
  - None of its sessions (1) ends in the log: a replay keeps each open until everything is done.
      set log_disconnections = on
`rehearse capture settings` prints all settings as SQL; with --provider rds, aurora, cloudsql,
alloydb or azure, as commands for these.
";
