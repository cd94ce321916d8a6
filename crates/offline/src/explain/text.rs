//! Explanations as text for users, with colours for terminals. Callers that print elsewhere remove the colours.

use std::fmt::Write as _;

use owo_colors::OwoColorize;
use serde_json::Value;

use super::{
    Explanation,
    child::{ChildField, Source},
    field::{Field, Setter, SetterKind},
    layers::{LayerView, Setting},
};

/// The longest value that is printed on a line, in characters.
const MAX_VALUE_CHARS: usize = 100;
/// The characters that are printed before the first difference of two long texts.
const CONTEXT: usize = 20;
/// The most fields of one part of a spec that are listed individually.
const MAX_LISTED: usize = 4;

// === impl Explanation ===

impl Explanation {
    /// Formats it for users, with colours for terminals.
    pub fn to_text(&self) -> String {
        match self {
            Self::Layers { service, layers } => of_layers(service, layers),
            Self::Fields { fields, .. } => of_fields(fields),
            Self::Children { fields, .. } => of_children(fields),
        }
    }
}

/// Formats the layers in order.
fn of_layers(service: &str, layers: &[LayerView]) -> String {
    let mut text = format!("{}: {} layers, lowest first\n", service.bold(), layers.len());
    for (number, layer) in layers.iter().enumerate() {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "\n{} {}", format!("{}.", number + 1).dimmed(), headline(layer));
        groups(&mut text, &layer.sets, "sets");
        groups(&mut text, &layer.lost, "lost");
    }
    text
}

fn headline(layer: &LayerView) -> String {
    format!("{}  {}", setter(&layer.layer).bold(), layer.because.dimmed())
}

/// Groups fields by the part of the spec that contains them. Lists a few fields individually, and prints only the number of
/// many.
fn groups(text: &mut String, settings: &[Setting], verb: &str) {
    let mut groups: Vec<(String, Vec<&Setting>)> = Vec::new();
    for setting in settings {
        let key = part(&setting.path);
        match groups.last_mut().filter(|(last, _)| *last == key) {
            Some((_, members)) => members.push(setting),
            None => groups.push((key, vec![setting])),
        }
    }
    for (key, members) in groups {
        if members.len() > MAX_LISTED {
            let _ = writeln!(
                text,
                "     {} {} {}",
                verb.dimmed(),
                key,
                format!("({} fields)", members.len()).dimmed()
            );
            continue;
        }
        for setting in members {
            let by = setting
                .by
                .as_ref()
                .map(|by| if verb == "lost" { format!("  to {by}") } else { format!("  {by}") });
            let _ = writeln!(
                text,
                "     {} {} = {}{}",
                verb.dimmed(),
                setting.path,
                short(&setting.value),
                by.unwrap_or_default().dimmed()
            );
        }
    }
}

/// The first names of a path, which identify a part of the spec. A container is a part of its own.
fn part(path: &str) -> String {
    // Both `containers[` and `initContainers[` end so.
    if let Some(at) = path.find("ontainers[") {
        let end = path[at..].find(']').map_or(path.len(), |end| at + end + 1);
        return path[..end].to_owned();
    }
    path.split('.').take(4).collect::<Vec<_>>().join(".")
}

/// Formats fields with their history.
fn of_fields(fields: &[Field]) -> String {
    let single = fields.len() == 1;
    let mut text = String::new();
    for field in fields {
        let _ = writeln!(text, "{} = {}", field.path.bold(), value(&field.value, single));
        history(&mut text, field, "", single);
    }
    text
}

/// Formats fields of children.
fn of_children(fields: &[ChildField]) -> String {
    let single = fields.len() == 1;
    let mut text = String::new();
    let mut object = "";
    for field in fields {
        if object != field.object {
            object = &field.object;
            let _ = writeln!(text, "{}", object.bold());
        }
        let _ = writeln!(text, "{} = {}", field.path.bold(), value(&field.value, single));
        match &field.from {
            Source::Copied(field) => {
                let _ = writeln!(text, "  {} {}", "copied from".dimmed(), field.path);
                history(&mut text, field, "  ", single);
            }
            Source::Computed { rule, from, and } => {
                let _ = writeln!(text, "  {} {rule}", "computed:".dimmed());
                for input in from.iter().take(if single { usize::MAX } else { MAX_LISTED }) {
                    let _ = writeln!(
                        text,
                        "    {} {} = {}  {}",
                        "from".dimmed(),
                        input.path,
                        short(&input.value),
                        setter(&input.set_by).dimmed()
                    );
                }
                if !and.is_empty() {
                    let _ = writeln!(text, "    {} {}", "from".dimmed(), and.join(", "));
                }
            }
        }
    }
    text
}

fn history(text: &mut String, field: &Field, indent: &str, whole: bool) {
    let verb = if field.set_by.kind == SetterKind::Computed { "computed" } else { "set by" };
    let by = if field.set_by.kind == SetterKind::Computed {
        String::new()
    } else {
        format!(" {}", setter(&field.set_by).green())
    };
    let _ = write!(text, "{indent}  {}{by}", verb.dimmed());
    if let Some(rule) = &field.rule {
        let _ = write!(text, "{} {rule}", if by.is_empty() { ":" } else { ", then changed:" }.dimmed());
    }
    text.push('\n');
    if let Some(template) = &field.template {
        let _ = writeln!(
            text,
            "{indent}  {} {}",
            "template".dimmed(),
            value(&Value::String(template.text.clone()), whole).yellow()
        );
        for input in &template.inputs {
            let shown = input.value.as_ref().map_or_else(|| "not set".to_owned(), short);
            let path = input.path.as_deref().map(|path| format!("  ({path})"));
            let _ = writeln!(
                text,
                "{indent}    {} = {shown}{}",
                input.field,
                path.unwrap_or_else(|| "  (platform)".to_owned()).dimmed()
            );
        }
    }
    for old in &field.replaced {
        let _ = writeln!(
            text,
            "{indent}  {} {} {}",
            "replaced".dimmed(),
            value(&old.value, false),
            format!("from {}", setter(&old.set_by)).dimmed()
        );
    }
}

/// Describes a layer.
pub(crate) fn setter(setter: &Setter) -> String {
    let name = match (setter.kind, &setter.config) {
        (SetterKind::Runtime, Some(runtime)) => format!("runtime {runtime}"),
        (SetterKind::Preset, Some(config)) => format!("preset {config}"),
        (SetterKind::BaseRef, Some(config)) => format!("base config {config}"),
        (SetterKind::Default, _) => "a default".to_owned(),
        (SetterKind::Computed, _) => "composing".to_owned(),
        _ => "the service".to_owned(),
    };
    match &setter.place {
        Some(place) => format!("{name} ({place})"),
        None => name,
    }
}

fn value(value: &Value, whole: bool) -> String {
    match value {
        Value::String(text) if whole && text.contains('\n') => {
            let lines: Vec<String> = text.lines().map(|line| format!("    {line}")).collect();
            format!("|\n{}", lines.join("\n"))
        }
        value if whole => value.to_string(),
        value => short(value),
    }
}

/// Formats a value on one line, truncated if it is long.
pub(crate) fn short(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= MAX_VALUE_CHARS {
        return text;
    }
    let head: String = text.chars().take(MAX_VALUE_CHARS).collect();
    format!("{head}…")
}

/// Formats two values on one line each. Of long texts, prints the part at their first difference.
pub(crate) fn around(before: &Value, after: &Value) -> (String, String) {
    let (Value::String(old), Value::String(new)) = (before, after) else {
        return (short(before), short(after));
    };
    let common = old.chars().zip(new.chars()).take_while(|(a, b)| a == b).count();
    if common <= CONTEXT || old.len().max(new.len()) <= MAX_VALUE_CHARS {
        return (short(before), short(after));
    }
    let from = |text: &str| {
        let tail: String = text.chars().skip(common - CONTEXT).collect();
        format!("…{}", short(&Value::String(tail)))
    };
    (from(old), from(new))
}
