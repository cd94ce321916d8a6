// Takes pictures of the page at PAGE in both themes; `scripts/pictures.sh` calls it.

import { createRequire } from "node:module";
import { existsSync } from "node:fs";

const root = new URL("..", import.meta.url).pathname;
const { chromium } = createRequire(`${root}.cache/browser/node_modules/`)("playwright-core");
const executablePath = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);
const LIMIT = { timeout: 120_000 };

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const pages = [];
for (const colorScheme of ["light", "dark"]) {
  const page = await browser.newPage({ colorScheme, viewport: { width: 1120, height: 640 } });
  await page.goto(process.env.PAGE);
  await page.waitForSelector(".services li a", LIMIT);
  await page.evaluate(() => (location.hash = "#/default/qwen/replicas"));
  await page.waitForSelector("polyline", { ...LIMIT, state: "attached" });
  pages.push([colorScheme, page]);
}
// Graphs need something to show.
await new Promise((done) => setTimeout(done, 60_000));
for (const [theme, page] of pages) {
  await page.bringToFront();
  await page.screenshot({ path: `${root}docs/images/page-replicas-${theme}.png` });
  await page.evaluate(() => (location.hash = "#/default/qwen/decisions"));
  await page.waitForSelector(".decisions button", LIMIT);
  await page.click(".decisions button");
  await page.waitForSelector("tr.picked", LIMIT);
  await page.screenshot({ path: `${root}docs/images/page-decisions-${theme}.png` });
}
await browser.close();
