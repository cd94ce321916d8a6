//! Archives a folder of recordings as data only: replaces text that the recorded programs contain for people or for a shell.
//!
//! * Lines of the start scripts in `base/presets-stored.yaml`, wherever they occur. Each becomes a word made of its digest,
//!   with the same length as the line in Go's JSON, so that positions in the messages of templates stay the same. Lines with
//!   template expressions stay, and so do single flags of programs and lines of fewer than ten characters (`fi`, `done`).
//! * Descriptions in schemas and of table columns.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::archive::{self, Files};

/// Shorter lines are words of the shell, and are kept.
const MIN_LINE_BYTES: usize = 10;
/// Parts with prose in their descriptions.
const DESCRIBED: [&str; 2] = ["apiserver", "crds"];
/// The replacement of a description.
const DESCRIPTION: &str = "<text>";

/// An archived part.
#[derive(Debug)]
pub struct PackReport {
    /// The part's name.
    pub part: String,
    /// The number of its files.
    pub files: usize,
    /// The size of its archive in bytes.
    pub bytes: usize,
    /// The number of replaced lines.
    pub replaced: usize,
}

/// Lines with their replacements.
struct StandIns(BTreeMap<String, String>);

/// Archives each folder in `folder` as a part of this crate's recordings. Other parts stay unchanged.
pub fn pack(folder: &Path) -> Vec<PackReport> {
    let presets = fs::read_to_string(folder.join("base/presets-stored.yaml"));
    let stand_ins = StandIns::of(&presets.unwrap_or_default());
    let mut packed = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if !path.is_dir() {
            continue;
        }
        let part = path.file_name().unwrap().to_str().unwrap().to_owned();
        let mut files = Files::new();
        read(&path, &part, &mut files);
        let mut replaced = 0;
        for text in files.values_mut() {
            replaced += stand_ins.replace(text);
            if DESCRIBED.contains(&part.as_str()) {
                replaced += hide_descriptions(text);
            }
        }
        stand_ins.assert_absent(&files);
        let bytes = archive::write(&files);
        fs::create_dir_all(archive::place(&part).parent().unwrap()).unwrap();
        fs::write(archive::place(&part), &bytes).unwrap();
        packed.push(PackReport { part, files: files.len(), bytes: bytes.len(), replaced });
    }
    packed.sort_by(|a, b| a.part.cmp(&b.part));
    packed
}

fn read(folder: &Path, path: &str, files: &mut Files) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if name == "__pycache__" {
            continue;
        }
        let path = format!("{path}/{name}");
        if entry.path().is_dir() {
            read(&entry.path(), &path, files);
        } else {
            let text = fs::read_to_string(entry.path()).unwrap_or_else(|error| panic!("{path}: {error}"));
            files.insert(path, text);
        }
    }
}

/// Replaces the text of each `description` in YAML, including its continuation lines, which are indented further.
fn hide_descriptions(text: &mut String) -> usize {
    let mut lines: Vec<String> = Vec::new();
    let mut hidden = 0;
    let mut column = None;
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        if column.is_some_and(|column| line.trim().is_empty() || indent > column) {
            continue;
        }
        let key = line.trim_start_matches(['-', ' ']);
        column = None;
        match key.strip_prefix("description: ").map(str::trim) {
            Some(value) if !value.is_empty() && value != "null" => {
                let at = line.len() - key.len();
                column = Some(at);
                hidden += 1;
                lines.push(format!("{}description: {DESCRIPTION}", &line[..at]));
            }
            _ => lines.push(line.to_owned()),
        }
    }
    if hidden > 0 {
        *text = lines.join("\n") + "\n";
    }
    hidden
}

/// Returns the line without its continuation mark.
fn core(line: &str) -> &str {
    let line = line.trim();
    line.strip_suffix('\\').map_or(line, str::trim_end)
}

/// Returns the literal parts of a template's line, between its expressions.
fn literals(line: &str) -> Vec<String> {
    let parts = line.split("{{").enumerate();
    let literals = parts
        .map(|(at, part)| if at == 0 { part } else { part.split_once("}}").map_or("", |(_, rest)| rest) });
    literals.map(|literal| literal.trim().to_owned()).collect()
}

/// Whether a line of a template can render to `line`: it has enough literal text, and `line` starts and ends with it.
fn may_render_to(literals: &[String], line: &str) -> bool {
    let (first, last) = (literals.first(), literals.last());
    let own: usize = literals.iter().map(String::len).sum();
    own >= MIN_LINE_BYTES
        && first.is_some_and(|first| line.starts_with(first.as_str()))
        && last.is_some_and(|last| line.ends_with(last.as_str()))
        && literals.iter().all(|literal| line.contains(literal.as_str()))
}

/// Returns the number of bytes of a text in Go's JSON.
fn length_in_go(text: &str) -> usize {
    let length = |byte| match byte {
        b'"' | b'\\' | b'\t' | b'\n' | b'\r' => 2,
        b'<' | b'>' | b'&' => 6,
        _ => 1,
    };
    text.bytes().map(length).sum()
}

fn stand_in(line: &str) -> String {
    let digest = Sha256::digest(line.as_bytes());
    let word = format!("z{:02x}{:02x}{:02x}{:02x}", digest[0], digest[1], digest[2], digest[3]);
    format!("{word:-<width$}", width = length_in_go(line))
}

/// Calls `visit` for each text in a value.
fn texts(value: &Value, visit: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => visit(text),
        Value::Array(items) => items.iter().for_each(|item| texts(item, visit)),
        Value::Object(fields) => fields.values().for_each(|field| texts(field, visit)),
        _ => {}
    }
}

// === impl StandIns ===

impl StandIns {
    /// Creates replacements for the lines of the scripts in these presets.
    fn of(presets: &str) -> Self {
        let (mut lines, mut templates) = (BTreeSet::new(), Vec::new());
        for document in presets.split("\n---\n").filter(|text| !text.trim().is_empty()) {
            let preset: Value = serde_saphyr::from_str(document).unwrap();
            texts(&preset, &mut |text| {
                let script = text.lines().filter(|_| text.lines().count() > 2);
                for line in script.map(core).filter(|line| line.len() >= MIN_LINE_BYTES) {
                    if line.contains("{{") {
                        templates.push(literals(line));
                    } else if !line.starts_with('-') {
                        lines.insert(line.to_owned());
                    }
                }
            });
        }
        // A line that a template line can render to stays unchanged everywhere.
        lines.retain(|line| !templates.iter().any(|template| may_render_to(template, line)));
        let all: BTreeMap<String, String> =
            lines.into_iter().map(|line| (line.clone(), stand_in(&line))).collect();
        let words: BTreeSet<&String> = all.values().collect();
        assert_eq!(words.len(), all.len(), "two lines have the same stand-in");
        Self(all)
    }

    /// Replaces lines in a text: whole lines, as in block scalars, and lines in quotes.
    fn replace(&self, text: &mut String) -> usize {
        if self.0.is_empty() {
            return 0;
        }
        let mut replaced = 0;
        let lines: Vec<String> = text
            .split('\n')
            .map(|line| match self.line(line) {
                Some(line) => {
                    replaced += 1;
                    line
                }
                None => self.quoted(line, &mut replaced),
            })
            .collect();
        if replaced > 0 {
            *text = lines.join("\n");
        }
        replaced
    }

    fn line(&self, line: &str) -> Option<String> {
        let core = core(line);
        let start = line.len() - line.trim_start().len();
        let word = self.0.get(core)?;
        Some(format!("{}{word}{}", &line[..start], &line[start + core.len()..]))
    }

    /// Replaces lines in the quoted texts of a line.
    fn quoted(&self, line: &str, replaced: &mut usize) -> String {
        let mut out = String::new();
        let mut left = line;
        while let Some(start) = left.find('"') {
            let mut escaped = false;
            let end = left[start + 1..].char_indices().find(|(_, c)| {
                let ends = *c == '"' && !escaped;
                escaped = *c == '\\' && !escaped;
                ends
            });
            let Some((length, _)) = end else { break };
            let quoted = &left[start..=start + 1 + length];
            out.push_str(&left[..start]);
            left = &left[start + quoted.len()..];
            let before = *replaced;
            let lines = serde_json::from_str::<String>(quoted).ok().map(|text| {
                let lines = text.split('\n').map(|line| {
                    let other = self.line(line);
                    *replaced += usize::from(other.is_some());
                    other.unwrap_or_else(|| line.to_owned())
                });
                lines.collect::<Vec<_>>().join("\n")
            });
            match lines {
                Some(text) if *replaced > before => out.push_str(&Value::from(text).to_string()),
                _ => out.push_str(quoted),
            }
        }
        out + left
    }

    /// Panics if one of the longer lines is still in a file, in any form.
    fn assert_absent(&self, files: &Files) {
        let lines: Vec<&String> = self.0.keys().filter(|line| line.len() >= 24).collect();
        for (path, text) in files {
            for line in &lines {
                let escaped = Value::from(line.as_str()).to_string();
                let found = text.contains(line.as_str()) || text.contains(escaped.trim_matches('"'));
                assert!(!found, "{path} still has a line of a script: {line}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRESETS: &str = "spec:\n  command:\n  - |\n    if [ -f \"<file>\" ]; then\n      start --all \\\n        {{ .Name }}\n    fi\n";

    #[test]
    fn lines_of_scripts_become_words_of_the_same_length_wherever_they_are() {
        let stand_ins = StandIns::of(PRESETS);
        assert_eq!(stand_ins.0.keys().collect::<Vec<_>>(), ["if [ -f \"<file>\" ]; then", "start --all"]);
        for (line, word) in &stand_ins.0 {
            assert_eq!(word.len(), length_in_go(line));
        }
        let mut block = PRESETS.to_owned();
        assert_eq!(stand_ins.replace(&mut block), 2);
        let mut quoted = r#"- "if [ -f \"<file>\" ]; then\n  start --all \\\n    chat\nfi" # "no"#.to_owned();
        assert_eq!(stand_ins.replace(&mut quoted), 2);
        let (first, second) = (&stand_ins.0["if [ -f \"<file>\" ]; then"], &stand_ins.0["start --all"]);
        assert_eq!(
            block,
            format!(
                "spec:\n  command:\n  - |\n    {first}\n      {second} \\\n        {{{{ .Name }}}}\n    fi\n"
            )
        );
        assert_eq!(quoted, format!(r#"- "{first}\n  {second} \\\n    chat\nfi" # "no"#));
    }

    #[test]
    fn a_line_that_a_template_may_become_stays() {
        let script = "a: |\n  OPTIONS=\"\"\n  OPTIONS=\"{{ .All }}\"\n  START=\"all\"\n";
        assert_eq!(StandIns::of(script).0.keys().collect::<Vec<_>>(), ["START=\"all\""]);
    }

    #[test]
    #[should_panic(expected = "still has a line")]
    fn a_line_that_is_left_anywhere_is_found() {
        let stand_ins = StandIns::of(PRESETS);
        stand_ins.assert_absent(&[("a".to_owned(), "x if [ -f \"<file>\" ]; then y".to_owned())].into());
    }

    #[test]
    fn descriptions_go_and_properties_of_that_name_stay() {
        let mut text = "a:\n  description: one\n    two\n\n    three\n  description:\n    type: string\n- description: |-\n    x\n  b: c\n"
            .to_owned();
        assert_eq!(hide_descriptions(&mut text), 2);
        assert_eq!(
            text,
            "a:\n  description: <text>\n  description:\n    type: string\n- description: <text>\n  b: c\n"
        );
    }
}
