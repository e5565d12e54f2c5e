//! `rehearse flame`: a profile, or the difference of two, as a flame graph.

use std::collections::HashMap;
use std::path::Path;

use report::flame::{FlameTitles, difference, flame_difference_svg, flame_page, flame_svg};
use run::RunReader;

use crate::commands::profiled::Profiled;
use crate::ending::{Ending, Failure};
use crate::options::profiling::{ChoiceArgs, Flame};
use crate::terminal;

/// Draws it into a file.
pub fn run(options: &Flame) -> Result<Ending, Failure> {
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
    let folded = folded(first, &options.choice)?;
    let mut titles = FlameTitles {
        title: format!("Processor time of {}", first.display()),
        subtitle: chosen(&options.choice),
        unit: "samples".to_owned(),
    };
    let drawn = match rest {
        [] => match form {
            Form::Folded => Ok(folded.join("\n") + "\n"),
            _ => flame_svg(&folded, &titles),
        },
        [second, ..] => {
            let after = self::folded(second, &options.choice)?;
            titles.title = format!(
                "{} beside {}: red has more, blue has less",
                second.display(),
                first.display()
            );
            match form {
                Form::Folded => difference(&folded, &after),
                _ => flame_difference_svg(&folded, &after, &titles),
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
    terminal::note(&format!("{} is written.", options.output.display()));
    Ok(Ending::Done)
}

/// What a file is to be.
#[derive(Clone, Copy)]
enum Form {
    Svg,
    Page,
    Folded,
}

fn chosen(choice: &ChoiceArgs) -> String {
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

/// The stacks of a run, each with the number of its samples.
fn folded(run: &Path, choice: &ChoiceArgs) -> Result<Vec<String>, Failure> {
    let reader = RunReader::open(run)?;
    let profiled = Profiled::open(reader, choice)?;
    let mut samples: HashMap<u64, u64> = HashMap::new();
    profiled.each(|stack, _| *samples.entry(stack).or_default() += 1)?;
    let stacks = profiled.stacks()?;
    let mut folded: Vec<String> = samples
        .into_iter()
        .filter_map(|(stack, count)| Some(format!("{} {count}", stacks.get(stack as usize)?)))
        .collect();
    folded.sort_unstable();
    Ok(folded)
}
