// Opens every view of the dashboard. Ends with an error that lists the problems.

import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const { PAGE, BROWSER, PACKAGES, SERVICE, THEME, WIDTH, LONGBOAT_SCREENSHOTS } = process.env;
const { chromium } = createRequire(`${PACKAGES}/`)("playwright-core");
const axe = readFileSync(`${PACKAGES}/axe-core/axe.min.js`, "utf8");
const LIMIT = 60_000;
const wrong = [];
let fine = 0;

/// For each view: the selector that shows that it is drawn, and the user's actions before the checks.
const VIEWS = {
  "": { shown: "h1:text('Services')" },
  overview: {
    shown: ".way[aria-label^='Requests to'] svg",
    async act(page) {
      const said = await page.getAttribute(".way", "aria-label");
      for (const part of ["gateway kserve-ingress-gateway", "The picker", "Replica qwen-kserve-"]) {
        if (!said.includes(part)) wrong.push(`the picture does not say ${part}: ${said}`);
      }
      // Keys lead to the help, which closes and gives the focus back, and from view to view.
      await page.keyboard.press("?");
      await page.waitForSelector("dialog[open] kbd:text('j')", { timeout: LIMIT });
      await page.keyboard.press("Escape");
      await page.waitForSelector("dialog", { timeout: LIMIT, state: "detached" });
      await page.keyboard.press("2");
      await page.waitForSelector("th:text('InferencePoolReady')", { timeout: LIMIT });
      await page.keyboard.press("1");
      await page.waitForSelector(".way svg", { timeout: LIMIT });
    },
  },
  tree: { shown: "th:text('InferencePoolReady')" },
  playground: {
    shown: "#ask",
    async act(page) {
      await page.click("summary:text('Settings')");
      await page.fill("#system", "You are a sailor.");
      await page.fill("input[type=number] >> nth=0", "0.5");
      await page.focus("#ask");
      await page.keyboard.type("Why is the sea <img src=x> salty?");
      await page.keyboard.press("Enter");
      await page.waitForSelector("a:text('why this replica')", { timeout: LIMIT });
      if (await page.$(".said img")) wrong.push("a message became a part of the page");
      // The same prompt to two sides.
      await page.click("button:text('Compare with another')");
      await page.fill("#ask", "And the lakes?");
      await page.keyboard.press("Enter");
      await page.waitForFunction(() => document.querySelectorAll(".sides section .assistant p").length === 3, null, { timeout: LIMIT });
    },
  },
  decisions: {
    shown: ".decisions button",
    async act(page) {
      await page.focus(".decisions button");
      await page.keyboard.press("Enter");
      await page.waitForSelector("tr.picked", { timeout: LIMIT });
      await page.fill("#find-decision", "no such request");
      await page.waitForFunction(() => document.querySelectorAll(".decisions > li").length === 0, null, { timeout: LIMIT });
      await page.fill("#find-decision", "");
      await page.click(".shares button");
      await page.waitForSelector(".decisions button", { timeout: LIMIT });
    },
  },
  replicas: {
    shown: "polyline",
    async act(page) {
      // The page has counted the three chats of the playground, and nothing else.
      await page.waitForSelector("figcaption:has-text('Requests') .total:text('3 requests, 0 errors')", { timeout: LIMIT });
      await page.waitForSelector("figcaption:has-text('Time to first token') .total:has-text('P95')", { timeout: LIMIT });
      await page.click("button:text('1 min')");
      await page.click("button:text('Each replica')");
      await page.waitForSelector("button[aria-pressed=true]:text('Each replica')", { timeout: LIMIT });
    },
  },
  logs: {
    shown: "pre.log:not(:text('(empty)'))",
    async act(page) {
      await page.fill("#search", "no such line");
      await page.waitForSelector("pre.log:text('No line matches.')", { timeout: LIMIT });
      await page.fill("#search", "");
    },
  },
  fields: {
    shown: "summary",
    async act(page) {
      await page.focus("summary");
      await page.keyboard.press("Enter");
      await page.click("button.link >> nth=0");
      await page.waitForSelector("pre.said:has-text('set by')", { timeout: LIMIT });
    },
  },
  simulate: {
    shown: "#traffic",
    async act(page) {
      await page.fill("#numbers", "1, 3");
      await page.click("button:text('Simulate')");
      await page.waitForSelector(".simulated th:text('1 replica (now)')", { timeout: LIMIT });
      await page.waitForSelector(".simulated th:text('3 replicas')", { timeout: LIMIT });
      await page.waitForSelector(".simulated svg polyline.c1", { timeout: LIMIT, state: "attached" });
    },
  },
  edit: {
    shown: "#manifest",
    async act(page) {
      await page.waitForFunction(() => document.querySelector("#manifest").value.includes("replicas: 1"));
      const manifest = await page.inputValue("#manifest");
      await page.fill("#manifest", manifest.replace("replicas: 1", "replicas: 2"));
      await page.click("button:text('Show changes')");
      await page.waitForSelector("pre.said:has-text('1 → 2')", { timeout: LIMIT });
    },
  },
};

const browser = await chromium.launch({ executablePath: BROWSER, args: ["--no-sandbox"] });
for (const colorScheme of [THEME]) {
  for (const width of [Number(WIDTH)]) {
    const context = await browser.newContext({ colorScheme, viewport: { width, height: 844 } });
    const page = await context.newPage();
    const outside = [];
    page.on("request", (request) => {
      if (!request.url().startsWith(new URL(PAGE).origin)) outside.push(request.url());
    });
    page.on("console", (message) => {
      if (["error", "warning"].includes(message.type())) wrong.push(`console: ${message.text()}`);
    });
    page.on("pageerror", (error) => wrong.push(`script: ${error.message}`));
    await page.goto(PAGE);
    await page.waitForSelector(".services li a", { timeout: LIMIT });
    if ((await page.evaluate(() => location.href)).includes("token")) wrong.push("the token stays in the address");
    await page.keyboard.press("/");
    if (!(await page.evaluate(() => document.activeElement.id === "filter"))) wrong.push("/ does not lead to the filter");
    for (const [view, { shown, act }] of Object.entries(VIEWS)) {
      const here = `${view || "list"} (${colorScheme}, ${width})`;
      try {
        await page.evaluate((hash) => (location.hash = hash), view ? `#/${SERVICE}/${view}` : "#/");
        await page.waitForSelector(shown, { timeout: LIMIT, state: "attached" });
        if (act) await act(page);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        if (wide > 0) wrong.push(`${here}: ${wide} pixels wider than the window`);
        // Injects axe-core through the debugger, because the page's content security policy blocks foreign scripts.
        const debug = await context.newCDPSession(page);
        const { result, exceptionDetails } = await debug.send("Runtime.evaluate", {
          expression: `${axe}; axe.run(document).then((found) => JSON.stringify(found.violations.map((one) =>
            one.id + ": " + one.nodes.map((node) => node.html).slice(0, 3).join(" "))))`,
          awaitPromise: true,
          returnByValue: true,
        });
        if (exceptionDetails) throw new Error(`axe-core: ${exceptionDetails.text}`);
        wrong.push(...JSON.parse(result.value).map((violation) => `${here}: ${violation}`));
        if (LONGBOAT_SCREENSHOTS) {
          await page.screenshot({ path: `${LONGBOAT_SCREENSHOTS}/${view || "list"}-${colorScheme}-${width}.png` });
        }
        fine += 1;
      } catch (error) {
        wrong.push(`${here}: ${error.message}`);
      }
    }
    wrong.push(...outside.map((url) => `asked elsewhere: ${url}`));
    await context.close();
  }
}

// A tab without the token must get no data.
const stranger = await browser.newPage();
await stranger.goto(PAGE.split("#")[0]);
await stranger.waitForSelector("[role=status]:has-text('access token')", { timeout: LIMIT });
if ((await stranger.textContent("body")).includes(SERVICE)) wrong.push("a page without the token shows services");
await browser.close();

if (wrong.length > 0) {
  console.error(wrong.join("\n"));
  process.exit(1);
}
console.log(`${fine} views are fine`);
