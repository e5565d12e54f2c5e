//! Page in a browser, with a user's actions: reading, clicking, typing, printing.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::chromium::Browser;

/// Environment variable with the directory for screenshots.
const PICTURES: &str = "REHEARSE_TEST_PICTURES";

/// Open page.
pub struct Tab {
    browser: Browser,
    address: String,
}

impl Tab {
    /// Opens a page from a file. `None` without a browser.
    pub fn open(html: &str) -> Option<Self> {
        let browser = Browser::start()?;
        let file = browser.file("page.html");
        std::fs::write(&file, html).unwrap();
        let address = format!("file://{}", file.display());
        Some(Self::at(browser, address))
    }

    /// Opens a page that is served at an address. `None` without a browser.
    pub fn visit(address: &str) -> Option<Self> {
        Some(Self::at(Browser::start()?, address.to_owned()))
    }

    fn at(mut browser: Browser, address: String) -> Self {
        browser.call(
            "Emulation.setFocusEmulationEnabled",
            json!({"enabled": true}),
        );
        let mut tab = Self { browser, address };
        tab.size(1_280, 800);
        tab.go("");
        tab
    }

    /// Reloads the page at a fragment, such as `#statements`.
    pub fn go(&mut self, place: &str) {
        // A browser only reloads if the address changes.
        self.browser
            .call("Page.navigate", json!({"url": "about:blank"}));
        self.browser.wait_for("Page.loadEventFired");
        let address = format!("{}{place}", self.address);
        self.browser.call("Page.navigate", json!({"url": address}));
        self.browser.wait_for("Page.loadEventFired");
    }

    /// Evaluates an expression and returns its value as JSON.
    pub fn eval(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let mut answer = self.browser.call("Runtime.evaluate", params);
        let thrown = &answer["exceptionDetails"];
        assert!(thrown.is_null(), "{expression}: {thrown}");
        answer["result"]["value"].take()
    }

    /// Evaluates a boolean expression.
    pub fn is(&mut self, expression: &str) -> bool {
        self.eval(expression).as_bool().expect(expression)
    }

    /// Evaluates an expression that is a whole number.
    pub fn number(&mut self, expression: &str) -> i64 {
        let value = self.eval(expression);
        value.as_f64().expect(expression) as i64
    }

    /// Returns the text of an element.
    pub fn text(&mut self, selector: &str) -> String {
        let text = self.eval(&format!(
            "document.querySelector({})?.innerText",
            json!(selector)
        ));
        let text = text.as_str();
        text.unwrap_or_else(|| panic!("there is no {selector}"))
            .to_owned()
    }

    /// Whether an element is visible without scrolling.
    pub fn seen(&mut self, selector: &str) -> bool {
        self.is(&format!(
            "(() => {{ const box = document.querySelector({}).getBoundingClientRect();
            return box.width > 0 && box.height > 0 && box.top >= 0 && box.bottom <= innerHeight && box.left >= 0 && box.right <= innerWidth; }})()",
            json!(selector)
        ))
    }

    /// Clicks the mouse in the middle of an element.
    pub fn click(&mut self, selector: &str) {
        let at = self.eval(&format!(
            "(() => {{ const one = document.querySelector({}); if (!one) return null;
            one.scrollIntoView({{block: 'center', behavior: 'instant'}});
            const box = one.getBoundingClientRect(); return [box.left + box.width / 2, box.top + box.height / 2]; }})()",
            json!(selector)
        ));
        assert!(at.is_array(), "there is no {selector}");
        for kind in ["mousePressed", "mouseReleased"] {
            let event =
                json!({"type": kind, "x": at[0], "y": at[1], "button": "left", "clickCount": 1});
            self.browser.call("Input.dispatchMouseEvent", event);
        }
    }

    /// Presses a key, by its name: `Tab`, `Enter`, `ArrowDown`.
    pub fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "Tab" => (9, ""),
            "Enter" => (13, "\r"),
            "Escape" => (27, ""),
            "ArrowLeft" => (37, ""),
            "ArrowUp" => (38, ""),
            "ArrowRight" => (39, ""),
            "ArrowDown" => (40, ""),
            one if one.len() == 1 => (0, one),
            other => panic!("the key {other} has no number here"),
        };
        let down = json!({"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text});
        self.browser.call("Input.dispatchKeyEvent", down);
        let up = json!({"type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": code});
        self.browser.call("Input.dispatchKeyEvent", up);
    }

    /// Types into the focused element.
    pub fn write(&mut self, text: &str) {
        self.browser.call("Input.insertText", json!({"text": text}));
    }

    /// Resizes the window.
    pub fn size(&mut self, width: u32, height: u32) {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.browser
            .call("Emulation.setDeviceMetricsOverride", size);
    }

    /// Reloads the page with scripts disabled.
    pub fn without_scripts(&mut self) {
        let params = json!({"value": true});
        self.browser
            .call("Emulation.setScriptExecutionDisabled", params);
        self.go("");
    }

    /// Moves the mouse to a position in an element, in fractions of its width and height.
    pub fn point(&mut self, selector: &str, across: f64, down: f64) {
        let at = self.eval(&format!(
            "(() => {{ const box = document.querySelector({}).getBoundingClientRect();
            return [box.left + box.width * {across}, box.top + box.height * {down}]; }})()",
            json!(selector)
        ));
        let event = json!({"type": "mouseMoved", "x": at[0], "y": at[1]});
        self.browser.call("Input.dispatchMouseEvent", event);
    }

    /// Sets the preferred colour scheme, `light` or `dark`.
    pub fn colours(&mut self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.browser
            .call("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    /// Lays the page out for print on the screen.
    pub fn as_on_paper(&mut self) {
        self.browser
            .call("Emulation.setEmulatedMedia", json!({"media": "print"}));
    }

    /// Takes a screenshot of the visible part, or of the whole page.
    pub fn picture(&mut self, name: &str, whole: bool) -> Vec<u8> {
        // Wait until the next frame is drawn.
        self.eval("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))");
        let params = json!({"format": "png", "captureBeyondViewport": whole});
        let answer = self.browser.call("Page.captureScreenshot", params);
        kept(&format!("{name}.png"), &answer)
    }

    /// Prints the page as PDF.
    pub fn print(&mut self, name: &str) -> Vec<u8> {
        let params = json!({"printBackground": true, "preferCSSPageSize": true});
        let answer = self.browser.call("Page.printToPDF", params);
        kept(&format!("{name}.pdf"), &answer)
    }

    /// Returns the milliseconds from the start of the navigation until the page's scripts have run
    /// and the page is laid out.
    pub fn opened_in_ms(&mut self) -> f64 {
        let timing = self.eval(
            "(() => { document.body.offsetHeight; return performance.getEntriesByType('navigation')[0].loadEventEnd; })()",
        );
        timing.as_f64().unwrap()
    }

    /// Returns all errors so far: exceptions, console output, browser notes, and requests for
    /// anything but the page itself.
    pub fn complaints(&mut self) -> Vec<String> {
        // The answer to this arrives after all earlier notes.
        self.eval("1");
        let browser = &self.browser;
        let exceptions = browser.events("Runtime.exceptionThrown").into_iter();
        let mut found: Vec<String> = exceptions
            .map(|event| format!("exception: {}", event["exceptionDetails"]))
            .collect();
        for event in browser.events("Runtime.consoleAPICalled") {
            found.push(format!("console: {} {}", event["type"], event["args"]));
        }
        for event in browser.events("Log.entryAdded") {
            found.push(format!("log: {}", event["entry"]));
        }
        for event in browser.events("Network.requestWillBeSent") {
            let url = event["request"]["url"].as_str().unwrap_or_default();
            let own = url.starts_with(&self.address) || url == "about:blank";
            if !own && !url.starts_with("data:") {
                found.push(format!("request: {url}"));
            }
        }
        found
    }

    /// Returns the requested addresses.
    pub fn requests(&self) -> Vec<String> {
        let sent = self.browser.events("Network.requestWillBeSent");
        let url = |event: &Value| {
            event["request"]["url"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        sent.into_iter().map(url).collect()
    }

    /// Sets the preference for reduced motion.
    pub fn without_motion(&mut self) {
        let features = json!([{"name": "prefers-reduced-motion", "value": "reduce"}]);
        self.browser
            .call("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    /// Checks that there were no errors.
    #[track_caller]
    pub fn assert_clean(&mut self) {
        assert_eq!(self.complaints(), Vec::<String>::new());
    }

    /// Checks accessibility: text has enough contrast to its background (WCAG 2.2, success
    /// criterion 1.4.3: 4.5 to 1, large text 3 to 1), headings skip no level, and controls have
    /// names.
    #[track_caller]
    pub fn assert_readable(&mut self) {
        let found = self.eval(READABLE);
        assert_eq!(found, json!([]));
    }

    /// Checks that nothing is wider than the window, so that there is no horizontal scrolling, and that no label or bar
    /// is cut.
    #[track_caller]
    pub fn assert_no_sideways_scrolling(&mut self) {
        // Text may be outside of its element's box, so the width of the page is listed, too.
        let wider = self.eval(
            "document.documentElement.scrollWidth <= innerWidth ? [] :
            [`${document.documentElement.scrollWidth} pixels`, ...[...document.querySelectorAll('body *')].filter((one) => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest('.scroll, .plot'))
            .slice(0, 5).map((one) => one.outerHTML.slice(0, 120))]",
        );
        assert_eq!(wider, json!([]));
        assert_eq!(self.eval(CUT), json!([]), "cut");
    }
}

/// Script that returns at most five labels that end with an ellipsis, or labels and bars of charts that are outside of the
/// window. Statements in tables are cut by lines, and a click opens them.
const CUT: &str = r#"[...document.querySelectorAll("body *")].filter((one) => {
    if (!one.getClientRects().length) return false;
    if (getComputedStyle(one).textOverflow === "ellipsis" && one.scrollWidth > one.clientWidth) return true;
    const box = one.getBoundingClientRect();
    return one.matches("svg text, td.bar i") && (box.right > innerWidth + 1 || box.left < -1);
}).slice(0, 5).map((one) => one.outerHTML.slice(0, 120))"#;

/// Script that returns at most ten accessibility faults.
const READABLE: &str = r#"(() => {
    const found = [], parts = (colour) => colour.match(/[\d.]+/g).map(Number);
    const luminance = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)).reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
    const behind = (one) => { for (let at = one; at; at = at.parentElement) { const colour = parts(getComputedStyle(at).backgroundColor); if (colour.length < 4 || colour[3] === 1) return colour; } return [255, 255, 255]; };
    for (const one of document.querySelectorAll("body *")) {
        const own = [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
        if (!own || !one.getClientRects().length || ["SCRIPT", "STYLE"].includes(one.tagName)) continue;
        const style = getComputedStyle(one), text = luminance(parts(one.closest("svg") ? style.fill : style.color)), back = luminance(behind(one));
        const ratio = (Math.max(text, back) + 0.05) / (Math.min(text, back) + 0.05), size = parseFloat(style.fontSize);
        if (ratio < (size >= 24 || (size >= 18.6 && style.fontWeight >= 700) ? 3 : 4.5)) found.push(`contrast ${ratio.toFixed(2)}: ${one.outerHTML.slice(0, 100)}`);
    }
    let level = 0;
    for (const one of document.querySelectorAll("h1, h2, h3, h4")) {
        const now = Number(one.tagName[1]);
        if (now > level + 1) found.push(`heading: ${one.outerHTML}`);
        level = now;
    }
    for (const one of document.querySelectorAll("a, button, input, select, [role=img], [role=group], table")) {
        const name = one.getAttribute("aria-label") || one.innerText || (one.labels && one.labels[0] && one.labels[0].innerText) || (one.caption && one.caption.textContent) || "";
        if (!name.trim() && one.getClientRects().length) found.push(`no name: ${one.outerHTML.slice(0, 100)}`);
    }
    return found.slice(0, 10);
})()"#;

/// Returns the bytes of an answer, and saves them if a directory for screenshots is given.
fn kept(name: &str, answer: &Value) -> Vec<u8> {
    let bytes = STANDARD.decode(answer["data"].as_str().unwrap()).unwrap();
    if let Some(folder) = std::env::var_os(PICTURES) {
        std::fs::write(std::path::Path::new(&folder).join(name), &bytes).unwrap();
    }
    bytes
}
