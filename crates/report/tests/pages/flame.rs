//! Flame graphs in a browser: drawing, zoom and search by mouse and keyboard, and differences.

use report::flame::{
    FlameKind, FlameTitles, difference, flame_difference_svg, flame_page, flame_svg,
};

use crate::tab::Tab;

fn folded(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

fn before() -> Vec<String> {
    folded(&[
        "main;PostgresMain;exec_simple_query;ExecOpenIndices;BuildIndexInfo 60",
        "main;PostgresMain;exec_simple_query;ExecInterpExpr 20",
        "main;PostgresMain;exec_simple_query;standard_planner<&> 20",
    ])
}

fn after() -> Vec<String> {
    folded(&[
        "main;PostgresMain;exec_simple_query;ExecOpenIndices;BuildIndexInfo 10",
        "main;PostgresMain;exec_simple_query;ExecInterpExpr 40",
    ])
}

fn titles(of: FlameKind) -> FlameTitles {
    FlameTitles {
        title: "Processor time of a <run>".to_owned(),
        subtitle: "statement 00000000000000ff".to_owned(),
        unit: "samples".to_owned(),
        notes: vec!["Not drawn: 3.00 s & more.".to_owned()],
        kind: of,
    }
}

/// Reads a property of the box whose name begins with a text.
fn of(name: &str, what: &str) -> String {
    format!(
        "(() => {{ const g = [...document.querySelectorAll('#frames > g')].find(g => g.querySelector('title').textContent.startsWith('{name}')); return {what}; }})()"
    )
}

/// Reads the width of a box in percent of the base.
fn share(name: &str) -> String {
    let width = |name| {
        of(
            name,
            "g.querySelector('rect').getBoundingClientRect().width",
        )
    };
    format!("Math.round({} * 100 / {})", width(name), width("all"))
}

/// Whether names have a contrast of at least 4.5 to 1 to their boxes (WCAG 2.2, success criterion
/// 1.4.3).
const READABLE_BOXES: &str = r"[...document.querySelectorAll('#frames > g')].every((g) => {
    const parts = (colour) => colour.match(/[\d.]+/g).map(Number).slice(0, 3).map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    const luminance = (colour) => parts(colour).reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
    const [text, back] = ['text', 'rect'].map((one) => luminance(getComputedStyle(g.querySelector(one)).fill));
    return (Math.max(text, back) + 0.05) / (Math.min(text, back) + 0.05) >= 4.5;
})";

const FOCUSED: &str = "document.activeElement.getAttribute('aria-label') || ''";

fn focused(tab: &mut Tab) -> String {
    let name = tab.eval(FOCUSED);
    let name = name.as_str().unwrap_or_default();
    name.split(" (").next().unwrap_or_default().to_owned()
}

#[test]
fn flame_graph_zooms_and_searches() {
    let titles = titles(FlameKind::Processor);
    let svg = flame_svg(&before(), &titles).unwrap();
    let Some(mut tab) = Tab::open(&flame_page(&svg, &titles)) else {
        return;
    };
    assert_eq!(tab.eval("document.title"), "Processor time of a <run>");
    assert!(tab.text("main").contains("3.00 s & more"));
    tab.assert_readable();
    assert_eq!(tab.number(&share("ExecOpenIndices")), 60);
    tab.picture("flame", true);

    // A click zooms to a box, and the button resets the zoom.
    tab.eval(&of(
        "ExecOpenIndices",
        "g.querySelector('rect').id = 'open'",
    ));
    tab.click("#open");
    assert_eq!(tab.number(&share("ExecOpenIndices")), 100);
    tab.picture("flame-zoomed", true);
    tab.click("#all");
    assert_eq!(tab.number(&share("ExecOpenIndices")), 60);
    assert!(tab.is("document.getElementById('all').disabled"));

    // Matches are marked while the search is typed, and their share is shown.
    let fill = of(
        "ExecOpenIndices",
        "g.querySelector('rect').getAttribute('fill')",
    );
    let plain = tab.eval(&fill);
    tab.press("/");
    tab.write("Exec.*Ind");
    assert_eq!(tab.text("#found"), "Matched: 60.0%");
    assert_ne!(tab.eval(&fill), plain);
    tab.picture("flame-searched", true);
    tab.write("nowhere");
    assert_eq!(tab.text("#found"), "Matched: nothing");
    tab.write("(");
    assert_eq!(tab.text("#found"), "not a regular expression");
    tab.press("Escape");
    assert_eq!(
        (tab.text("#found"), tab.eval(&fill)),
        (String::new(), plain)
    );
    tab.assert_clean();
}

#[test]
fn flame_graph_is_navigable_by_keys_in_all_layouts() {
    let titles = titles(FlameKind::Waiting);
    let svg = flame_svg(&before(), &titles).unwrap();
    let Some(mut tab) = Tab::open(&flame_page(&svg, &titles)) else {
        return;
    };
    tab.eval("document.getElementById('wanted').focus()");
    tab.press("Tab");
    assert_eq!(focused(&mut tab), "all");
    for expected in ["main", "PostgresMain", "exec_simple_query"] {
        tab.press("ArrowUp");
        assert_eq!(focused(&mut tab), expected);
    }
    // The up key moves to the widest box above.
    tab.press("ArrowUp");
    assert_eq!(focused(&mut tab), "ExecOpenIndices");
    tab.press("ArrowLeft");
    assert_eq!(focused(&mut tab), "ExecInterpExpr");
    tab.press("ArrowDown");
    tab.press("ArrowDown");
    assert_eq!(focused(&mut tab), "PostgresMain");
    for _ in 0..2 {
        tab.press("ArrowUp");
    }
    assert!(
        tab.text("#about")
            .starts_with("ExecOpenIndices (60 samples, 60.00%)")
    );
    tab.press("Enter");
    assert_eq!(tab.number(&share("ExecOpenIndices")), 100);
    // Hidden boxes cannot be focused.
    tab.press("ArrowLeft");
    assert_eq!(focused(&mut tab), "ExecOpenIndices");
    tab.press("Escape");
    assert_eq!(tab.number(&share("ExecOpenIndices")), 60);
    assert_eq!(focused(&mut tab), "ExecOpenIndices");

    tab.colours("dark");
    tab.picture("flame-dark", true);
    assert!(tab.is(READABLE_BOXES));
    tab.eval("document.getElementById('flame').hidden = true");
    tab.assert_readable();
    tab.eval("document.getElementById('flame').hidden = false");
    tab.size(360, 640);
    tab.go("");
    tab.assert_no_sideways_scrolling();
    assert_eq!(tab.number(&share("ExecOpenIndices")), 60);
    tab.picture("flame-narrow-dark", true);
    tab.colours("light");
    tab.picture("flame-narrow", true);
    // While a tab has no width, comparing widths is meaningless.
    tab.size(1, 800);
    assert!(tab.number("document.getElementById('frames').getAttribute('width') * 1") > 0);
    tab.assert_clean();
}

#[test]
fn flame_difference_has_the_second_widths_and_directions() {
    let titles = titles(FlameKind::Processor);
    let svg = flame_difference_svg(&before(), &after(), &titles).unwrap();
    let Some(mut tab) = Tab::open(&flame_page(&svg, &titles)) else {
        return;
    };
    let title = "g.querySelector('title').textContent";
    let less = tab.eval(&of("BuildIndexInfo", title)).to_string();
    assert!(
        less.contains("20.00%") && less.contains("-40.00%"),
        "{less}"
    );
    let more = tab.eval(&of("ExecInterpExpr", title)).to_string();
    assert!(
        more.contains("80.00%") && more.contains("+60.00%"),
        "{more}"
    );
    let red_and_blue = "(() => { const [r, , b] = getComputedStyle(g.querySelector('rect')).fill.match(/\\d+/g).map(Number); return r - b; })()";
    assert!(
        tab.number(&of("ExecInterpExpr", red_and_blue)) > 0,
        "more is red"
    );
    assert!(
        tab.number(&of("BuildIndexInfo", red_and_blue)) < 0,
        "less is blue"
    );
    assert!(tab.is(READABLE_BOXES));
    tab.picture("flame-difference", true);
    tab.assert_clean();
}

#[test]
fn folded_difference_has_both_numbers_and_empty_is_an_error() {
    let of_index = |of| {
        let lines = difference(&before(), &after(), of).unwrap();
        let line = lines.lines().find(|line| line.contains("BuildIndexInfo"));
        line.unwrap_or_default()
            .rsplit_once("BuildIndexInfo ")
            .map(|(_, numbers)| numbers.to_owned())
    };
    // Scaled to equally many samples; waits are not scaled.
    assert_eq!(of_index(FlameKind::Processor).as_deref(), Some("30 10"));
    assert_eq!(of_index(FlameKind::Waiting).as_deref(), Some("60 10"));
    assert!(flame_svg(&[], &titles(FlameKind::Processor)).is_err());
}
