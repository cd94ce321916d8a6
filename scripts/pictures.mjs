// Takes screenshots of the dashboard at PAGE in both themes. `scripts/pictures.sh` runs this script.

import { createRequire } from "node:module";
import { existsSync, writeFileSync } from "node:fs";

const root = new URL("..", import.meta.url).pathname;
const { chromium } = createRequire(`${root}.cache/browser/node_modules/`)("playwright-core");
const executablePath = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);
const LIMIT = { timeout: 120_000 };

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const blank = await browser.newPage();
const pages = [];

/// Saves a screenshot as WebP, which is a third of the size of a PNG.
async function take(page, name) {
  const png = (await page.screenshot()).toString("base64");
  const webp = await blank.evaluate(async (data) => {
    const image = new Image();
    image.src = `data:image/png;base64,${data}`;
    await image.decode();
    const canvas = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height });
    canvas.getContext("2d").drawImage(image, 0, 0);
    return canvas.toDataURL("image/webp", 0.85).split(",")[1];
  }, png);
  writeFileSync(`${root}docs/images/${name}.webp`, Buffer.from(webp, "base64"));
}

for (const colorScheme of ["light", "dark"]) {
  const page = await browser.newPage({ colorScheme, viewport: { width: 1240, height: 690 } });
  await page.goto(process.env.PAGE);
  await page.waitForSelector(".services li a", LIMIT);
  await page.evaluate(() => (location.hash = "#/default/qwen/replicas"));
  await page.waitForSelector("polyline", { ...LIMIT, state: "attached" });
  pages.push([colorScheme, page]);
}
// Waits until the numbers have a meaning.
await new Promise((done) => setTimeout(done, 62_000));
for (const [theme, page] of pages) {
  await page.bringToFront();
  await take(page, `page-replicas-${theme}`);
  await page.evaluate(() => (location.hash = "#/default/qwen/decisions"));
  await page.click(".decisions button", LIMIT);
  await page.waitForSelector("tr.picked", LIMIT);
  await take(page, `page-decisions-${theme}`);
}
await browser.close();
