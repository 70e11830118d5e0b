//! `freehold report -o page.html`: the page in a real browser, without a screen.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{directory, json, run, skipped};

const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// Looks at the page in frames of several widths, and writes what it finds where `--dump-dom`
/// shows it.
const INSPECTOR: &str = r#"
const widths = [320, 375, 768, 1280];
const found = { widths: {} };
const look = (frame) => {
  const page = frame.contentDocument, root = page.documentElement;
  found.widths[frame.width] = root.scrollWidth;
  if (frame.width != 375) return;
  const all = (what) => [...page.querySelectorAll(what)];
  found.tables = all("table").length;
  found.bare = all("table").filter((table) =>
    !table.querySelector("caption") || !table.querySelector("thead th[scope=col]") ||
    !table.querySelector("tbody th[scope=row]")).length;
  found.drawings = all("figure svg[role=img]").length;
  found.unnamed = all("svg[role=img]").filter((svg) => !svg.getAttribute("aria-label")).length;
  found.stuck = all(".scroll").filter((box) => {
    box.focus();
    return box.scrollWidth > box.clientWidth && page.activeElement !== box;
  }).length;
  found.lost = all("a[href^='#']").filter((link) =>
    !page.getElementById(link.getAttribute("href").slice(1))).length;
  found.small = all("svg text").filter((text) => text.getBoundingClientRect().height < 9).length;
  found.background = frame.contentWindow.getComputedStyle(page.body).backgroundColor;
};
let left = widths.length;
for (const width of widths) {
  const frame = document.createElement("iframe");
  frame.width = width;
  frame.height = 800;
  frame.onload = () => {
    look(frame);
    if (--left == 0) document.getElementById("found").textContent = JSON.stringify(found);
  };
  frame.srcdoc = PAGE;
  document.body.append(frame);
}
"#;

fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let all = std::env::split_paths(&path)
        .flat_map(|directory| BROWSERS.map(|name| directory.join(name)));
    let found = all.into_iter().find(|file| file.is_file());
    if found.is_none() {
        skipped("no Chromium is installed");
    }
    found
}

/// A page with a benchmark of pairs, a grid and a comparison on it.
fn page(directory: &TempDir) -> PathBuf {
    let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    let (bench, grid, page) = (path("bench.json"), path("grid.json"), path("page.html"));
    let compared = path("compare.json");
    let quick = ["bench", "--quick", "-a", "freehold,system", "--settle", "0.01", "--repeat", "1"];
    run(&[&quick[..], &["--seconds", "0.02", "--warmup", "0.01", "--json", &bench]].concat())
        .with(0);
    let tiny = ["bench", "larson", "threadtest", "--seconds", "0.05", "--settle", "0.01"];
    let axes = ["--threads", "1,2", "--sizes", "16,64", "-a", "system,freehold", "--repeat", "2"];
    let rest = ["--set", "objects=100", "--set", "iterations=2", "--json", &grid];
    run(&[&tiny[..], &axes, &rest].concat()).with(0);
    let short = ["compare", "-a", "freehold,system", "--repeat", "2", "--json", &compared];
    run(&[&short[..], &["--", "ls", "/"]].concat()).with(0);
    run(&["report", &bench, &grid, &compared, "-o", &page]).with(0);
    PathBuf::from(page)
}

/// What the inspector finds on the page, and what the browser says on its console.
fn inspected(browser: &Path, directory: &TempDir, page: &Path, scheme: &str) -> Option<Value> {
    let text = fs::read_to_string(page).expect("a page");
    // Within a script, no tag may be closed.
    let text = serde_json::to_string(&text).expect("a text").replace("</", "<\\/");
    let script = INSPECTOR.replace("PAGE", &text);
    let wrapper = directory.path().join("inspector.html");
    let html = format!("<!doctype html><body><pre id=found></pre><script>{script}</script>");
    fs::write(&wrapper, html).expect("writable");
    let profile = format!("--user-data-dir={}", directory.path().join("profile").display());
    let started = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .args(["--enable-logging=stderr", "--virtual-time-budget=10000", "--dump-dom"])
        .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
        .arg(profile)
        .arg(format!("file://{}", wrapper.display()))
        .output()
        .expect("the browser can be started");
    let (out, err) =
        (String::from_utf8_lossy(&started.stdout), String::from_utf8_lossy(&started.stderr));
    let complaints: Vec<_> = err.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(complaints.is_empty(), "{complaints:?}");
    let found = out.split("<pre id=\"found\">").nth(1).and_then(|rest| rest.split("</pre>").next());
    let Some(found) = found.filter(|found| !found.is_empty()) else {
        assert!(!started.status.success(), "nothing was found:\n{err}");
        skipped(&format!("the browser does not run here: {err}"));
        return None;
    };
    Some(json(found))
}

#[test]
fn the_page_is_right_on_a_phone_by_keyboard_and_by_night() {
    let Some(browser) = browser() else { return };
    let directory = directory();
    let page = page(&directory);
    let Some(found) = inspected(&browser, &directory, &page, "1") else { return };
    for (width, needed) in found["widths"].as_object().expect("widths") {
        let width: u64 = width.parse().expect("a number");
        assert!(needed.as_u64().is_some_and(|needed| needed <= width), "{width}: {found}");
    }
    assert!(found["tables"].as_u64().is_some_and(|tables| tables > 8), "{found}");
    assert!(found["drawings"].as_u64().is_some_and(|drawings| drawings > 10), "{found}");
    for fault in ["bare", "unnamed", "stuck", "lost", "small"] {
        assert_eq!(found[fault], 0, "{fault} in {found}");
    }
    assert_eq!(found["background"], "rgb(255, 255, 255)");
    let Some(night) = inspected(&browser, &directory, &page, "0") else { return };
    assert_eq!(night["background"], "rgb(22, 24, 27)");
}
