// Opens the dashboard of a cluster with very many services and replicas, and measures DOM nodes, bytes of the feed, and long
// tasks. The last line of the output is JSON.

import { createRequire } from "node:module";

const { PAGE, BROWSER, PACKAGES, SERVICES, REPLICAS } = process.env;
const { chromium } = createRequire(`${PACKAGES}/`)("playwright-core");
const LIMIT = 120_000;
/// How long each view is measured, in milliseconds.
const WATCHED = 12_000;

const browser = await chromium.launch({ executablePath: BROWSER, args: ["--no-sandbox"] });
const page = await browser.newPage({ viewport: { width: 1280, height: 844 } });
const debug = await page.context().newCDPSession(page);
await debug.send("Network.enable");
await debug.send("Performance.enable");
let bytes = 0;
debug.on("Network.dataReceived", ({ dataLength }) => (bytes += dataLength));
await page.addInitScript(() => {
  window.tasks = [];
  new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((task) => task.duration))).observe({ type: "longtask" });
});

const metric = async (name) => (await debug.send("Performance.getMetrics")).metrics.find((one) => one.name === name).value;

/// Measures the open view.
async function watch() {
  await page.evaluate(() => (window.tasks = []));
  const [before, busy] = [bytes, await metric("TaskDuration")];
  await page.waitForTimeout(WATCHED);
  const tasks = await page.evaluate(() => window.tasks);
  return {
    nodes: await page.evaluate(() => document.querySelectorAll("*").length),
    bytes: bytes - before,
    bytesPerSecond: Math.round(((bytes - before) * 1000) / WATCHED),
    longTasks: tasks.length,
    longestTaskMillis: Math.round(Math.max(0, ...tasks)),
    busyShare: Number((((await metric("TaskDuration")) - busy) / (WATCHED / 1000)).toFixed(3)),
  };
}

const measured = {};
const start = Date.now();
await page.goto(PAGE);
await page.waitForSelector(`.counts:has-text("${SERVICES} services")`, { timeout: LIMIT });
measured.openMillis = Date.now() - start;
// The samples of all replicas have come, and do not change.
await page.waitForFunction(() => document.querySelector(".services .rate").textContent === "0", null, { timeout: LIMIT });
measured.list = await watch();
await page.evaluate(() => (window.tasks = []));
await page.fill("#filter", "service-0777");
await page.waitForFunction(() => document.querySelectorAll(".services li").length === 1, null, { timeout: LIMIT });
measured.filter = { longestTaskMillis: Math.round(Math.max(0, ...(await page.evaluate(() => window.tasks)))) };
await page.fill("#filter", "");
await page.evaluate(() => (location.hash = "#/default/many/replicas"));
await page.waitForFunction((wanted) => document.querySelectorAll("tbody tr").length === wanted, Number(REPLICAS), { timeout: LIMIT });
await page.waitForSelector("polyline", { state: "attached", timeout: LIMIT });
measured.replicas = await watch();
measured.replicas.events = Math.ceil(WATCHED / 2000);
measured.replicas.rows = await page.evaluate(() => document.querySelectorAll("tbody tr").length);
await browser.close();
console.log(JSON.stringify(measured));
