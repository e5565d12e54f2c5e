//! Error rates and power of a proof, on synthetic runs.

use super::*;
use statistics::SplitMix64;

struct Normal(SplitMix64);

impl Normal {
    fn next(&mut self) -> f64 {
        let mut uniform = || (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        (0..12).map(|_| uniform()).sum::<f64>() - 6.0
    }
}

/// Noise of the runs of one server.
#[derive(Clone, Copy)]
struct Noise {
    /// Standard deviation between runs.
    run: f64,
    /// Standard deviation between blocks.
    block: f64,
    /// Correlation of neighbouring runs, from 0 to 1.
    alike: f64,
    /// Slowdown of each run relative to the previous one.
    drift: f64,
}

const CALM: Noise = Noise {
    run: 0.03,
    block: 0.0,
    alike: 0.0,
    drift: 0.0,
};

/// Simulates a proof of up to `blocks` blocks that stops at a clear verdict, of a change by
/// `factor`.
fn prove(seed: u64, blocks: u32, factor: f64, noise: Noise, margin: f64) -> (Verdict, Effect) {
    let mut normal = Normal(SplitMix64::new(seed));
    let (mut done, mut rest, mut drift) = (Vec::new(), 0.0, 0.0);
    let looks = plan_interim_looks(blocks);
    let mut last = None;
    for look in looks {
        while (done.len() as u32) < look.blocks {
            let shift = noise.block * normal.next();
            let mut run = |changed: bool| {
                let fresh = (1.0 - noise.alike * noise.alike).sqrt() * noise.run * normal.next();
                rest = noise.alike * rest + fresh;
                drift += noise.drift;
                (5.0 + shift + rest + drift).exp() * if changed { factor } else { 1.0 }
            };
            let begins_changed = done.len() % 2 == 1;
            let first = run(begins_changed);
            let middle = [run(!begins_changed), run(!begins_changed)];
            let outer = [first, run(begins_changed)];
            let (before, after) = if begins_changed {
                (middle, outer)
            } else {
                (outer, middle)
            };
            done.push(PairedBlock { before, after });
        }
        let effect = effect(&done, look.error).unwrap();
        let verdict = verdict(&effect, Goal::Total, margin);
        last = Some((verdict, effect));
        if verdict.is_clear() {
            break;
        }
    }
    last.unwrap()
}

fn share(tries: u64, is: impl Fn(u64) -> bool) -> f64 {
    (0..tries).filter(|&seed| is(seed)).count() as f64 / tries as f64
}

#[test]
fn looks_spend_the_whole_error() {
    assert!(plan_interim_looks(0).is_empty() && plan_interim_looks(1).is_empty());
    for blocks in [2, 3, 4, 7, 16, 40] {
        let looks = plan_interim_looks(blocks);
        assert_eq!(looks.last().unwrap().blocks, blocks);
        assert!(looks.windows(2).all(|two| two[0].blocks < two[1].blocks));
        let dealt: f64 = looks.iter().map(|look| look.error).sum();
        assert!((dealt - ERROR).abs() < 1e-12, "{looks:?}");
        let last = looks.last().unwrap();
        assert!((last.error - last.last_error).abs() < 1e-12);
    }
}

#[test]
fn unchanged_server_is_rarely_won_or_lost() {
    let noises = [
        CALM,
        Noise { run: 0.10, ..CALM },
        Noise { block: 0.2, ..CALM },
        Noise {
            alike: 0.8,
            run: 0.10,
            ..CALM
        },
        Noise {
            drift: 0.02,
            ..CALM
        },
    ];
    for noise in noises {
        for blocks in [2, 6, 12] {
            // Without a margin an error is an interval that misses the truth: 5 % are promised.
            let wrong = share(2_000, |seed| {
                let (_, effect) = prove(seed, blocks, 1.0, noise, 0.0);
                effect.low > 1.0 || effect.high < 1.0
            });
            assert!(wrong < 0.06, "{wrong} of {blocks} blocks");
        }
    }
    let wrong = share(2_000, |seed| {
        let verdict = prove(seed, 8, 1.0, Noise { run: 0.10, ..CALM }, 0.05).0;
        matches!(verdict, Verdict::Won | Verdict::Lost)
    });
    assert!(wrong < 0.01, "{wrong}");
}

#[test]
fn change_beyond_the_margin_is_rarely_misjudged() {
    // Just beyond the margin: neither same nor lost is true.
    let wrong = share(2_000, |seed| {
        let verdict = prove(seed, 12, 1.0 / 1.051, CALM, 0.05).0;
        matches!(verdict, Verdict::Same | Verdict::Lost)
    });
    assert!(wrong < 0.06, "{wrong}");
}

#[test]
fn effects_are_found_and_large_ones_early() {
    let won = |factor, blocks| {
        share(500, |seed| {
            prove(seed, blocks, factor, CALM, 0.05).0 == Verdict::Won
        })
    };
    assert!(won(0.5, 6) > 0.999, "{}", won(0.5, 6));
    assert!(won(0.85, 8) > 0.95, "{}", won(0.85, 8));
    let lost = share(500, |seed| {
        prove(seed, 8, 1.2, CALM, 0.05).0 == Verdict::Lost
    });
    assert!(lost > 0.95, "{lost}");
    let calm = Noise { run: 0.01, ..CALM };
    let same = share(500, |seed| {
        prove(seed, 8, 1.0, calm, 0.05).0 == Verdict::Same
    });
    assert!(same > 0.99, "{same}");
    let early = share(500, |seed| prove(seed, 12, 0.5, CALM, 0.05).1.blocks == 2);
    assert!(early > 0.95, "{early}");
}

#[test]
fn block_differences_do_not_affect_power() {
    let noise = Noise { block: 0.5, ..CALM };
    let won = share(500, |seed| {
        prove(seed, 8, 0.85, noise, 0.05).0 == Verdict::Won
    });
    assert!(won > 0.95, "{won}");
}

#[test]
fn more_is_better_only_for_throughput() {
    let block = PairedBlock {
        before: [100.0, 101.0],
        after: [200.0, 202.0],
    };
    let effect = effect(&[block, block], 0.05).unwrap();
    assert!((effect.ratio - 2.0).abs() < 1e-9, "{effect:?}");
    assert_eq!(verdict(&effect, Goal::Throughput, 0.05), Verdict::Won);
    assert_eq!(verdict(&effect, Goal::Total, 0.05), Verdict::Lost);
    for goal in Goal::ALL {
        assert_eq!(goal.name().parse(), Ok(goal));
    }
    assert!("p98".parse::<Goal>().unwrap_err().contains("give total"));
}

#[test]
fn insufficient_blocks_have_no_effect() {
    let block = PairedBlock {
        before: [1.0, 2.0],
        after: [1.0, 2.0],
    };
    assert_eq!(effect(&[block], 0.05), None);
    let none = PairedBlock {
        after: [0.0, 1.0],
        ..block
    };
    assert_eq!(effect(&[block, none], 0.05), None);
    // Equal to the last digit: there is still an interval.
    let equal = PairedBlock {
        before: [3.0; 2],
        after: [3.0; 2],
    };
    let effect = effect(&[equal, equal], 0.05).unwrap();
    assert!(effect.low < 1.0 && effect.high > 1.0 && effect.high < 1.001);
}
