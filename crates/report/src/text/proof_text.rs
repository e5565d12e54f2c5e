//! Text on a proof: the verdicts, their basis, and other changes.

use compare::StatementComparison;
use compare::proof::{Effect, Goal, Verdict, WorkSupport};
use diagnose::ScreeningMethod;
use statistics::Measure;
use statistics::Unit;

use crate::text::first_text::first_texts;
use crate::text::line::{cut, one_line, wrapped};
use crate::text::style::{TextStyle, Tone};
use crate::text::table::{Align, Table};
use crate::text::units::{bytes, count, counted, duration, percent, quantity, ratio};
use study::ScreenedCandidate;
use study::proof::{
    GoalNoise, Movement, ProofEnd, ProofNumber, ProofReport, ProofSideReport, recommend,
};

/// Approximate maximum number of lines: the height of a screen.
const LINES: usize = 40;
/// Number of lines other than statements: for the whole, and for each change.
const FIXED: (usize, usize) = (6, 17);
/// Maximum number of candidates.
const CANDIDATES_MAX: usize = 6;

/// Renders the proof, ending with a line feed.
pub fn render_text(view: &ProofReport, style: &TextStyle) -> String {
    let mut lines = vec![format!(
        "{}: {} on {}",
        style.paint(Tone::Heading, &one_line(&view.name, 60)),
        one_line(&view.workload, 80),
        one_line(&view.place, 80)
    )];
    let width = style.columns();
    lines.extend(wrapped(&extent(view), "  ", "  ", width));
    for note in &view.notes {
        lines.extend(wrapped(note, "  ", "  ", width));
    }
    for text in first_of_sides(view) {
        let wrapped = wrapped(&format!("! {text}."), "  ", "    ", width);
        lines.extend(wrapped.iter().map(|line| style.paint(Tone::Bad, line)));
    }
    let is_unclear = view.sides.iter().any(|side| !side.verdict.is_clear());
    let advice = goal_advice(view.goal, &view.goal_noise).filter(|_| is_unclear);
    if let Some(advice) = advice {
        lines.extend(wrapped(&advice, "  ", "  ", width));
    }
    let sides = view.sides.len().max(1);
    lines.extend(candidate_lines(view, *style));
    let room = LINES.saturating_sub(FIXED.0 + FIXED.1 * sides) / sides;
    let is_short = sides > 2;
    for side in &view.sides {
        lines.push(String::new());
        lines.extend(side_lines(view, side, room.max(1), is_short, *style));
    }
    if is_short {
        lines.push(String::new());
        lines.extend(side_by_side_lines(view, *style));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// Returns the warnings that come before the verdicts, each once.
pub(crate) fn first_of_sides(view: &ProofReport) -> Vec<String> {
    let mut all = Vec::new();
    for side in &view.sides {
        for text in first_texts(&side.warnings) {
            if !all.contains(&text) {
                all.push(text);
            }
        }
    }
    all
}

/// Lists the candidates that the planner evaluated before the replays.
fn candidate_lines(view: &ProofReport, style: TextStyle) -> Vec<String> {
    if view.candidates.is_empty() {
        return Vec::new();
    }
    let width = style.columns();
    let mut lines = wrapped(&candidates_sentence(view), "  ", "  ", width);
    let mut table = Table::new(&[Align::Right, Align::Right, Align::Left, Align::Left]);
    let listed = view
        .candidates
        .iter()
        .filter(|one| one.expected_share > 0.0);
    let count_listed = listed.clone().count();
    for one in listed.take(CANDIDATES_MAX) {
        let [share, size, name, cost, _] = candidate_cells(one);
        table.row([share, size, cost, name]);
    }
    let shown = table.lines();
    lines.extend(shown.iter().map(|line| cut(&format!("    {line}"), width)));
    let left = view.candidates.len() - count_listed.min(CANDIDATES_MAX);
    if left > 0 {
        lines.push(format!(
            "    and {left} more, {} of which the planner would not take",
            view.candidates.len() - count_listed
        ));
    }
    lines
}

/// Describes the number of candidates, how the planner evaluated them, and how many are measured.
pub(crate) fn candidates_sentence(view: &ProofReport) -> String {
    let all = &view.candidates;
    let by = |method: ScreeningMethod| {
        all.iter()
            .filter(|one| one.screened == Some(method))
            .count()
    };
    let mut ways = Vec::new();
    if by(ScreeningMethod::Hypopg) > 0 {
        ways.push("as hypothetical ones (HypoPG)".to_owned());
    }
    if by(ScreeningMethod::Built) > 0 {
        ways.push("each built for a moment".to_owned());
    }
    let unasked = all.iter().filter(|one| one.screened.is_none()).count();
    let mut text = format!(
        "{} shown to the planner {}; {} of them measured below",
        counted(all.len() as u64, "candidate"),
        ways.join(" and "),
        all.iter().filter(|one| one.proved_as.is_some()).count()
    );
    if unasked > 0 {
        text.push_str(&format!(
            "; {unasked} not asked of: there were too many to build"
        ));
    }
    text.push_str(". What each is believed to save of all time, by the planner's costs and without what writes pay:");
    text
}

/// Returns share, size, name, cost for updates, and whether the candidate is measured.
pub(crate) fn candidate_cells(one: &ScreenedCandidate) -> [String; 5] {
    let cost = match (&one.refused, one.updated.is_empty()) {
        (Some(why), _) => format!("refused: {}", one_line(why, 80)),
        (None, true) => String::new(),
        (None, false) => format!("not HOT: {}", one.updated.join(", ")),
    };
    [
        percent(one.expected_share, 1.0),
        one.bytes.map_or_else(|| "–".to_owned(), bytes),
        format!("{} {}", one_line(&one.table, 60), one_line(&one.shape, 160)),
        cost,
        match one.proved_as {
            Some(_) => "measured".to_owned(),
            None => "believed".to_owned(),
        },
    ]
}

/// Numbers by which changes are compared with each other.
const COMPARED_NUMBERS: [(&str, &str); 7] = [
    ("total", "all waited"),
    ("reads", "reads"),
    ("writes", "writes"),
    ("blocks", "blocks"),
    ("hot", "HOT"),
    ("wal", "WAL"),
    ("indexes", "indexes"),
];

/// Compares all changes: a head, and a row for each. Ratios are with / without. For HOT updates it
/// is the share with the change, and in the first row the share without.
pub(crate) fn side_by_side(view: &ProofReport) -> (Vec<String>, Vec<Vec<String>>) {
    let has = |name: &str| {
        let mut all = view.sides.iter().flat_map(|side| &side.numbers);
        all.any(|number| number.name == name)
    };
    let shown: Vec<_> = COMPARED_NUMBERS
        .iter()
        .filter(|(name, _)| has(name))
        .collect();
    let mut head = vec!["change".to_owned(), "verdict".to_owned()];
    head.extend(shown.iter().map(|(_, word)| (*word).to_owned()));
    let of = |side: &ProofSideReport, name: &str| -> Option<ProofNumber> {
        side.numbers.iter().find(|one| one.name == name).cloned()
    };
    let mut rows = Vec::new();
    if let Some(first) = view.sides.iter().find(|side| !side.numbers.is_empty()) {
        let mut row = vec!["unchanged".to_owned(), String::new()];
        row.extend(shown.iter().map(|(name, _)| {
            of(first, name).map_or_else(String::new, |one| quantity(one.before, one.unit))
        }));
        rows.push(row);
    }
    for side in &view.sides {
        let mut row = vec![one_line(&side.name, 90), side.verdict.name().to_owned()];
        row.extend(shown.iter().map(|(name, _)| {
            let cell = of(side, name).map(|one| match (one.unit, &one.effect) {
                (Unit::Share, _) => quantity(one.after, one.unit),
                (_, Some(effect)) => format!("× {}", ratio(effect.ratio)),
                (_, None) if one.before > 0.0 => format!("× {}", ratio(one.after / one.before)),
                _ => quantity(one.after, one.unit),
            });
            cell.unwrap_or_else(|| "–".to_owned())
        }));
        rows.push(row);
    }
    (head, rows)
}

fn side_by_side_lines(view: &ProofReport, style: TextStyle) -> Vec<String> {
    let (head, rows) = side_by_side(view);
    let mut alignments = vec![Align::Right; head.len()];
    alignments[0] = Align::Left;
    alignments[1] = Align::Left;
    let mut table = Table::new(&alignments);
    // Names are long, so they are listed above with their numbers.
    table.line(head);
    let names = rows.iter().skip(1).map(|row| row[0].clone());
    let mut lines: Vec<String> = (1..)
        .zip(names)
        .map(|(number, name)| cut(&format!("  {number}  {name}"), style.columns()))
        .collect();
    for (number, mut row) in rows.into_iter().enumerate() {
        if number > 0 {
            row[0] = number.to_string();
        }
        table.line(row);
    }
    lines.extend(
        table
            .lines()
            .iter()
            .map(|line| cut(&format!("  {line}"), style.columns())),
    );
    lines
}

fn extent(view: &ProofReport) -> String {
    let blocks = view
        .runs
        .iter()
        .map(|run| run.trial.block)
        .max()
        .unwrap_or(0);
    let mut text = format!(
        "goal {}, margin {}; {} of at most {} in {}",
        view.goal.words(),
        percent(view.margin, 1.0),
        counted(blocks.into(), "block"),
        view.blocks_planned,
        duration(view.took_s * 1e6)
    );
    if let (Some(noise), Some(shows)) = (view.noise, view.shows) {
        text.push_str(&format!(
            "; unchanged runs differ by {}, with which all blocks show changes from about × {} or × {} on",
            percent(noise, 1.0),
            ratio(1.0 / (1.0 + shows)),
            ratio(1.0 + shows)
        ));
    }
    text.push_str(&format!("; order of seed {}", view.seed));
    let looks = || view.sides.iter().flat_map(|side| &side.interim_analyses);
    if looks().any(|look| look.effect.is_load_adjusted) {
        text.push_str("; adjusted for the load of the machine by others");
    }
    text.push_str(match view.ended {
        ProofEnd::TimeOver => "; the time was over",
        ProofEnd::Stopped => "; it was stopped, and --resume continues it",
        ProofEnd::Clear | ProofEnd::AllBlocks => "",
    });
    text
}

/// Recommends goals whose noise is far less than that of the chosen one.
pub(crate) fn goal_advice(chosen: Goal, noise: &[GoalNoise]) -> Option<String> {
    let (own, better) = recommend(chosen, noise)?;
    let listed: Vec<String> = better
        .iter()
        .map(|one| format!("--goal {} ({})", one.goal.name(), percent(one.noise, 1.0)))
        .collect();
    Some(format!(
        "Unchanged runs differ by {} in {}, and by far less in others, which show smaller differences: {}. \
         Counters of work do not depend on the machine's load, and show only changes of work.",
        percent(own.noise, 1.0),
        own.goal.words(),
        listed.join(", ")
    ))
}

/// Describes why a change lost at once, or what an unproven verdict lacks.
fn basis_text(side: &ProofSideReport) -> &'static str {
    let last = side.interim_analyses.last();
    let is_by_processor = last.is_some_and(|last| {
        let is_clear = last.effect.low > 1.0 || last.effect.high < 1.0;
        last.support == WorkSupport::SupportedByProcessor && !is_clear
    });
    let unsupported = last.filter(|last| last.support == WorkSupport::Unsupported);
    let is_by_plans = last.is_some_and(|last| last.support == WorkSupport::SupportedByPlans);
    match unsupported {
        _ if side.is_harmful => {
            ": every run with it was far worse than all unchanged ones, so it had no further runs"
        }
        _ if is_by_processor && matches!(side.verdict, Verdict::Won | Verdict::Lost) => {
            BY_PROCESSOR
        }
        _ if is_by_plans && matches!(side.verdict, Verdict::Won | Verdict::Lost) => {
            ": the plans of statements with half of the time changed with it, and chance is ruled out"
        }
        Some(last)
            if side.verdict == Verdict::NotProven
                && (last.effect.low > 1.0 || last.effect.high < 1.0) =>
        {
            ": no counter of work changed with it, so chance must be ruled out by at least three blocks in a random order, which it is not"
        }
        _ if side.verdict == Verdict::NotProven => {
            ": neither a difference beyond the margin nor that there is none could be shown"
        }
        _ if side.verdict == Verdict::Same => ", shown to be within the margin",
        _ => "",
    }
}

/// Describes the verdict on a change in a sentence without a full stop.
pub fn verdict_text(view: &ProofReport, side: &ProofSideReport) -> String {
    let effect = match &side.effect {
        Some(effect) => format!("{} × {}", view.goal.words(), with_interval(effect)),
        None => format!(
            "{}, of which there are too few blocks to say anything",
            view.goal.words()
        ),
    };
    let why = basis_text(side);
    let blocks = match &side.effect {
        Some(_) => format!(" ({})", counted(side.blocks.into(), "block")),
        None => String::new(),
    };
    format!("{}: {effect}{why}{blocks}", one_line(&side.name, 80))
}

fn side_lines(
    view: &ProofReport,
    side: &ProofSideReport,
    room: usize,
    is_short: bool,
    style: TextStyle,
) -> Vec<String> {
    let width = style.columns();
    let tone = match (side.verdict, side.worse) {
        (Verdict::Won | Verdict::Same, false) => Tone::Good,
        (Verdict::Lost, _) => Tone::Bad,
        _ => Tone::Care,
    };
    let sentence = format!(
        "{}  {}",
        side.verdict.name().to_uppercase(),
        verdict_text(view, side)
    );
    let mut lines: Vec<String> = wrapped(&sentence, "", "  ", width)
        .iter()
        .map(|line| style.paint(tone, line))
        .collect();
    for sentence in &side.rewritten {
        lines.extend(wrapped(sentence, "  ", "  ", width));
    }
    if !is_short {
        for (line, number) in numbers(side).iter().zip(&side.numbers) {
            lines.push(match number.moved {
                Some(Movement::Worse) => style.paint(Tone::Bad, &format!("  {line}  worse")),
                _ => format!("  {line}"),
            });
        }
    }
    let slower = named(&side.slower, "got slower", room, style, Tone::Bad);
    let nothing_slower = slower.is_empty();
    lines.extend(slower);
    lines.extend(named(
        &side.suspected,
        "slower, which may be chance",
        room.min(2),
        style,
        Tone::Care,
    ));
    let errors = error_lines(side, room, style);
    let nothing_new = errors.is_empty();
    lines.extend(errors);
    if nothing_slower && nothing_new && side.blocks > 0 {
        lines.push("  no statement was shown to be slower, and no error is new".to_owned());
    }
    lines.extend(named(&side.faster, "got faster", room, style, Tone::Good));
    lines.push(cut(&format!("  {}", other_statements(side)), width));
    lines
}

/// Lists new and more frequent errors.
fn error_lines(side: &ProofSideReport, room: usize, style: TextStyle) -> Vec<String> {
    let worse: Vec<_> = side
        .errors
        .iter()
        .filter(|error| error.regression)
        .collect();
    let mut lines = Vec::new();
    if !worse.is_empty() {
        let head = format!(
            "  {} new or more frequent:",
            counted(worse.len() as u64, "error")
        );
        lines.push(style.paint(Tone::Bad, &head));
        for error in worse.iter().take(room) {
            let line = format!(
                "    {}  {} → {}  {}  {}",
                error.sqlstate,
                count(error.before),
                count(error.after),
                one_line(error.message.as_deref().unwrap_or_default(), 60),
                one_line(error.sql.as_deref().unwrap_or_default(), style.columns())
            );
            lines.push(cut(&line, style.columns()));
        }
        more(&mut lines, worse.len(), room);
    }
    lines
}

/// Counts the statements that are neither slower nor faster, and names the page with all.
fn other_statements(side: &ProofSideReport) -> String {
    let mut rest = vec![format!(
        "{} as before or not told apart",
        counted(side.others, "statement")
    )];
    if side.one_sided > 0 {
        rest.push(format!(
            "{} on one side only",
            counted(side.one_sided, "statement")
        ));
    }
    if side.other_rows > 0 {
        rest.push(format!(
            "{} with other rows than before",
            counted(side.other_rows, "statement")
        ));
    }
    if let Some(page) = &side.page {
        rest.push(format!("all in {page}"));
    }
    rest.join("; ")
}

/// Reason for a verdict that the interval alone does not show.
pub(crate) const BY_PROCESSOR: &str = ": by its work and the server's CPU time, which are clear; the times that clients waited vary too much to show it";

/// Formats an effect with its interval: `0.43 (0.41 – 0.46)`.
pub(crate) fn with_interval(effect: &Effect) -> String {
    format!(
        "{} ({} – {})",
        ratio(effect.ratio),
        ratio(effect.low),
        ratio(effect.high)
    )
}

/// Returns name, before, after and ratio of a number.
pub(crate) fn number_cells(number: &ProofNumber) -> [String; 4] {
    let factor = match &number.effect {
        Some(effect) => format!("× {}", with_interval(effect)),
        None if number.unit == Unit::Share => String::new(),
        None if number.before > 0.0 => format!("× {}", ratio(number.after / number.before)),
        None => String::new(),
    };
    [
        number.label.to_owned(),
        quantity(number.before, number.unit),
        format!("→ {}", quantity(number.after, number.unit)),
        factor,
    ]
}

fn numbers(side: &ProofSideReport) -> Vec<String> {
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Left, Align::Left]);
    for number in &side.numbers {
        table.row(number_cells(number));
    }
    table.lines()
}

fn named(
    statements: &[StatementComparison],
    what: &str,
    room: usize,
    style: TextStyle,
    tone: Tone,
) -> Vec<String> {
    if statements.is_empty() {
        return Vec::new();
    }
    let head = format!(
        "  {} {what}:",
        counted(statements.len() as u64, "statement")
    );
    let mut lines = vec![style.paint(tone, &head)];
    for statement in statements.iter().take(room) {
        lines.push(cut(
            &format!("    {}", statement_text(statement)),
            style.columns(),
        ));
    }
    more(&mut lines, statements.len(), room);
    lines
}

pub(super) fn more(lines: &mut Vec<String>, all: usize, shown: usize) {
    if all > shown {
        lines.push(format!("    and {} more", all - shown));
    }
}

/// Describes a statement with the ratio that its finding rests on.
pub(crate) fn statement_text(statement: &StatementComparison) -> String {
    let times = &statement.service;
    let measure = times.finding.measure().unwrap_or(Measure::Mean);
    let factor = times.ratio(measure).map_or_else(
        || "–".to_owned(),
        |found| match found.interval {
            Some(interval) => format!(
                "{} ({} – {})",
                ratio(found.value),
                ratio(interval.low),
                ratio(interval.high)
            ),
            None => ratio(found.value),
        },
    );
    format!(
        "{} time × {factor}, {} calls: {}",
        measure.name(),
        count(statement.calls_after),
        one_line(statement.sql.as_deref().unwrap_or_default(), usize::MAX)
    )
}
