//! Machine-readable formats of a comparison, read back by independent parsers.

#[path = "../../analysis/compare/tests/made_up/mod.rs"]
mod synthetic_runs;

use compare::condition::Condition;
use compare::targets::compare_targets;
use compare::{CompareOptions, Comparison, RunStats, Runs, compare};
use plans::statement_plans;
use pulldown_cmark::{Event, Options, Parser, Tag};
use report::csv::comparison_csv;
use report::schema::SchemaCommand;
use report::{compare_markdown, junit, to_document};
use run::{Execution, PlanFact, PlanOutcome};
use serde_json::json;
use synthetic_runs::{Chance, counted, done, failed, info, text};
use workload::Literals;

/// Texts that could end a cell, a tag, an attribute or a line, create a link, or mention a user.
const NASTY: [&str; 6] = [
    "select '`' || \"a|b\" | c \\| d from @team/x where #12 > 3 and 1 < 2 -- ]]> ``` </code></td>",
    "select \u{1}\u{1b}[31m\u{fffe}\u{202e}x from t & '&amp;' \"quoted\" <b onclick='x'>",
    "select *a* _b_ ~~c~~ [x](http://evil.example/) ![y](z) https://github.com/o/r/issues/1 www.x.example $y$ $$z$$",
    "select 1\n\n# heading\n| a | b |\n|---|---|\n</pre></details>\n\n- list\n    code",
    "GH-12 o/r#3 0123456789012345678901234567890123456789 :smile: <!-- x --> <script>alert(1)</script> a@b.example",
    "select größer, 日本, 🦀 from t",
];

fn traffic(seed: u64, factor: f64) -> Vec<Execution> {
    let mut chance = Chance::new(seed);
    let execution = |number: u64| {
        let service_ns = 1e6 * factor * chance.skewed();
        done(
            number % 6 + 1,
            number,
            number as i64 * 10_000_000,
            service_ns,
        )
    };
    (0..6_000).map(execution).collect()
}

fn profile(name: &str, executions: Vec<Execution>) -> RunStats {
    let texts = (1..=6).map(|id| Ok(text(id, NASTY[id as usize - 1])));
    let statistics = counted(&executions);
    let executions = executions.into_iter().map(Ok);
    let mut profile = RunStats::collect::<()>(info(), executions, texts).unwrap();
    profile.add_statistics(statistics).unwrap();
    profile.name = name.to_owned();
    profile
}

fn compared(factor: f64) -> Comparison {
    let mut after = traffic(2, factor);
    let mut other = traffic(1, 1.0);
    if factor != 1.0 {
        after[7] = failed(&after[7], "42P01", 1e5);
        after[7].message = Some("relation \"<a href=x>|@all\" does not exist".to_owned());
        for one in &mut after[100..200] {
            one.rows += 1;
        }
    }
    other.truncate(after.len());
    let runs = Runs {
        before: vec![profile("a|`@x.run", other)],
        after: vec![profile("b<i>\u{1}.run", after)],
        noise: Vec::new(),
    };
    compare(runs, CompareOptions::default())
}

fn view(factor: f64, conditions: &[&str]) -> Comparison {
    let mut comparison = compared(factor);
    let check = |text: &&str| Condition::parse(text).unwrap().check(&comparison);
    comparison.conditions = conditions.iter().map(check).collect();
    comparison
}

/// Returns name, failure state and message of each case.
fn cases(xml: &str) -> Vec<(String, Option<String>)> {
    let document = roxmltree::Document::parse(xml).unwrap_or_else(|error| panic!("{error}: {xml}"));
    let root = document.root_element();
    assert_eq!(root.tag_name().name(), "testsuites");
    let number = |node: roxmltree::Node<'_, '_>, name: &str| -> usize {
        node.attribute(name).unwrap().parse().unwrap()
    };
    let (mut all, mut all_failed) = (0, 0);
    let mut found = Vec::new();
    for suite in root.children().filter(|node| node.is_element()) {
        assert_eq!(suite.tag_name().name(), "testsuite");
        let tests: Vec<_> = suite
            .children()
            .filter(|node| node.has_tag_name("testcase"))
            .collect();
        let failures = tests.iter().filter(|case| {
            let mut children = case.children();
            children.any(|child| child.has_tag_name("failure"))
        });
        assert_eq!(number(suite, "tests"), tests.len());
        assert_eq!(number(suite, "failures"), failures.count());
        all += tests.len();
        all_failed += number(suite, "failures");
        for case in tests {
            assert!(
                case.attribute("classname")
                    .unwrap()
                    .starts_with("rehearse.")
            );
            let failure = case.children().find(|child| child.has_tag_name("failure"));
            let message = failure.map(|node| node.attribute("message").unwrap().to_owned());
            found.push((case.attribute("name").unwrap().to_owned(), message));
        }
    }
    assert_eq!(
        (number(root, "tests"), number(root, "failures")),
        (all, all_failed)
    );
    found
}

fn failing(view: &Comparison) -> Vec<String> {
    let cases = cases(&junit::render_junit(view)).into_iter();
    cases
        .filter(|(_, failure)| failure.is_some())
        .map(|(name, _)| name)
        .collect()
}

#[test]
fn junit_fails_with_the_exit_code() {
    // As if `regression` had been requested.
    let all = failing(&view(3.0, &[]));
    assert_eq!(all.len(), 1 + 6 + 1, "{all:?}");
    assert!(
        all[0] == "regression" && all[7].starts_with("errors"),
        "{all:?}"
    );
    assert_eq!(failing(&view(3.0, &["regression"])).len(), 8);
    assert_eq!(failing(&view(1.0, &[])), [""; 0]);
    // Without a matching condition nothing fails.
    assert_eq!(failing(&view(3.0, &["median > 9x"])), [""; 0]);
    let one = failing(&view(
        3.0,
        &["sql ~ 'größer' and median > 2x", "errors > 5"],
    ));
    assert_eq!(one.len(), 2, "{one:?}");
    assert!(one[1].ends_with(NASTY[5]), "{one:?}");
    let errors = failing(&view(3.0, &["new_errors"]));
    assert_eq!(
        errors,
        ["new_errors", "errors that are new or more frequent"]
    );
    let rows = failing(&view(3.0, &["rows_differ > 0"]));
    assert_eq!(rows, ["rows_differ > 0", "rows that differ"]);
    // The slow statements are still reported.
    assert_eq!(
        cases(&junit::render_junit(&view(3.0, &["new_errors"]))).len(),
        9
    );
    let message = &cases(&junit::render_junit(&view(3.0, &["median > 2x"])))[1].1;
    assert!(
        message.as_ref().unwrap().contains("slower: 3.0")
            && message
                .as_ref()
                .unwrap()
                .contains("; median > 2x: median 3.0"),
        "{message:?}"
    );
}

/// Returns the text within each `<code>` and `<pre>`, and checks that there is nothing but text,
/// tables, lists and headings.
fn read_back(markdown: &str) -> Vec<String> {
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_MATH
        | Options::ENABLE_GFM
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_TASKLISTS;
    let mut codes = Vec::new();
    let mut code: Option<String> = None;
    let mut cells = 0;
    let mut columns = 0;
    for event in Parser::new_ext(markdown, options) {
        match event {
            Event::InlineHtml(html) => match &*html {
                "<code>" => code = Some(String::new()),
                "</code>" => codes.extend(code.take()),
                "<br>" => {}
                other => panic!("{other}"),
            },
            Event::Html(html) => {
                let html = html.trim();
                let inner = html
                    .strip_prefix("<pre>")
                    .and_then(|rest| rest.strip_suffix("</pre>"));
                match inner {
                    Some(inner) => assert!(
                        !inner.contains(['<', '>', '@', '#'])
                            || inner.replace("&#", "").find(['<', '>', '@', '#']).is_none(),
                        "{inner}"
                    ),
                    None if html.starts_with("<pre>") || html.ends_with("</pre>") => {
                        assert!(
                            html.replace("&#", "")
                                .replace("<pre>", "")
                                .replace("</pre>", "")
                                .find(['<', '>', '@', '#'])
                                .is_none(),
                            "{html}"
                        );
                    }
                    None => assert!(
                        [
                            "<!-- rehearse compare -->",
                            "<details><summary>Details</summary>",
                            "<details><summary>Targets, before → after</summary>",
                            "</details>",
                            ""
                        ]
                        .contains(&html)
                            || html.replace("&#", "").find(['<', '>', '@', '#']).is_none(),
                        "{html}"
                    ),
                }
            }
            Event::Text(text) => match &mut code {
                Some(code) => code.push_str(&text),
                None => assert!(!text.contains(['@', '#']), "{text}"),
            },
            Event::Start(Tag::Table(alignments)) => columns = alignments.len(),
            Event::Start(Tag::TableRow | Tag::TableHead) => cells = 0,
            Event::Start(Tag::TableCell) => {
                cells += 1;
                assert!(cells <= columns);
            }
            Event::Start(
                Tag::Paragraph
                | Tag::Heading { .. }
                | Tag::List(_)
                | Tag::Item
                | Tag::Strong
                | Tag::HtmlBlock,
            )
            | Event::End(_) => {}
            Event::Code(text) => assert_eq!(&*text, "--fail-on"),
            Event::SoftBreak => {}
            other => panic!("{other:?}"),
        }
    }
    codes
}

#[test]
fn markdown_has_only_intended_elements() {
    let markdown = compare_markdown::render_markdown(&view(3.0, &["regression", "sql ~ '|`@all'"]));
    assert!(
        markdown.starts_with("<!-- rehearse compare -->\n### Regression: 6 statements"),
        "{markdown}"
    );
    let codes = read_back(&markdown);
    assert!(codes.contains(&"a|`@x.run".to_owned()), "{codes:?}");
    assert!(codes.contains(&"b<i>·.run".to_owned()), "{codes:?}");
    for sql in [NASTY[0], NASTY[5]] {
        let start: String = sql.chars().take(60).collect();
        assert!(
            codes.iter().any(|code| code.starts_with(&start)),
            "{start}: {codes:#?}"
        );
    }
    assert!(
        codes
            .iter()
            .any(|code| code.contains("relation \"<a href=x>|@all\"")),
        "{codes:#?}"
    );
    let quiet = compare_markdown::render_markdown(&view(1.0, &[]));
    assert!(quiet.contains("### No regression was found"), "{quiet}");
    assert!(
        quiet.contains("No statement was found to be slower or faster."),
        "{quiet}"
    );
    read_back(&quiet);
}

#[test]
fn markdown_fits_into_a_comment() {
    let mut view = view(3.0, &[]);
    let one = view.statements[0].clone();
    let long = "x|@#&<".repeat(700);
    view.statements = (0..3_000)
        .map(|number| {
            let mut one = one.clone();
            one.sql = Some(format!("{number} {long}"));
            one
        })
        .collect();
    let error = view.errors[0].clone();
    view.errors = vec![error; 500];
    view.errors
        .iter_mut()
        .for_each(|one| one.message = Some(long.clone()));
    let markdown = compare_markdown::render_markdown(&view);
    let characters = markdown.chars().count();
    assert!((20_000..=65_000).contains(&characters), "{characters}");
    assert!(markdown.contains("and 2,988 more") && markdown.ends_with("</details>\n"));
    read_back(&markdown);
    // There are as many cases as a viewer accepts; the rest share one that fails like them.
    let cases = cases(&junit::render_junit(&view));
    assert_eq!(cases.len(), 1 + 500 + 1 + 1 + 1);
    assert_eq!(cases[501].0, "2,500 more statements, together");
    assert_eq!(
        cases[501].1.as_deref(),
        Some("2,500 more statements that fail")
    );
}

fn with_plan_and_targets() -> Comparison {
    let mut view = view(3.0, &[]);
    let plan = |node: &str, relation: &str| {
        let plan = json!([{ "Plan": { "Node Type": node, "Relation Name": relation } }]);
        PlanFact {
            fingerprint: view.statements[0].fingerprint,
            service_ns: 0,
            calls: 0,
            example: None,
            database: String::new(),
            user: String::new(),
            outcome: PlanOutcome::Planned(plan.to_string()),
        }
    };
    let (before, after) = (plan("Index Scan", "\"a|b\""), plan("Seq Scan", "<i>@all"));
    let first = view.statements[0].fingerprint;
    view.set_plans(|statement| {
        let is_first = statement.fingerprint == first;
        is_first.then(|| statement_plans(Some(&before), Some(&after), Literals::Hidden))?
    });
    let setting = |value: &str| run::SettingFact {
        name: "work_mem".to_owned(),
        value: Some(value.to_owned()),
        source: "command line".to_owned(),
        ..run::SettingFact::default()
    };
    let facts = |value: &str| run::Facts {
        settings: vec![setting(value)],
        ..run::Facts::default()
    };
    let mut targets = compare_targets(&facts("<b>@team|"), &facts("4MB"));
    targets.version_before = Some("15.4".to_owned());
    targets.version_after = Some("17.1 <x>\n\n# y".to_owned());
    view.targets = Some(targets);
    view
}

#[test]
fn plan_and_target_changes_are_described() {
    let view = with_plan_and_targets();
    let markdown = compare_markdown::render_markdown(&view);
    let codes = read_back(&markdown);
    let words = "Index Scan on \"a|b\" → Seq Scan on <i>@all";
    // In the table and in the details.
    let told = codes.iter().filter(|code| *code == words).count();
    assert_eq!(told, 2, "{codes:#?}");
    assert!(
        markdown.contains("<br>plan: <code>Index Scan"),
        "{markdown}"
    );
    let pre = markdown
        .split("<details><summary>Targets, before → after</summary>\n\n<pre>")
        .nth(1)
        .unwrap_or_else(|| panic!("{markdown}"));
    let pre = pre.split("</pre>").next().unwrap();
    assert!(
        pre.starts_with("  version     15&#46;4 → 17&#46;1"),
        "{pre}"
    );
    assert!(
        pre.contains("work&#95;mem &#60;b&#62;&#64;team&#124; → 4MB (command line)"),
        "{pre}"
    );

    let xml = junit::render_junit(&view);
    cases(&xml);
    let document = roxmltree::Document::parse(&xml).unwrap();
    let texts: Vec<&str> = document
        .descendants()
        .filter(|node| node.has_tag_name("failure"))
        .filter_map(|node| node.text())
        .collect();
    let plan = format!("\nplan: {words}\n");
    assert_eq!(texts.iter().filter(|one| one.contains(&plan)).count(), 1);
    let property = |name: &str| {
        let mut nodes = document.descendants();
        let found = nodes.find(|node| node.attribute("name") == Some(name));
        found.unwrap().attribute("value").unwrap().to_owned()
    };
    assert_eq!(property("target.before.version"), "15.4");
    assert!(property("target.after.version").starts_with("17.1"));
    assert!(property("target.differences").contains("work_mem <b>@team| → 4MB"));
    // Without plans and targets there is no text about them.
    let plain = plain();
    assert!(
        !plain.contains("plan:") && !plain.contains("Targets"),
        "{plain}"
    );
}

fn plain() -> String {
    compare_markdown::render_markdown(&view(3.0, &[]))
}

#[test]
fn single_runs_are_noted_next_to_the_verdict() {
    let mut view = view(3.0, &["regression"]);
    let caveat =
        "One run on each side: how much two runs of the same server differ is not in the intervals";
    let markdown = compare_markdown::render_markdown(&view);
    let head: Vec<&str> = markdown.lines().take(4).collect();
    assert!(head[3].contains(caveat), "{head:?}");
    assert!(
        markdown.contains("within these two runs; what other runs would differ by is not known"),
        "{markdown}"
    );
    let xml = junit::render_junit(&view);
    let failures = xml.matches("</failure>").count();
    // Each but that of the errors, whose counts have no interval.
    assert_eq!(xml.matches(caveat).count(), failures - 1, "{xml}");
    let second = view.before.runs[0].clone();
    view.before.runs.push(second);
    let markdown = compare_markdown::render_markdown(&view);
    assert!(!markdown.contains(caveat) && !markdown.contains("within these two runs"));
    assert!(!junit::render_junit(&view).contains(caveat));
}

fn folder() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas")
}

#[test]
fn published_schemas_match_the_types() {
    for described in SchemaCommand::ALL {
        let name = described.name();
        let file = folder().join(format!("{name}.schema.json"));
        let published = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(
            published == described.schema(),
            "docs/schemas/{name}.schema.json is of an earlier shape: cargo run -p rehearse -- schema {name} > docs/schemas/{name}.schema.json; where a reader would break, the view's number grows (docs/schemas/README.md)"
        );
    }
    let mut files: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".json"))
        .collect();
    files.sort();
    let mut names = SchemaCommand::ALL.map(|one| format!("{}.schema.json", one.name()));
    names.sort();
    assert_eq!(files, names);
}

#[test]
fn comparison_has_all_required_fields() {
    let schema: serde_json::Value = serde_json::from_str(&SchemaCommand::Compare.schema()).unwrap();
    let view: serde_json::Value =
        serde_json::from_str(&to_document(&view(3.0, &["median > 2x"]))).unwrap();
    let required = schema["required"].as_array().unwrap();
    assert!(required.len() > 15);
    for name in required {
        assert!(view.get(name.as_str().unwrap()).is_some(), "{name}");
    }
    assert_eq!(schema["properties"]["schema"]["const"], view["schema"]);
    assert_eq!(
        view["conditions"][0]["statements"][0]["measured"][0]["unit"],
        "ratio"
    );
}

#[test]
fn csv_has_a_row_for_each_statement_with_its_numbers() {
    let view = view(3.0, &[]);
    let text = comparison_csv(&view);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let head = reader.headers().unwrap().clone();
    let at = |name: &str| head.iter().position(|one| one == name).unwrap();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), view.statements.len());
    for (row, one) in rows.iter().zip(&view.statements) {
        assert_eq!(&row[at("scope")], "statement");
        assert_eq!(row[at("fingerprint")], one.fingerprint.to_string());
        assert_eq!(Some(&row[at("statement")]), one.sql.as_deref());
        assert_eq!(row[at("calls_after")], one.calls_after.to_string());
        assert_eq!(&row[at("finding")], one.service.finding.name());
        let number = |name: &str| -> f64 { row[at(name)].parse().unwrap() };
        let p50 = one.service.after.unwrap().p50_ns as f64 / 1e6;
        assert!((number("p50_after_ms") - p50).abs() < 1e-6, "{row:?}");
        assert!(number("ratio_low") < number("ratio") && number("ratio") < number("ratio_high"));
        let blocks = one.work.as_ref().unwrap().before.shared_blocks;
        assert!((number("shared_blocks_before") - blocks).abs() < 1e-6);
    }
}
