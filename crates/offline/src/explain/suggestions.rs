//! The fields that somebody may have meant.

use std::collections::BTreeSet;

use longboat_key::nearest;

/// The most names to suggest for an unknown name.
const MAX_SUGGESTIONS: usize = 8;

/// Returns paths that resemble an unknown path: its longest known prefix, followed by the most similar name there.
pub(super) fn similar_paths(known: &[impl AsRef<str>], path: &str, prefix: &str) -> Vec<String> {
    let steps = parts(path.trim_start_matches('.'));
    // The longest beginning that is right comes first: the mistake is behind it.
    for cut in (0..steps.len()).rev() {
        let head = steps[..cut].join(".");
        let below: BTreeSet<String> = known
            .iter()
            .filter_map(|path| {
                let path = path.as_ref();
                let rest =
                    if head.is_empty() { path } else { path.strip_prefix(&head)?.strip_prefix('.')? };
                Some((*parts(rest).first()?).to_owned())
            })
            .collect();
        if below.is_empty() {
            continue;
        }
        let full_path = |name: &str| {
            let dot = if head.is_empty() { "" } else { "." };
            format!("{prefix}{head}{dot}{name}")
        };
        if let Some(name) = nearest(below.iter().map(String::as_str), steps[cut]) {
            return vec![full_path(name)];
        }
        return below.iter().take(MAX_SUGGESTIONS).map(|name| full_path(name)).collect();
    }
    Vec::new()
}

/// The parts of a path between dots. Dots in brackets do not separate parts.
fn parts(path: &str) -> Vec<&str> {
    let mut depth = 0_u32;
    path.split(|c| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == '.' && depth == 0
    })
    .collect()
}
