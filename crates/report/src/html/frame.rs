//! Frame that all pages share.

use askama::Template;

/// Values of the frame template (`templates/frame.html`).
pub(super) struct Frame {
    pub(super) version: &'static str,
    /// Data for scripts: the element's id and its JSON.
    pub(super) data: Vec<(&'static str, String)>,
}

impl Frame {
    pub(super) fn new(data: Vec<(&'static str, String)>) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            data,
        }
    }
}

/// Renders the page as HTML. Comments and indentation are removed from scripts.
pub(super) fn render(page: &impl Template) -> String {
    let html = page.render().expect("rendering into a text does not fail");
    let (before, script) = html.rsplit_once("<script>").expect("the frame has one");
    let lines = script.lines().map(str::trim);
    let code = lines.filter(|line| !line.is_empty() && !line.starts_with("//"));
    let code: Vec<&str> = code.collect();
    format!("{before}<script>\n{}\n", code.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Template)]
    #[template(
        source = "<p>// text</p>\n<script>\n  // note\n\n  if (a) {\n    b('//c');\n  }\n</script>",
        ext = "html"
    )]
    struct Page;

    #[test]
    fn render_script_is_without_comments_and_indentation() {
        assert_eq!(
            render(&Page),
            "<p>// text</p>\n<script>\nif (a) {\nb('//c');\n}\n</script>\n"
        );
    }
}
