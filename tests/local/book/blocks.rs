//! The code blocks of a page of the book.

/// The gateway's address in the book. Tests replace it by the real one.
pub(super) const GATEWAY: &str = "http://127.0.0.1:8080";

/// A fenced code block.
#[derive(Debug)]
pub(super) struct Block {
    /// The line of its first fence, from 1.
    pub(super) place: usize,
    /// The info string: the language and notes about the block.
    info: String,
    pub(super) lines: Vec<String>,
}

/// A command and what it prints.
#[derive(Debug)]
pub(super) struct Step {
    /// The line number of the command in the page, from 1.
    pub(super) place: usize,
    pub(super) command: String,
    pub(super) output: Vec<String>,
}

/// Returns all blocks of a page.
pub(super) fn of(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (index, line) in text.lines().enumerate() {
        match (open.as_mut(), line.strip_prefix("```")) {
            (None, Some(info)) => {
                open = Some(Block { place: index + 1, info: info.to_owned(), lines: Vec::new() });
            }
            (Some(_), Some("")) => blocks.extend(open.take()),
            (Some(block), _) => block.lines.push(line.to_owned()),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block does not end: {open:?}");
    blocks
}

// === impl Block ===

impl Block {
    pub(super) fn is_console(&self) -> bool {
        self.info.split(' ').next() == Some("console")
    }

    /// The reason after `not-run:`, or `None` if the block is to be run.
    pub(super) fn why_not(&self) -> Option<&str> {
        self.info.split_once("not-run:").map(|(_, reason)| reason.trim())
    }

    pub(super) fn is_runnable(&self) -> bool {
        self.is_console() && self.why_not().is_none()
    }

    /// The name of the file whose content the block shows, if any.
    pub(super) fn file(&self) -> Option<&str> {
        self.info.split_once("file=").map(|(_, name)| name)
    }

    /// Returns the block's commands with their outputs.
    pub(super) fn steps(&self) -> Vec<Step> {
        let mut steps: Vec<Step> = Vec::new();
        let mut goes_on = false;
        for (index, line) in self.lines.iter().enumerate() {
            let place = self.place + index + 1;
            match (line.strip_prefix("$ "), steps.last_mut()) {
                (_, Some(step)) if goes_on => step.command = format!("{}\n{line}", step.command),
                (Some(command), _) => {
                    steps.push(Step { place, command: command.to_owned(), output: Vec::new() });
                }
                (None, Some(step)) => step.output.push(line.clone()),
                (None, None) => {}
            }
            goes_on = line.ends_with('\\');
        }
        for step in &mut steps {
            // Uses a free port if the command ends by itself.
            if step.command.starts_with("longboat up ") && step.served().is_none() {
                step.command.push_str(" --port 0");
            }
        }
        steps
    }
}

// === impl Step ===

impl Step {
    /// The manifest that the command serves until it is stopped, or `None` for other commands.
    pub(super) fn served(&self) -> Option<&str> {
        let manifest = self.command.strip_prefix("longboat up ")?;
        (!manifest.contains(" --")).then_some(manifest)
    }

    /// Whether the command may end with this exit code. Some commands end with 1 if they have findings.
    pub(super) fn may_end_with(&self, code: Option<i32>) -> bool {
        let finds = ["longboat diff", "longboat doctor", "longboat status"];
        code == Some(0) || code == Some(1) && finds.iter().any(|verb| self.command.contains(verb))
    }
}

/// Finds the first line of `output` that matches a line of the book, and returns the output after it. In a line of the book,
/// `…` matches any text, and white space matches any white space. A line of only `…` matches any lines.
pub(super) fn said<'a>(output: &'a str, line: &str) -> Option<&'a str> {
    if line.trim() == "…" {
        return Some(output);
    }
    let mut rest = output;
    while !rest.is_empty() {
        let (first, after) = rest.split_once('\n').unwrap_or((rest, ""));
        if is_like(first, line) {
            return Some(after);
        }
        rest = after;
    }
    None
}

fn is_like(said: &str, line: &str) -> bool {
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (said, line) = (flat(said), flat(line));
    let mut parts = line.split('…').map(str::trim);
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = said.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}
