//! Start of a replay that follows a series while it is being captured.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use clock::{Clock, SystemClock, duration_text, utc_text};
use replay::FollowOptions;
use workload::Keyring;
use workload::series::{Series, SeriesInfo, SeriesPart, SeriesState};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::notes::note;

/// Interval of looks for a part.
const PART_INTERVAL: Duration = Duration::from_millis(200);
/// Least time for completing a part, in microseconds.
const MARGIN_US: i64 = 1_000_000;
/// Time for completing a part, as the inverse of its share of the part's length.
const MARGIN_SHARE_INVERSE: i64 = 20;

/// Series to follow.
#[derive(Debug, Clone)]
pub struct FollowRequest {
    /// Path of the series.
    pub series: PathBuf,
    /// Keys for encrypted parts.
    pub keyring: Keyring,
    /// Delay; without one, the least that the series allows.
    pub delay: Option<Duration>,
    /// Greatest lag of a session.
    pub lag_max: Duration,
    /// Time after which the replay ends.
    pub duration: Option<Duration>,
}

/// Chooses the part with which a replay begins, and the delay. Waits until there is such a part. Returns the path of the
/// part as well; `None` if a stop was requested before.
///
/// # Errors
/// If it is no series, nothing follows in it, or the delay is too short.
pub fn begin_following(
    request: &FollowRequest,
    interrupt: &Interrupt,
) -> Result<Option<(FollowOptions, PathBuf)>, Failure> {
    if archive::is_object_url(&request.series) {
        return Err(Failure::usage(format!(
            "--follow reads a series from a disk, where its capture writes it, and {} is in an object store; give its path",
            request.series.display()
        )));
    }
    if !Series::is_series(&request.series) {
        return Err(Failure::usage(format!(
            "--follow needs a series, and {} is none; capture one with --roll, or replay without --follow",
            request.series.display()
        )));
    }
    let info = SeriesInfo::read(&request.series)?;
    let least_us = least_delay_us(&info);
    let wanted_us = request.delay.map(microseconds);
    if let Some(wanted_us) = wanted_us.filter(|wanted_us| *wanted_us < least_us) {
        return Err(Failure::usage(format!(
            "--delay {} is too short for {}: a part is complete that time after its first statement, at the latest; give --delay {} or more, or capture with a shorter --roll",
            duration_text(wanted_us.saturating_mul(1_000)),
            request.series.display(),
            seconds_text(least_us)
        )));
    }
    refuse_delay_beyond_retention(request, &info, wanted_us.unwrap_or(least_us))?;
    let clock = SystemClock::start();
    let mut is_waiting = false;
    while !interrupt.is_requested() {
        let series = Series::open(&request.series)?;
        if series.info.state == SeriesState::Complete && !series.is_being_captured() {
            return Err(Failure::usage(format!(
                "{} is complete, so nothing follows in it; replay it without --follow",
                request.series.display()
            )));
        }
        let now_us = clock.wall_us();
        let age_max_us = least_us.saturating_add(series.info.roll_us);
        let chosen = choose_part(&series.parts, now_us, (least_us, age_max_us), wanted_us);
        if let Some((part, delay_us)) = chosen {
            note(&format!(
                "Following {} from {}, {} after the capture.",
                request.series.display(),
                utc_text(part.member.from_us),
                duration_text(delay_us.saturating_mul(1_000))
            ));
            let options = FollowOptions {
                series: request.series.clone(),
                uuid: series.info.uuid,
                keyring: request.keyring.clone(),
                first_part: part.member.number,
                delay: Duration::from_micros(delay_us.unsigned_abs()),
                lag_max: request.lag_max,
                duration: request.duration,
            };
            return Ok(Some((options, part.path.clone())));
        }
        if !is_waiting {
            is_waiting = true;
            note(&format!(
                "Waiting for a complete part of {}, for at most about {}.",
                request.series.display(),
                duration_text(least_us.saturating_mul(1_000))
            ));
        }
        thread::sleep(PART_INTERVAL);
    }
    Ok(None)
}

/// Returns the id of a series, or `None` if the path is no series.
///
/// # Errors
/// If the series cannot be read.
pub fn series_id(path: &Path) -> Result<Option<String>, Failure> {
    match Series::is_series(path) {
        true => Ok(Some(SeriesInfo::read(path)?.uuid)),
        false => Ok(None),
    }
}

/// Refuses a delay after which parts are removed already.
fn refuse_delay_beyond_retention(
    request: &FollowRequest,
    series: &SeriesInfo,
    delay_us: i64,
) -> Result<(), Failure> {
    let limit_us = series.retention.for_us.unwrap_or(i64::MAX);
    match delay_us < limit_us {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "{} keeps its parts for {}, and they would be replayed {} after the capture, when they are removed; give a shorter --delay, or capture with a longer --keep-for",
            request.series.display(),
            duration_text(limit_us.saturating_mul(1_000)),
            duration_text(delay_us.saturating_mul(1_000))
        ))),
    }
}

/// Returns the least delay, in microseconds: the length of a part, the time that statements may still run, and a margin in
/// which the part is completed.
fn least_delay_us(series: &SeriesInfo) -> i64 {
    let margin_us = (series.roll_us / MARGIN_SHARE_INVERSE).max(MARGIN_US);
    series
        .roll_us
        .saturating_add(series.wait_us)
        .saturating_add(margin_us)
}

/// Returns the first part to replay, and the delay in microseconds. With a delay that is given, it is the first part whose
/// start is not due yet. Otherwise it is the newest part, and the delay makes it due now. A part that began earlier than
/// `age_max_us` ago is of an earlier capture: its delay would be that of the gap.
fn choose_part(
    parts: &[SeriesPart],
    now_us: i64,
    (least_us, age_max_us): (i64, i64),
    wanted_us: Option<i64>,
) -> Option<(&SeriesPart, i64)> {
    match wanted_us {
        Some(delay_us) => {
            let is_ahead =
                |part: &&SeriesPart| part.member.from_us.saturating_add(delay_us) >= now_us;
            Some((parts.iter().find(is_ahead)?, delay_us))
        }
        None => {
            let newest = parts.last()?;
            let age_us = now_us.saturating_sub(newest.member.from_us);
            (age_us <= age_max_us).then(|| (newest, least_us.max(age_us.saturating_add(MARGIN_US))))
        }
    }
}

fn microseconds(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// Returns a time as an option takes it: whole seconds, rounded up.
fn seconds_text(us: i64) -> String {
    format!("{}s", us.unsigned_abs().div_ceil(1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::SeriesMember;

    const SECOND_US: i64 = 1_000_000;

    fn parts(starts_s: &[i64]) -> Vec<SeriesPart> {
        (1..)
            .zip(starts_s)
            .map(|(number, start_s)| SeriesPart {
                path: PathBuf::from(number.to_string()),
                member: SeriesMember {
                    uuid: "u".to_owned(),
                    number,
                    from_us: start_s * SECOND_US,
                    to_us: (start_s + 60) * SECOND_US,
                },
            })
            .collect()
    }

    #[test]
    fn first_part_is_the_newest_one_or_that_of_the_given_delay() {
        let parts = parts(&[0, 60, 120]);
        let choose = |now_s: i64, wanted_s: Option<i64>| {
            let wanted_us = wanted_s.map(|wanted_s| wanted_s * SECOND_US);
            let chosen = choose_part(
                &parts,
                now_s * SECOND_US,
                (70 * SECOND_US, 130 * SECOND_US),
                wanted_us,
            );
            chosen.map(|(part, delay_us)| (part.member.number, delay_us / SECOND_US))
        };
        // The newest part is due at once, unless the next one would not be complete in time.
        assert_eq!(choose(185, None), Some((3, 70)));
        assert_eq!(choose(230, None), Some((3, 111)));
        // A capture that was continued has no part yet.
        assert_eq!(choose(251, None), None);
        assert_eq!(choose(185, Some(130)), Some((2, 130)));
        assert_eq!(choose(185, Some(70)), Some((3, 70)));
        assert_eq!(choose(195, Some(70)), None);
    }
}
