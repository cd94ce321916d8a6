//! Drawing the tree: in place on a terminal, as lines of news elsewhere.

use std::{collections::BTreeMap, fmt::Write};

use owo_colors::OwoColorize;

use super::{Line, Mark};
use crate::printer::{self, Stream};

/// Shows successive states of the tree.
#[derive(Debug)]
pub(crate) struct Screen {
    to: Stream,
    /// Lines drawn before, on a terminal.
    drawn: Option<usize>,
    /// What was said last about each subject.
    said: BTreeMap<String, String>,
}

// === impl Screen ===

impl Screen {
    /// In place where the stream is a terminal.
    pub(crate) fn new(to: Stream) -> Self {
        Self { to, drawn: printer::is_terminal(to).then_some(0), said: BTreeMap::new() }
    }

    /// Only news, even on a terminal: for what happens below other output.
    pub(crate) fn news(known: &[Line]) -> Self {
        Self {
            to: Stream::Stderr,
            drawn: None,
            said: known.iter().map(|line| (line.subject.clone(), line.text.clone())).collect(),
        }
    }

    /// Shows the lines; nothing is printed where nothing changed.
    pub(crate) fn show(&mut self, lines: &[Line]) {
        let changed: Vec<_> =
            lines.iter().filter(|line| self.said.get(&line.subject) != Some(&line.text)).collect();
        let gone: Vec<_> = self
            .said
            .keys()
            .filter(|subject| lines.iter().all(|line| line.subject != **subject))
            .cloned()
            .collect();
        if changed.is_empty() && gone.is_empty() {
            return;
        }
        if let Some(drawn) = &mut self.drawn {
            printer::write(self.to, &picture(lines, *drawn, printer::width()));
            *drawn = lines.len();
        } else {
            for line in &changed {
                printer::write(self.to, &format!("{}: {}\n", line.subject, coloured(&line.text, line.mark)));
            }
            for subject in &gone {
                printer::write(self.to, &format!("{subject}: gone\n"));
            }
        }
        self.said = lines.iter().map(|line| (line.subject.clone(), line.text.clone())).collect();
    }
}

/// Goes back over the lines drawn before and draws the new ones.
fn picture(lines: &[Line], drawn: usize, width: usize) -> String {
    let mut out = String::new();
    if drawn > 0 {
        let _ = write!(out, "\x1b[{drawn}F");
    }
    for row in rows(lines, width) {
        let _ = writeln!(out, "\x1b[2K{row}");
    }
    out + "\x1b[J"
}

/// The tree as text, a line each, whatever its length.
pub(crate) fn text(lines: &[Line]) -> String {
    rows(lines, usize::MAX).map(|row| row + "\n").collect()
}

fn rows(lines: &[Line], width: usize) -> impl Iterator<Item = String> {
    lines.iter().enumerate().map(move |(index, line)| {
        let branch = match line.depth {
            0 => String::new(),
            depth => {
                let last = lines[index + 1..]
                    .iter()
                    .find(|next| next.depth <= depth)
                    .is_none_or(|next| next.depth < depth);
                format!("{}{} ", "   ".repeat(depth - 1), if last { "└─" } else { "├─" })
            }
        };
        let symbol = match line.mark {
            Mark::Good => "✓",
            Mark::Waiting => "…",
            Mark::Bad => "✗",
        };
        // Below a service its name need not be repeated.
        let name = line.subject.split_once(' ').map_or(line.subject.as_str(), |(_, rest)| rest);
        let plain = format!("{branch}{symbol} {name}  {}", line.text.lines().next().unwrap_or_default());
        let clipped: String = plain.chars().take(width.saturating_sub(1)).collect();
        coloured(clipped.trim_end(), line.mark)
    })
}

fn coloured(text: &str, mark: Mark) -> String {
    match mark {
        Mark::Good => text.green().to_string(),
        Mark::Waiting => text.yellow().to_string(),
        Mark::Bad => text.red().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_drawn_over_the_former_ones_and_clipped_to_the_width() {
        let line = |depth, subject: &str, text: &str| Line {
            subject: subject.into(),
            text: text.into(),
            mark: Mark::Waiting,
            depth,
        };
        let lines = [
            line(0, "ns/a", "x"),
            line(1, "ns/a Ready", "a long text that does not fit"),
            line(1, "ns/a B", "y"),
        ];
        let picture = picture(&lines, 5, 30);
        assert!(picture.starts_with("\x1b[5F\x1b[2K"), "{picture:?}");
        let plain = anstream::adapter::strip_str(&picture).to_string();
        assert_eq!(plain, "… ns/a  x\n├─ … Ready  a long text that\n└─ … B  y\n");
    }
}
