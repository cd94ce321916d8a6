//! The page in a real browser, at two widths, in both themes: every view is drawn, nothing is said on the console, nothing
//! overflows, axe-core finds nothing, and keys reach everything. `LONGBOAT_SCREENSHOTS=DIR` keeps pictures to look at.

use std::process::Command;

use crate::{
    dashboard::Page,
    program::run,
    tools,
    world::{World, turn},
};

/// Names of Chromium.
const BROWSERS: [&str; 3] = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

#[test]
fn people_can_use_the_page() {
    let Some(packages) = tools::tool("browser/node_modules") else { return };
    let browser = BROWSERS.into_iter().find(|path| std::path::Path::new(path).exists());
    let Some(browser) = browser else {
        longboat_untested::skipped("no Chromium");
        return;
    };
    let _turn = turn();
    let world = World::shared();
    let page = Page::of(world);
    let script = tools::root().join("tests/local/browser.mjs");
    for (theme, width) in [("light", "1280"), ("light", "390"), ("dark", "1280"), ("dark", "390")] {
        let mut node = Command::new("node");
        node.arg(&script)
            .env("PAGE", format!("{}/#token={}", page.address, page.token))
            .env("BROWSER", browser)
            .env("PACKAGES", &packages)
            .env("SERVICE", "default/qwen")
            .env("THEME", theme)
            .env("WIDTH", width);
        let said = run(&mut node).ok();
        assert_eq!(said.lines().last(), Some("8 views are fine"), "{theme}, {width}: {said}");
    }
}
