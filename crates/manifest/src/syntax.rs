//! Says what is wrong with a text that is not YAML in terms of what its author typed. The parser says which of its own states
//! cannot go on, which is often at a later place.

use crate::Position;

/// The most lines before the parser's place that are searched for the beginning of a mistake.
const MAX_LINES: usize = 1000;

/// Returns the place and the description of a mistake. `at` is where the parser stopped, and `message` is what it says.
pub(crate) fn explain(text: &str, at: Position, message: String) -> (Position, String) {
    let lines: Vec<&str> = text.lines().collect();
    let stopped = (at.line as usize).saturating_sub(1).min(lines.len().saturating_sub(1));
    let Some(line) = lines.get(stopped) else { return (at, message) };
    // Foreign lines and wrong spaces explain whatever the parser says, so they come first. The others go by its words.
    let known = foreign_text(&lines, stopped)
        .or_else(|| tab(&lines, stopped))
        .or_else(|| other_space(&lines, stopped))
        .or_else(|| indented_start(&lines, stopped, &message))
        .or_else(|| closed_mapping(&lines, stopped))
        .or_else(|| open_quote(&lines, stopped, &message))
        .or_else(|| first_character(line, stopped, at, &message))
        .or_else(|| colon(&lines, stopped, &message))
        .or_else(|| indentation(&lines, stopped, &message))
        .or_else(|| open_bracket(&lines, stopped, &message));
    known.unwrap_or((at, message))
}

/// Lines of other languages around YAML.
fn foreign_text(lines: &[&str], stopped: usize) -> Option<(Position, String)> {
    let near = stopped.saturating_sub(1)..=stopped;
    let find = |start: &str| near.clone().find(|number| lines[*number].trim_start().starts_with(start));
    let conflict = ["<<<<<<< ", "=======", ">>>>>>> "].iter().find_map(|mark| find(mark));
    if let Some(number) = conflict {
        let message = "this line is the mark of a merge conflict: resolve the conflict, and remove its marks";
        return Some((Position::of_indices(number, 0), message.to_owned()));
    }
    if let Some(number) = find("```") {
        let message = "this line belongs to Markdown, not to YAML: remove the lines with ```";
        return Some((Position::of_indices(number, 0), message.to_owned()));
    }
    let (number, column) = near.clone().find_map(|number| Some((number, lines[number].find("{{")?)))?;
    let column = lines[number][..column].chars().count();
    let message = "`{{` is a template: render it first (for example with `helm template`), or put the value in \
                   quotes";
    Some((Position::of_indices(number, column), message.to_owned()))
}

/// A tab in the indentation, which looks like spaces in an editor. The parser often stops at the line before or after it.
fn tab(lines: &[&str], stopped: usize) -> Option<(Position, String)> {
    let mut near = [stopped, stopped + 1, stopped.saturating_sub(1)].into_iter().filter(|n| *n < lines.len());
    let number = near.find(|number| indent(lines[*number]).contains('\t'))?;
    let column = indent(lines[number]).chars().position(|character| character == '\t')?;
    let message = "a tab indents this line: YAML allows only spaces there";
    Some((Position::of_indices(number, column), message.to_owned()))
}

/// A space of another kind in the indentation, as web pages have it.
fn other_space(lines: &[&str], stopped: usize) -> Option<(Position, String)> {
    let mut near = [stopped, stopped.saturating_sub(1), stopped + 1].into_iter().filter(|n| *n < lines.len());
    let found = |line: &str| indent(line).chars().position(|character| !matches!(character, ' ' | '\t'));
    let (number, column) = near.find_map(|number| Some((number, found(lines[number])?)))?;
    let message = "a character that only looks like a space indents this line, perhaps a no-break space of a web page: \
                   type spaces instead";
    Some((Position::of_indices(number, column), message.to_owned()))
}

/// A first field that is indented, and a later one that is less so.
fn indented_start(lines: &[&str], stopped: usize, message: &str) -> Option<(Position, String)> {
    if !message.contains("expected <document start>") || width(lines[stopped]) > 0 {
        return None;
    }
    let is_content = |number: &usize| {
        let line = lines[*number].trim();
        !line.is_empty() && !line.starts_with('#')
    };
    let first = search(stopped.checked_sub(1)?)
        .take_while(|number| !lines[*number].starts_with("---"))
        .filter(is_content)
        .last()?;
    let own = width(lines[first]);
    let message = format!(
        "this line begins an object and is indented by {own}, but a later one is not: indent all fields of an object by the \
         same number of spaces"
    );
    (own > 0).then(|| (Position::of_indices(first, own), message))
}

/// Fields below a mapping that is already complete, as in `router: {}`.
fn closed_mapping(lines: &[&str], stopped: usize) -> Option<(Position, String)> {
    let above = search(stopped.checked_sub(1)?).find(|number| !lines[*number].trim().is_empty())?;
    let content = lines[above].trim_end();
    let (key, empty) = ["{}", "[]"].iter().find_map(|empty| {
        Some((content.trim_start().strip_suffix(empty)?.trim_end().strip_suffix(':')?, empty))
    })?;
    let message =
        format!("`{key}: {empty}` is complete, so no lines can follow below it: remove the `{empty}`");
    (width(lines[stopped]) > width(lines[above]))
        .then(|| (Position::of_indices(above, width(lines[above])), message))
}

/// A quote that never ends makes the parser stop somewhere after it.
fn open_quote(lines: &[&str], stopped: usize, message: &str) -> Option<(Position, String)> {
    if !message.contains("quoted scalar") || message.contains("escape") {
        return None;
    }
    let number = search(stopped).find(|number| lines[*number].matches(['"', '\'']).count() % 2 == 1)?;
    let column = lines[number].chars().position(|character| matches!(character, '"' | '\''))?;
    let quote = lines[number].chars().nth(column)?;
    Some((
        Position::of_indices(number, column),
        format!("the quote {quote} that begins here does not end: close it with {quote}"),
    ))
}

/// A value that begins with a character that means something else to YAML.
fn first_character(line: &str, stopped: usize, at: Position, message: &str) -> Option<(Position, String)> {
    let column = (at.column as usize).saturating_sub(1);
    let found = line.chars().nth(column)?;
    if message.starts_with("unexpected character") && !found.is_control() {
        return Some((at, format!("a value cannot begin with `{found}`: put it in quotes")));
    }
    if !message.contains("unknown anchor") && !message.contains("an anchor or alias") {
        return None;
    }
    // The parser stops at the sign or in the name after it. The same sign may stand in quotes before.
    let signs = line.chars().enumerate().filter(|(_, character)| matches!(character, '*' | '&'));
    let (column, sign) = signs.take_while(|(at, _)| *at <= column).last()?;
    let meaning = if sign == '*' { "a reference to an anchor" } else { "the name of an anchor" };
    let message = format!(
        "`{sign}` begins {meaning}, and this document has no such anchor: put a value that begins with `{sign}` in quotes"
    );
    Some((Position::of_indices(stopped, column), message))
}

/// A colon that is missing or one too many.
fn colon(lines: &[&str], stopped: usize, message: &str) -> Option<(Position, String)> {
    let no_key = message.contains("simple key expected");
    if !no_key && !message.contains("mapping values are not allowed") {
        return None;
    }
    // The parser takes a line without a colon and the next line for one text, and stops at the colon of the next.
    for number in [Some(stopped), stopped.checked_sub(1)].into_iter().flatten() {
        let content = lines[number].trim();
        let entry = content.strip_prefix("- ").unwrap_or(content);
        if entry.is_empty()
            || entry.starts_with(['#', '"', '\'', '{', '[', '|', '>'])
            || has_key(entry)
            || is_dash(entry)
        {
            continue;
        }
        let column = indent(lines[number]).chars().count() + (content.len() - entry.len());
        if let Some(argument) = entry.strip_prefix("--") {
            let message = format!("`--{}` is an item of a list: write `- --{argument}`", shortened(argument));
            return Some((Position::of_indices(number, indent(lines[number]).chars().count()), message));
        }
        let message = match entry.split_once(':') {
            // An address after a name.
            Some((key, _)) if key.contains(' ') && entry.contains("://") => {
                let (key, value) = entry.split_once(' ').unwrap_or((entry, ""));
                format!("`{key}` needs a colon after it: `{key}: {}`", shortened(value.trim()))
            }
            Some((key, value)) if let Some(space) = value.chars().next().filter(|c| is_other_space(*c)) => {
                format!(
                    "the character U+{:04X} after `{key}:` only looks like a space, perhaps a no-break space of a web page: type \
                     a space instead",
                    u32::from(space)
                )
            }
            Some((key, value)) => {
                format!("`{key}:{value}` needs a space after the colon: `{key}: {}`", value.trim())
            }
            None => format!("expected `key: value`, found `{}`: a colon is missing", shortened(entry)),
        };
        return Some((Position::of_indices(number, column), message));
    }
    // A second colon in one line.
    let content = lines[stopped].trim().trim_start_matches("- ");
    let (key, value) = content.split_once(": ")?;
    has_key(value).then(|| {
        let column = lines[stopped].find(value).map_or(0, |at| lines[stopped][..at].chars().count());
        let value = shortened(value);
        let message = format!("the value of `{key}` has a colon: put the value in quotes, \"{value}\"");
        (Position::of_indices(stopped, column), message)
    })
}

/// A line that is indented like none of the lines that it could continue.
fn indentation(lines: &[&str], stopped: usize, message: &str) -> Option<(Position, String)> {
    let expected = ["mapping values are not allowed", "did not find expected key", "expected '-'"];
    if !expected.iter().any(|text| message.contains(text)) {
        return None;
    }
    let own = width(lines[stopped]);
    let begins_item = lines[stopped].trim_start().starts_with("- ");
    // Seen from below, a mapping is still open if no line between has less indentation.
    let mut open: Vec<usize> = Vec::new();
    for number in search(stopped.checked_sub(1)?) {
        let line = lines[number];
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        // The first field of an item stands after the dash.
        let columns = match line.trim_start().strip_prefix("- ") {
            Some(rest) => vec![width(line), width(line) + 2 + width(rest)],
            None => vec![width(line)],
        };
        for column in columns.into_iter().rev() {
            if open.last().is_none_or(|inner| column < *inner) {
                open.push(column);
            }
        }
    }
    if open.contains(&own) {
        let (found, others) =
            if begins_item { ("an item", "fields") } else { ("a field", "items (`- …`)") };
        let message = format!(
            "this line is {found} between {others} with the same indentation: a mapping has only fields, and a list \
             only items"
        );
        return Some((Position::of_indices(stopped, own), message));
    }
    open.sort_unstable();
    let widths: Vec<_> = open.iter().map(ToString::to_string).collect();
    let message = format!(
        "this line is indented by {own} spaces, but the lines before it by {}: indent all fields of a mapping by the \
         same number of spaces",
        widths.join(", ")
    );
    Some((Position::of_indices(stopped, own), message))
}

/// A list or mapping in one line that never ends.
fn open_bracket(lines: &[&str], stopped: usize, message: &str) -> Option<(Position, String)> {
    if !message.contains("flow") && !message.contains("illegal placement of ':'") {
        return None;
    }
    let unbalanced = |line: &str| {
        [('[', ']'), ('{', '}')]
            .into_iter()
            .find(|(open, close)| line.matches(*open).count() > line.matches(*close).count())
    };
    let (number, (open, close)) =
        search(stopped).find_map(|number| Some((number, unbalanced(lines[number])?)))?;
    let column = lines[number].chars().position(|character| character == open)?;
    Some((
        Position::of_indices(number, column),
        format!("the `{open}` that begins here does not end: close it with `{close}`"),
    ))
}

/// The lines up to this one, the nearest first.
fn search(last: usize) -> impl Iterator<Item = usize> {
    (0..=last).rev().take(MAX_LINES)
}

/// Whether a text begins with a dash that begins an item, or that is a part of a number.
fn is_dash(text: &str) -> bool {
    text.starts_with('-') && !text.starts_with("--")
}

fn has_key(text: &str) -> bool {
    text.contains(": ") || text.ends_with(':')
}

/// Whether a character looks like a space and is none to YAML.
fn is_other_space(character: char) -> bool {
    character.is_whitespace() && !character.is_ascii()
}

fn indent(line: &str) -> &str {
    &line[..line.len() - line.trim_start().len()]
}

fn width(line: &str) -> usize {
    indent(line).chars().count()
}

fn shortened(text: &str) -> String {
    let mut start: String = text.chars().take(40).collect();
    if start.len() < text.len() {
        start.push('…');
    }
    start
}
