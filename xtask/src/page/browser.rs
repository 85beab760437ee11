//! Drives a browser: Debian's Chromium by its chromedriver, over the WebDriver protocol.
//!
//! In: the path of a page. Out: results of scripts in the page, pictures, and the console and
//! network logs. Guaranteed: the browser has a new folder, which is removed; both processes are
//! ended.

use anyhow::{Context, Result, bail};
use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The time limit of one request to the browser.
const LIMIT: Duration = Duration::from_secs(120);

/// A page in a browser.
pub(super) struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _profile: TempDir,
}

impl Browser {
    /// Starts the browser.
    pub(super) fn start() -> Result<Self> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let driver = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("chromedriver: apt-get install chromium chromium-driver")?;
        let profile = tempfile::tempdir()?;
        let mut browser = Browser { driver, port, session: String::new(), _profile: profile };
        let folder = format!("--user-data-dir={}", browser._profile.path().display());
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--window-size=1400,1000",
            &folder,
        ];
        let options = json!({"args": arguments});
        let logs = json!({"browser": "ALL", "performance": "ALL"});
        let wanted = json!({"goog:chromeOptions": options, "goog:loggingPrefs": logs});
        let body = json!({"capabilities": {"alwaysMatch": wanted}});
        let begin = Instant::now();
        let answer = loop {
            match browser.ask("POST", "/session", &body) {
                Ok(answer) => break answer,
                Err(error) if begin.elapsed() > LIMIT => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(200)),
            }
        };
        let session = answer.get("sessionId").and_then(Value::as_str).context("no session")?;
        browser.session = format!("/session/{session}");
        Ok(browser)
    }

    /// Opens a page and waits until its script has finished.
    pub(super) fn open(&self, path: &Path) -> Result<()> {
        let url = format!("file://{}", path.display());
        self.call("/url", &json!({"url": url}))?;
        let begin = Instant::now();
        loop {
            let ready = self.run("return document.documentElement.dataset.ready || ''")?;
            match ready.as_str() {
                Some("yes") => return Ok(()),
                Some("") if begin.elapsed() < LIMIT => {
                    std::thread::sleep(Duration::from_millis(50));
                }
                _ => bail!("the page is not drawn: {ready}"),
            }
        }
    }

    /// Runs a script in the page and returns its value.
    pub(super) fn run(&self, script: &str) -> Result<Value> {
        let script = format!("return (async () => {{ {script} }})()");
        self.call("/execute/sync", &json!({"script": script, "args": []}))
    }

    /// Presses keys on the element with the focus.
    pub(super) fn press(&self, keys: &str) -> Result<()> {
        let press = |key: char| {
            [json!({"type": "keyDown", "value": key}), json!({"type": "keyUp", "value": key})]
        };
        let actions: Vec<Value> = keys.chars().flat_map(press).collect();
        let keyboard = json!({"type": "key", "id": "keyboard", "actions": actions});
        self.call("/actions", &json!({"actions": [keyboard]})).map(|_| ())
    }

    /// Makes the system light or dark, or the page printed.
    pub(super) fn emulate(&self, media: &str, scheme: &str) -> Result<()> {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        let params = json!({"media": media, "features": features});
        let body = json!({"cmd": "Emulation.setEmulatedMedia", "params": params});
        self.call("/goog/cdp/execute", &body).map(|_| ())
    }

    /// Writes a picture of the window.
    pub(super) fn picture(&self, path: &Path) -> Result<()> {
        let answer = self.ask("GET", &format!("{}/screenshot", self.session), &Value::Null)?;
        let text = answer.as_str().context("no picture")?;
        std::fs::write(path, BASE64_STANDARD.decode(text)?)
            .with_context(|| path.display().to_string())
    }

    /// The lines of the console.
    pub(super) fn console(&self) -> Result<Vec<String>> {
        self.log("browser")
    }

    /// Every request of the page besides its own file.
    pub(super) fn requests(&self, own: &Path) -> Result<Vec<String>> {
        let own = format!("file://{}", own.display());
        let mut urls = Vec::new();
        for message in self.log("performance")? {
            let message: Value = serde_json::from_str(&message)?;
            let message = &message["message"];
            let url = message["params"]["request"]["url"].as_str().unwrap_or_default();
            // The browser's own first page requests parts of the browser.
            let of_browser = url.starts_with("chrome") || url.starts_with("data:");
            let asked = message["method"] == "Network.requestWillBeSent";
            if asked && url.split('#').next() != Some(&own) && !of_browser {
                urls.push(url.to_owned());
            }
        }
        Ok(urls)
    }

    fn log(&self, kind: &str) -> Result<Vec<String>> {
        let answer = self.call("/se/log", &json!({"type": kind}))?;
        let entries = answer.as_array().cloned().unwrap_or_default();
        let text = |entry: &Value| entry["message"].as_str().unwrap_or_default().to_owned();
        Ok(entries.iter().map(text).collect())
    }

    fn call(&self, path: &str, body: &Value) -> Result<Value> {
        self.ask("POST", &format!("{}{path}", self.session), body)
    }

    /// Makes one request of HTTP/1.1 and returns the value of the answer.
    fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(LIMIT))?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        let mut answer = BufReader::new(stream);
        let (mut head, mut length) = (String::new(), 0usize);
        // The driver keeps the connection open even if asked not to.
        loop {
            let mut line = String::new();
            if answer.read_line(&mut line)? == 0 || line == "\r\n" {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse()?;
            }
            head.push_str(&line);
        }
        let mut body = vec![0u8; length];
        answer.read_exact(&mut body)?;
        let answer: Value = serde_json::from_slice(&body).with_context(|| head)?;
        let value = answer.get("value").cloned().unwrap_or(Value::Null);
        match value.get("error") {
            Some(error) => bail!("{path}: {error}: {}", value["message"]),
            None => Ok(value),
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            let _ = self.ask("DELETE", &self.session.clone(), &Value::Null);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
