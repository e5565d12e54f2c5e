use super::*;

fn look(text: &str, prefix: Option<&str>) -> Result<RecognisedFormat, LogError> {
    recognise("x.log", text.as_bytes(), None, prefix)
}

const CSV: &str = "2026-03-01 09:30:05.123 UTC,\"app\",\"shop\",77,\"[local]\",68b1a2c3.4d,3,\"SELECT\",2026-03-01 09:30:00 UTC,3/14,0,LOG,00000,\"statement: select 1\",,,,,,,,,\"psql\",\"client backend\",,0\n";
const JSON: &str = "{\"timestamp\":\"2026-03-01 09:30:05.123 UTC\",\"pid\":7,\"error_severity\":\"LOG\",\"message\":\"x\"}\n";
const STDERR: &str = "2026-03-01 09:30:05.123 UTC [7] LOG:  statement: select 1\n";

#[test]
fn formats_are_told_apart_by_looking() {
    for (text, format) in [
        (CSV.to_owned(), LogFormat::Csv),
        (JSON.to_owned(), LogFormat::Json),
        (STDERR.to_owned(), LogFormat::Stderr),
        // A beginning within an entry, and one that does not end within the sample.
        (format!("from t\"\"\n{CSV}"), LogFormat::Csv),
        (CSV[..CSV.len() - 60].to_owned(), LogFormat::Csv),
        (
            format!("half a line\n\tand more\n{STDERR}"),
            LogFormat::Stderr,
        ),
        // A stderr log whose prefix looks like the beginning of a record.
        (
            "2026-03-01 09:30:05.123 UTC,7,LOG:  x\n".to_owned(),
            LogFormat::Stderr,
        ),
    ] {
        let found = look(&text, None).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(found.format, format, "{text}");
        assert_eq!(found.first_us, 1_772_357_405_123_000);
    }
}

#[test]
fn fact_19_a_translated_log_is_refused_with_the_setting_to_change() {
    for text in [
        "2026-03-01 09:30:05.123 CET [7] LOG:  Dauer: 0.1 ms  Anweisung: select 1\n".to_owned(),
        "2026-03-01 09:30:05.123 CET [7] FEHLER:  Division durch Null\n2026-03-01 09:30:05.123 CET [7] ANWEISUNG:  select 1/0\n".to_owned(),
        "2026-03-01 09:30:05.123 CET [7] ERREUR:  division par zéro\n".to_owned(),
        CSV.replace(",LOG,", ",FEHLER,"),
        JSON.replace("\"LOG\"", "\"ОШИБКА\""),
        CSV.replace("statement: ", "Anweisung: "),
        JSON.replace("\"x\"", "\"instruction : select 1\""),
    ] {
        let error = look(&text, None).unwrap_err();
        assert!(matches!(error, LogError::Translated { .. }), "{text}: {error}");
        assert!(error.to_string().contains("lc_messages = 'C'"));
    }
    // A RAISE in another language is no sign.
    for text in [CSV, JSON] {
        let raised = text
            .replace("statement: ", "comando: ")
            .replace("\"x\"", "\"comando: \"");
        assert!(look(&(text.repeat(9) + &raised), None).is_ok(), "{raised}");
    }
    for text in [
        "2026-03-01 09:30:05.123 CET [7] FEHLER:  x\n",
        // In German a LOG is a LOG, too.
        "2026-03-01 09:30:05.123 CET [7] LOG:  Dauer: 0.1 ms  Anweisung: select 1\n",
    ] {
        let given = look(text, Some("%m [%p] "));
        assert!(matches!(given, Err(LogError::Translated { .. })), "{text}");
    }
}

#[test]
fn what_cannot_be_captured_is_one_sentence() {
    for (text, prefix, part) in [
        ("hello\nworld\n", None, "no PostgreSQL log"),
        (STDERR, Some("%t [%p] "), "look as if '%m [%p] ' had"),
        ("\u{0}ELF\n", None, "binary"),
        (STDERR, Some("[%p] "), "has no time"),
        (STDERR, Some("%m "), "has no process"),
        (
            "2026-03-01 09:30:05.123 XYZ [7] LOG:  x\n",
            Some("%m [%p] "),
            "time zone 'XYZ'",
        ),
    ] {
        let error = look(text, prefix).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
        assert!(!error.contains('\n'));
    }
    let two = STDERR.replace(
        "2026-03-01 09:30:05.123 UTC [7] ",
        "[7] 2026-03-01 09:30:05 UTC ",
    );
    let error = look(&(STDERR.to_owned() + &two).repeat(5), None).unwrap_err();
    assert!(
        error.to_string().contains("no one log_line_prefix"),
        "{error}"
    );
    for (text, given, part) in [
        (STDERR, LogFormat::Csv, "--format stderr"),
        (CSV, LogFormat::Stderr, "--format csv"),
        (JSON, LogFormat::Syslog, "--format json"),
        ("hello\nworld\n", LogFormat::Csv, "give another format"),
    ] {
        let error = recognise("x.log", text.as_bytes(), Some(given), None).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn fact_23_rdss_prefixes_are_recognised_from_the_file_alone() {
    let old = "\
2026-03-01 09:30:05 UTC::@:[371]:LOG:  checkpoint starting: time
2026-03-01 09:30:06 UTC:10.0.0.7(50812):[unknown]@[unknown]:[4711]:LOG:  connection received: host=10.0.0.7 port=50812
2026-03-01 09:30:06 UTC:10.0.0.7(50812):app@shop:[4711]:LOG:  connection authorized: user=app database=shop SSL enabled (protocol=TLSv1.3, cipher=TLS_AES_256_GCM_SHA384, bits=256)
2026-03-01 09:30:06 UTC:10.0.0.7(50812):app@shop:[4711]:LOG:  execute <unnamed>: select *
\tfrom orders where id = $1
2026-03-01 09:30:06 UTC:10.0.0.7(50812):app@shop:[4711]:DETAIL:  parameters: $1 = '7'
2026-03-01 09:30:07 UTC:10.0.0.7(50812):app@shop:[4711]:ERROR:  relation \"x\" does not exist at character 15
2026-03-01 09:30:07 UTC:10.0.0.7(50812):app@shop:[4711]:STATEMENT:  select * from x
";
    let new = "\
2026-03-01 09:30:05.120 UTC::@:[371]:5:00000:2026-02-01 00:00:00 UTC::0:697e9580.173:LOG:  checkpoint starting: time
2026-03-01 09:30:06.001 UTC:10.0.0.7(50812):[unknown]@[unknown]:[4711]:1:00000:2026-03-01 09:30:06 UTC::0:69a4079e.1267:[unknown]LOG:  connection received: host=10.0.0.7 port=50812
2026-03-01 09:30:06.020 UTC:10.0.0.7(50812):app@shop:[4711]:2:00000:2026-03-01 09:30:06 UTC:5/7:0:69a4079e.1267:[unknown]LOG:  connection authorized: user=app database=shop application_name=psql
2026-03-01 09:30:06.120 UTC:10.0.0.7(50812):app@shop:[4711]:3:00000:2026-03-01 09:30:06 UTC:5/8:0:69a4079e.1267:psqlLOG:  duration: 0.512 ms  statement: select 1
2026-03-01 09:30:07.120 UTC:10.0.0.7(50812):app@shop:[4711]:4:42P01:2026-03-01 09:30:06 UTC:5/9:0:69a4079e.1267:psqlERROR:  relation \"x\" does not exist at character 15
2026-03-01 09:30:07.120 UTC:10.0.0.7(50812):app@shop:[4711]:5:42P01:2026-03-01 09:30:06 UTC:5/9:0:69a4079e.1267:psqlSTATEMENT:  select * from x
";
    for (text, prefix) in [
        (old, "%t:%r:%u@%d:[%p]:"),
        (new, "%m:%r:%u@%d:[%p]:%l:%e:%s:%v:%x:%c:%q%a"),
    ] {
        let found = look(text, None).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(found.format, LogFormat::Stderr);
        assert_eq!(found.prefix.unwrap().text(), prefix);
    }
}
