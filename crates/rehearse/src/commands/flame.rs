//! `rehearse flame`: draws a flame graph of CPU samples or wait samples, or of the difference of
//! two profiles.

use std::path::Path;

use report::flame::{
    FlameKind, FlameTitles, WAIT_UNIT, difference, flame_difference_svg, flame_page, flame_svg,
    folded_waits, wait_notes,
};

use crate::exit_status::ExitStatus;
use crate::options::profiling::Flame;
use crate::terminal;
use study::Failure;
use study::profile_samples::{SampleFilter, folded_stacks};
use study::wait_samples::wait_samples;

/// Draws the flame graph into a file.
pub fn run(options: &Flame) -> Result<ExitStatus, Failure> {
    let extension = options.output.extension().and_then(|name| name.to_str());
    let form = match extension {
        Some("svg") => Form::Svg,
        Some("html" | "htm") => Form::Page,
        Some("folded") => Form::Folded,
        _ => {
            return Err(Failure::usage(format!(
                "-o {} does not say what to write; give a name that ends in .svg, .html or .folded",
                options.output.display()
            )));
        }
    };
    let [first, rest @ ..] = &options.runs[..] else {
        return Err(Failure::usage("no run is given; give one, or two"));
    };
    let drawn = load_stacks(first, options)?;
    let (of, what, unit) = match options.off_cpu {
        true => (FlameKind::Waiting, "Waiting in", WAIT_UNIT),
        false => (FlameKind::Processor, "Processor time of", "samples"),
    };
    let mut titles = FlameTitles {
        title: format!("{what} {}", first.display()),
        subtitle: chosen(&SampleFilter::from(&options.choice)),
        unit: unit.to_owned(),
        notes: drawn.notes,
        kind: of,
    };
    let folded = drawn.folded;
    let drawn = match rest {
        [] => match form {
            Form::Folded => Ok(folded.join("\n") + "\n"),
            _ => flame_svg(&folded, &titles),
        },
        [second, ..] => {
            let after = load_stacks(second, options)?;
            titles.title = format!(
                "{what} {} compared with {}: red has more, blue has less",
                second.display(),
                first.display()
            );
            titles.notes = titles
                .notes
                .iter()
                .map(|note| format!("Before: {note}"))
                .chain(after.notes.iter().map(|note| format!("After: {note}")))
                .collect();
            match form {
                Form::Folded => difference(&folded, &after.folded, of),
                _ => flame_difference_svg(&folded, &after.folded, &titles),
            }
        }
    };
    let drawn = drawn.map_err(|error| {
        Failure::could_not(format!(
            "there is nothing to draw of what was chosen: {error}"
        ))
    })?;
    let drawn = match form {
        Form::Page => flame_page(&drawn, &titles),
        Form::Svg | Form::Folded => drawn,
    };
    std::fs::write(&options.output, drawn).map_err(|error| {
        Failure::could_not(format!(
            "{} cannot be written: {error}",
            options.output.display()
        ))
    })?;
    for note in &titles.notes {
        terminal::note(note);
    }
    terminal::note(&format!("{} is written.", options.output.display()));
    Ok(ExitStatus::Success)
}

/// Stacks to draw.
struct FlameStacks {
    folded: Vec<String>,
    /// Notes for the reader.
    notes: Vec<String>,
}

fn load_stacks(run: &Path, options: &Flame) -> Result<FlameStacks, Failure> {
    let choice = SampleFilter::from(&options.choice);
    if !options.off_cpu {
        return Ok(FlameStacks {
            folded: folded_stacks(run, &choice)?,
            notes: Vec::new(),
        });
    }
    let samples = wait_samples(run, &choice)?;
    Ok(FlameStacks {
        folded: folded_waits(&samples.waiting, &samples.texts),
        notes: wait_notes(&samples.waiting),
    })
}

/// Formats of the output file.
#[derive(Clone, Copy)]
enum Form {
    Svg,
    Page,
    Folded,
}

fn chosen(choice: &SampleFilter) -> String {
    let named = [
        ("statement", &choice.statement),
        ("role", &choice.user),
        ("database", &choice.database),
    ];
    let named = named.iter().filter_map(|(what, value)| {
        let value = value.as_ref()?;
        Some(format!("{what} {value}"))
    });
    named.collect::<Vec<_>>().join(", ")
}
