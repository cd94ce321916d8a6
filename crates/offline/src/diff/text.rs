//! Differences as text for users, with colours for terminals. Callers that print elsewhere remove the colours.

use std::fmt::Write as _;

use owo_colors::OwoColorize;

use super::{Action, ChildChange, Difference, FieldChange};
use crate::explain::{around, setter, short};

/// Formats differences, service by service. Empty if there are none.
pub fn to_text<'d>(differences: impl IntoIterator<Item = &'d Difference>) -> String {
    let mut text = String::new();
    let is_told = |difference: &&Difference| !difference.is_empty() || difference.problem.is_some();
    for difference in differences.into_iter().filter(is_told) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", difference.service.bold());
        if !difference.effective.is_empty() {
            let _ = writeln!(text, "  effective spec");
            difference.effective.iter().for_each(|change| line(&mut text, change));
        }
        difference.children.iter().for_each(|change| object(&mut text, "  ", change));
        for roll in &difference.rolls {
            let _ = writeln!(text, "  pods of {} {}", roll.object.bold(), "roll".yellow());
            for cause in &roll.because {
                let from = if cause.from.is_empty() {
                    String::new()
                } else {
                    format!("  from {}", cause.from.join(", "))
                };
                let _ = writeln!(text, "    because of {}{}", cause.path, from.dimmed());
            }
        }
        if let Some(problem) = &difference.problem {
            let _ = writeln!(text, "  {} {problem}", "the rest is unknown:".red().bold());
        }
    }
    text
}

/// Formats the changes of objects that belong to no service.
pub fn objects_to_text(changes: &[ChildChange]) -> String {
    let mut text = String::new();
    for change in changes {
        object(&mut text, "", change);
    }
    text
}

fn object(text: &mut String, indent: &str, change: &ChildChange) {
    let action = match change.action {
        Action::Created => "is created".green().to_string(),
        Action::Changed => "changes".yellow().to_string(),
        Action::Removed => "is removed".red().to_string(),
    };
    let _ = writeln!(text, "{indent}{} {action}", change.object.bold());
    change.fields.iter().for_each(|change| line(text, change));
}

fn line(text: &mut String, change: &FieldChange) {
    let by = change.set_by.as_ref().map(|by| format!("  {}", setter(by))).unwrap_or_default();
    let (mark, values) = match (&change.before, &change.after) {
        (Some(before), Some(after)) => {
            let (old, new) = around(before, after);
            ("~".yellow().to_string(), format!(": {old} → {new}"))
        }
        (None, Some(after)) => ("+".green().to_string(), format!(" = {}", short(after))),
        (Some(before), None) => ("-".red().to_string(), format!(" = {}", short(before))),
        (None, None) => return,
    };
    let _ = writeln!(text, "    {mark} {}{values}{}", change.path, by.dimmed());
}
