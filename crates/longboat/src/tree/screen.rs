//! Shows the tree: in place on a terminal, otherwise as lines about changes.

use std::{collections::BTreeMap, fmt::Write};

use k8s_openapi::jiff::Timestamp;
use owo_colors::{OwoColorize, Style};

use super::{CLUSTER, Line, Mark, Time, age};
use crate::printer::{self, Row, Stream, one_line};

/// Shows successive states of the tree.
#[derive(Debug)]
pub(crate) struct Screen {
    to: Stream,
    /// Whether the tree is drawn in place.
    pub(crate) is_live: bool,
    /// The last text that was printed about each subject.
    printed: BTreeMap<String, String>,
    /// The lines below the tree.
    footer: Vec<String>,
}

// === impl Screen ===

impl Screen {
    /// Creates a screen, which draws in place if the stream is a terminal.
    pub(crate) fn new(to: Stream) -> Self {
        Self { to, is_live: printer::is_terminal(to), printed: BTreeMap::new(), footer: Vec::new() }
    }

    /// Sets lines that stay below the tree, if it is drawn in place. Otherwise prints them once.
    pub(crate) fn footer(&mut self, lines: Vec<String>) {
        if self.is_live {
            self.footer = lines;
        } else {
            for line in &lines {
                printer::note(line);
            }
        }
    }

    /// Shows the lines. Outside of a terminal, prints only the lines that have changed.
    pub(crate) fn show(&mut self, lines: &[Line]) {
        if self.is_live {
            let room = printer::size(self.to).room();
            let mut drawn = rows(lines, room.saturating_sub(self.footer.len()), Timestamp::now());
            drawn.extend(self.footer.iter().map(|line| Row::plain(line)));
            printer::draw(self.to, drawn);
            return;
        }
        let mut text = String::new();
        for line in lines.iter().filter(|line| self.printed.get(&line.subject) != Some(&line.text)) {
            let (subject, message) = (one_line(&line.subject), one_line(&line.text));
            let _ = writeln!(text, "{subject}: {}", message.style(style(line.mark)));
        }
        // A condition that is no longer listed needs no message, but a deleted object does.
        let is_object = |subject: &str| match subject.split_once(' ') {
            Some((_, rest)) => OBJECTS.iter().any(|kind| rest.starts_with(kind)),
            None => subject != CLUSTER,
        };
        for subject in self.printed.keys().filter(|subject| is_object(subject)) {
            if lines.iter().all(|line| line.subject != *subject) {
                let _ = writeln!(text, "{}: gone", one_line(subject));
            }
        }
        if !text.is_empty() {
            printer::write(self.to, &text);
        }
        self.printed = lines.iter().map(|line| (line.subject.clone(), line.text.clone())).collect();
    }
}

/// The kinds of lines that represent objects below a service.
const OBJECTS: [&str; 4] = ["Deployment", "LeaderWorkerSet", "Pod", "group"];

/// Returns the whole tree as text, one line each.
pub(crate) fn text(lines: &[Line]) -> String {
    let all = rows(lines, usize::MAX, Timestamp::now());
    all.iter().map(|row| row.clipped(usize::MAX) + "\n").collect()
}

/// Returns at most `room` rows. If not all rows fit, healthy pods are omitted first, then other healthy objects below a
/// service, then healthy services.
fn rows(lines: &[Line], room: usize, now: Timestamp) -> Vec<Row> {
    let healthy = |line: &Line, depth: usize| line.mark == Mark::Good && line.depth >= depth;
    let mut visible: Vec<&Line> = lines.iter().collect();
    for depth in [2, 1] {
        if visible.len() > room {
            visible.retain(|line| !healthy(line, depth));
        }
    }
    if visible.len() > room {
        let is_alone = |index: usize| visible.get(index + 1).is_none_or(|next| next.depth == 0);
        let bare: Vec<bool> = (0..visible.len()).map(|i| healthy(visible[i], 0) && is_alone(i)).collect();
        let mut bare = bare.into_iter();
        visible.retain(|_| !bare.next().unwrap_or_default());
    }
    // The last row says how many lines are missing.
    let left_out = lines.len() - visible.len();
    let space = if left_out > 0 || visible.len() > room { room.saturating_sub(1) } else { room };
    let cut = visible.len().saturating_sub(space);
    visible.truncate(space);
    let mut rows: Vec<Row> = (0..visible.len()).map(|index| row(&visible, index, now)).collect();
    if left_out + cut > 0 && room > 0 {
        let mut row = Row::default();
        row.push(&format!("and {} more: enlarge the window", left_out + cut), Style::new().dimmed());
        rows.push(row);
    }
    rows
}

fn row(lines: &[&Line], index: usize, now: Timestamp) -> Row {
    let line = lines[index];
    let symbol = match line.mark {
        Mark::Good => "✓",
        Mark::Waiting => "…",
        Mark::Bad => "✗",
    };
    // Below a service, its name is not repeated.
    let name = line.subject.split_once(' ').map_or(line.subject.as_str(), |(_, rest)| rest);
    let text = line.text.lines().next().unwrap_or_default();
    let mut row = Row::default();
    row.push(&guide_lines(lines, index), Style::new().dimmed());
    row.push(symbol, style(line.mark));
    row.push(&format!(" {name}"), if line.depth == 0 { Style::new().bold() } else { Style::new() });
    if !text.is_empty() {
        row.push("  ", Style::new());
        row.push(text, if line.mark == Mark::Good { Style::new() } else { style(line.mark) });
    }
    let time = match line.time {
        Some(Time::Took(took)) => Some(format!("  after {}", age(took))),
        Some(Time::Since(since)) => {
            let passed = now.duration_since(since);
            passed.is_positive().then(|| format!("  for {}", age(passed.unsigned_abs())))
        }
        None => None,
    };
    row.push(&time.unwrap_or_default(), Style::new().dimmed());
    row
}

/// Returns the guide lines from a service to a line below it. A guide continues to the next sibling.
fn guide_lines(lines: &[&Line], index: usize) -> String {
    let depth = lines[index].depth;
    let goes_on = |level: usize| {
        let next = lines[index + 1..].iter().find(|next| next.depth <= level);
        next.is_some_and(|next| next.depth == level)
    };
    let outer = (1..depth).map(|level| if goes_on(level) { "│  " } else { "   " });
    let own = match depth {
        0 => "",
        depth if goes_on(depth) => "├─ ",
        _ => "└─ ",
    };
    outer.chain([own]).collect()
}

fn style(mark: Mark) -> Style {
    match mark {
        Mark::Good => Style::new().green(),
        Mark::Waiting => Style::new().yellow(),
        Mark::Bad => Style::new().red(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn line(depth: usize, subject: &str, text: &str, mark: Mark) -> Line {
        Line::new(subject.into(), text.into(), mark, depth)
    }

    fn drawn(lines: &[Line], room: usize) -> String {
        let now = "2026-01-01T00:01:05Z".parse().unwrap();
        let all = rows(lines, room, now);
        let text: String = all.iter().map(|row| row.clipped(40).trim_end().to_owned() + "\n").collect();
        anstream::adapter::strip_str(&text).to_string()
    }

    fn tree() -> Vec<Line> {
        let mut lines = vec![
            line(0, "ns/a", "Ready", Mark::Good),
            line(1, "ns/a Deployment a", "2/2 ready", Mark::Good),
            line(2, "ns/a Pod a-1", "ready at 127.64.0.2", Mark::Good),
            line(2, "ns/a Pod a-2", "ready at 127.64.0.3", Mark::Good),
            line(1, "ns/a Deployment b", "0/1 ready", Mark::Waiting),
            line(2, "ns/a Pod b-1", "main: CrashLoopBackOff: back-off", Mark::Bad),
            line(0, "ns/b", "Ready", Mark::Good),
        ];
        lines[2].time = Some(Time::Took(Duration::from_secs(2)));
        lines[4].time = Some(Time::Since("2026-01-01T00:00:00Z".parse().unwrap()));
        lines
    }

    #[test]
    fn guides_lead_past_what_is_below_a_sibling() {
        let expected = "\
✓ ns/a  Ready
├─ ✓ Deployment a  2/2 ready
│  ├─ ✓ Pod a-1  ready at 127.64.0.2  a…
│  └─ ✓ Pod a-2  ready at 127.64.0.3
└─ … Deployment b  0/1 ready  for 1m5s
   └─ ✗ Pod b-1  main: CrashLoopBackOff…
✓ ns/b  Ready
";
        assert_eq!(drawn(&tree(), 99), expected);
    }

    #[test]
    fn in_a_small_window_what_is_healthy_makes_way_for_what_is_not() {
        let expected = "\
✓ ns/a  Ready
├─ ✓ Deployment a  2/2 ready
└─ … Deployment b  0/1 ready  for 1m5s
   └─ ✗ Pod b-1  main: CrashLoopBackOff…
✓ ns/b  Ready
and 2 more: enlarge the window
";
        assert_eq!(drawn(&tree(), 6), expected);
        let expected = "\
✓ ns/a  Ready
└─ … Deployment b  0/1 ready  for 1m5s
and 5 more: enlarge the window
";
        assert_eq!(drawn(&tree(), 3), expected);
        assert_eq!(drawn(&tree(), 0), "");
    }
}
