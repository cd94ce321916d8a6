//! The dashboard in a real browser, at two widths and in both themes: every view is drawn, the console stays empty, nothing
//! overflows, axe-core finds nothing, and the keyboard reaches everything. `LONGBOAT_SCREENSHOTS=DIR` saves screenshots.

use std::{path::Path, process::Command};

use crate::{local_cluster::LocalCluster, page::Page, program::run, tools};

/// Paths of Chromium and Chrome.
const BROWSERS: [&str; 3] = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/// Returns a Node.js command for a script of this folder, with the browser and the npm packages in its environment. Returns
/// `None`, and reports it, if one is missing.
pub(crate) fn script(name: &str) -> Option<Command> {
    let packages = tools::tool("browser/node_modules")?;
    let Some(browser) = BROWSERS.into_iter().find(|path| Path::new(path).exists()) else {
        longboat_golden::skipped("no Chromium");
        return None;
    };
    let mut node = Command::new("node");
    node.arg(tools::root().join("tests/local").join(name)).env("BROWSER", browser).env("PACKAGES", packages);
    Some(node)
}

#[test]
fn the_page_computes_rates_and_quantiles_from_samples() {
    let Some(mut node) = script("traffic.mjs") else { return };
    assert_eq!(run(&mut node).ok(), "the numbers are right\n");
}

#[test]
fn people_can_use_the_page() {
    if script("browser.mjs").is_none() {
        return;
    }
    let world = LocalCluster::shared();
    let page = Page::of(world);
    for (theme, width) in [("light", "1280"), ("light", "390"), ("dark", "1280"), ("dark", "390")] {
        let mut node = script("browser.mjs").unwrap();
        node.env("PAGE", format!("{}/#token={}", page.address, page.token))
            .env("SERVICE", "default/qwen")
            .env("THEME", theme)
            .env("WIDTH", width);
        let said = run(&mut node).ok();
        assert_eq!(said.lines().last(), Some("10 views are fine"), "{theme}, {width}: {said}");
    }
}
