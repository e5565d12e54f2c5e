//! Page of a running replay: position, rates and the most expensive statements. The page itself has
//! no data; its script reads the event stream ([`LiveView`](crate::LiveView) first, then
//! [`LiveStepView`](crate::LiveStepView)).

use askama::Template;
use serde::Serialize;

use super::data::script_json;
use super::frame::{Frame, render};
use crate::text::line::one_line;
use crate::view::live::LiveReplayView;

#[derive(Template)]
#[template(path = "live.html")]
struct Page {
    frame: Frame,
    name: String,
    against: String,
    run: String,
    can_stop: bool,
}

/// Additional data for the page's script, other than the stream.
#[derive(Serialize)]
struct PageData<'a> {
    replay: &'a LiveReplayView,
    secret: Option<&'a str>,
}

/// Renders the page of a replay. With a secret it has a button that stops the replay.
pub fn render_html(replay: &LiveReplayView, secret: Option<&str>) -> String {
    let version = match replay.server_version.as_str() {
        "" => String::new(),
        version => format!(" (PostgreSQL {version})"),
    };
    let speed = replay.options.iter().find(|(name, _)| name == "speed");
    let speed = speed.map_or_else(String::new, |(_, speed)| format!(" at speed {speed}"));
    let page = Page {
        frame: Frame::new(vec![(
            "data-page",
            script_json(&PageData { replay, secret }),
        )]),
        name: one_line(last_part(&replay.workload), 200),
        against: one_line(&format!("{}{version}{speed}", replay.target), 300),
        run: one_line(last_part(&replay.run), 200),
        can_stop: secret.is_some(),
    };
    render(&page)
}

/// Returns the last part of a path, because the page's heading is short.
fn last_part(path: &str) -> &str {
    let whole = path.trim_end_matches('/');
    whole.rsplit('/').next().unwrap_or(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replay() -> LiveReplayView {
        LiveReplayView {
            workload: "/data/<b>monday</b>.workload/".to_owned(),
            run: "runs/a.run".to_owned(),
            target: "copy:5432".to_owned(),
            server_version: "16.2".to_owned(),
            options: vec![("speed".to_owned(), "2".to_owned())],
            started_wall_us: 0,
            span_us: None,
            is_timed: true,
            statements: 12,
        }
    }

    #[test]
    fn live_page_stops_only_with_the_secret_and_escapes_names() {
        let page = render_html(&replay(), Some("5ec2e7"));
        assert!(page.contains("\"secret\":\"5ec2e7\"") && page.contains("id=\"stop\""));
        assert!(page.contains("copy:5432 (PostgreSQL 16.2) at speed 2, into a.run"));
        assert!(!page.contains("<b>monday"), "names are no markup");
        assert!(page.contains("connect-src 'self'"));
        assert!(!page.contains("http://") && !page.contains("https://"));
        let page = render_html(&replay(), None);
        assert!(page.contains("\"secret\":null") && !page.contains("id=\"stop\""));
        assert!(!page.contains("id=\"stopping\""));
    }

    #[test]
    fn heading_has_the_last_part_of_a_path() {
        assert_eq!(last_part("/data/a.workload/"), "a.workload");
        assert_eq!(last_part("a.workload"), "a.workload");
        assert_eq!(last_part("/"), "");
    }
}
