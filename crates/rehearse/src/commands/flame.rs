//! `rehearse flame`: writes CPU samples or wait samples as a flame graph, also that of the difference of two profiles, or as
//! a file for another program.

use std::path::Path;

use report::flame::{
    ExportedProfile, ExportedStack, ExportedStatement, FlameKind, FlameTitles, SampledQuantity,
    WAIT_UNIT, difference, exported_waits, flame_difference_svg, flame_page, flame_svg,
    folded_waits, pprof, speedscope, wait_notes,
};

use crate::exit_status::ExitStatus;
use crate::options::profiling::{Flame, FlameFormat};
use crate::terminal;
use study::Failure;
use study::profile_samples::{SampleFilter, sampled_profile};
use study::wait_samples::wait_samples;

/// Writes the file.
pub fn run(options: &Flame) -> Result<ExitStatus, Failure> {
    let named = FlameFormat::of_name(&options.output);
    if let (Some(given), Some(named)) = (options.format, named)
        && given != named
    {
        return Err(Failure::usage(format!(
            "--format and the name {} stand for different formats; leave out --format or choose another name",
            options.output.display()
        )));
    }
    let format = options.format.or(named);
    let Some(format) = format else {
        return Err(Failure::usage(format!(
            "-o {} does not say what to write; give a name that ends in .svg, .html, .folded, .pb.gz or .speedscope.json, or --format",
            options.output.display()
        )));
    };
    let (content, notes) = match format {
        FlameFormat::Pprof | FlameFormat::Speedscope => export(format, options)?,
        FlameFormat::Svg | FlameFormat::Html | FlameFormat::Folded => draw(format, options)?,
    };
    std::fs::write(&options.output, content).map_err(|error| {
        Failure::could_not(format!(
            "{} cannot be written: {error}",
            options.output.display()
        ))
    })?;
    for note in &notes {
        terminal::note(note);
    }
    terminal::note(&format!("{} is written.", options.output.display()));
    Ok(ExitStatus::Success)
}

/// Draws the graph of one run, or of the difference of two. Returns it with the notes for the reader.
fn draw(format: FlameFormat, options: &Flame) -> Result<(Vec<u8>, Vec<String>), Failure> {
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
        [] => match format {
            FlameFormat::Folded => Ok(folded.join("\n") + "\n"),
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
            match format {
                FlameFormat::Folded => difference(&folded, &after.folded, of),
                _ => flame_difference_svg(&folded, &after.folded, &titles),
            }
        }
    };
    let drawn = drawn.map_err(|error| {
        Failure::could_not(format!(
            "there is nothing to draw of what was chosen: {error}"
        ))
    })?;
    let drawn = match format {
        FlameFormat::Html => flame_page(&drawn, &titles),
        _ => drawn,
    };
    Ok((drawn.into_bytes(), titles.notes))
}

/// Returns the profile of one run for another program, with the notes for the reader.
fn export(format: FlameFormat, options: &Flame) -> Result<(Vec<u8>, Vec<String>), Failure> {
    let [run] = &options.runs[..] else {
        return Err(Failure::usage(
            "a file for pprof or speedscope has the profile of one run; write one file for each run, and let pprof compare them: go tool pprof -diff_base before.pb.gz after.pb.gz",
        ));
    };
    let profile = load_profile(run, options)?;
    if profile.stacks.is_empty() {
        return Err(Failure::could_not(
            "there is no sample of what was chosen; choose more",
        ));
    }
    let content = match format {
        FlameFormat::Pprof => pprof(&profile).map_err(|error| {
            Failure::could_not(format!("the profile cannot be compressed: {error}"))
        })?,
        _ => speedscope(&profile).into_bytes(),
    };
    Ok((content, profile.notes))
}

fn load_profile(run: &Path, options: &Flame) -> Result<ExportedProfile, Failure> {
    let choice = SampleFilter::from(&options.choice);
    let name = run.display().to_string();
    if options.off_cpu {
        let samples = wait_samples(run, &choice)?;
        let waiting = &samples.waiting;
        return Ok(ExportedProfile {
            name,
            notes: wait_notes(waiting),
            started_wall_us: samples.started_wall_us,
            duration_ns: waiting.sampled_ns as i64,
            quantity: SampledQuantity::Wait,
            period_ns: (waiting.sampled_ns / waiting.samples.max(1) as f64) as i64,
            stacks: exported_waits(waiting, &samples.texts),
        });
    }
    let sampled = sampled_profile(run, &choice)?;
    let stacks = sampled.stacks.iter().map(|stack| {
        let statement = stack.statement.map(|fingerprint| {
            let text = sampled.texts.get(&fingerprint);
            ExportedStatement::new(fingerprint, text.map(|text| text.sql.as_str()))
        });
        let ns = stack.samples as f64 * sampled.sample_ns;
        ExportedStack::of_folded(&stack.frames, statement, (stack.samples, ns))
    });
    Ok(ExportedProfile {
        name,
        notes: sampled.notes,
        started_wall_us: sampled.started_wall_us,
        duration_ns: sampled.duration_ns,
        quantity: SampledQuantity::Processor,
        period_ns: sampled.period_ns,
        stacks: stacks.collect(),
    })
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
        let sampled = sampled_profile(run, &choice)?;
        return Ok(FlameStacks {
            folded: sampled.folded(),
            notes: sampled.notes,
        });
    }
    let samples = wait_samples(run, &choice)?;
    Ok(FlameStacks {
        folded: folded_waits(&samples.waiting, &samples.texts),
        notes: wait_notes(&samples.waiting),
    })
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
