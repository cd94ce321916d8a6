//! The folders in which a model server finds its LoRA adapters.

use std::collections::BTreeMap;

use crate::safe_name::short_hash;

/// The folder with one subfolder per adapter.
const MOUNT_ROOT: &str = "/mnt/lora";

/// Why adapters cannot have different folders.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Collision {
    /// Two adapters have one name.
    #[error("duplicate LoRA adapter name {0:?}")]
    Duplicate(String),
    /// More than one adapter has no name.
    #[error("two or more LoRA adapters have no name")]
    Unnamed,
    /// An adapter has the name that another one gets for its folder.
    #[error("LoRA adapters {first:?} and {second:?} would both be at {path}: rename one of them")]
    Path {
        /// The first of both names.
        first: String,
        /// The other name.
        second: String,
        /// The folder.
        path: String,
    },
}

/// Returns the folder of each adapter, which does not depend on the order of the names. Only adapters that would share a folder
/// get one with a hash, so that the folder of a running adapter does not change.
///
/// # Errors
///
/// If adapters would share a folder all the same.
pub fn mount_paths(names: &[&str]) -> Result<Vec<String>, Collision> {
    let mut sorted = names.to_vec();
    sorted.sort_unstable();
    if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(match pair[0] {
            "" => Collision::Unnamed,
            name => Collision::Duplicate(name.to_owned()),
        });
    }
    let mut sharing: BTreeMap<String, usize> = BTreeMap::new();
    for name in &sorted {
        *sharing.entry(segment(name)).or_default() += 1;
    }
    // Two names may become one segment: `a/b` and `a-b`. A name with a hash at its end may still be that of another one's folder.
    let path = |name: &str| match segment(name) {
        segment if sharing[&segment] > 1 => format!("{MOUNT_ROOT}/{segment}-{}", short_hash(name)),
        segment => format!("{MOUNT_ROOT}/{segment}"),
    };
    let mut paths: BTreeMap<String, &str> = BTreeMap::new();
    for name in sorted {
        let path = path(name);
        if let Some(first) = paths.insert(path.clone(), name) {
            return Err(Collision::Path { first: first.to_owned(), second: name.to_owned(), path });
        }
    }
    Ok(names.iter().map(|name| path(name)).collect())
}

/// Converts a name to a single path segment.
fn segment(name: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let segment: String = name.chars().map(safe).collect();
    match segment.as_str() {
        "" | "." | ".." => "adapter".to_owned(),
        _ => segment,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(names: &[&str]) -> Vec<String> {
        mount_paths(names).unwrap().into_iter().map(|path| path.replace("/mnt/lora/", "")).collect()
    }

    #[test]
    fn only_adapters_that_would_share_a_folder_get_a_hash() {
        assert_eq!(paths(&["sql", "Org/A.b", ""]), ["sql", "Org-A.b", "adapter"]);
        let [slash, dash, space] = ["a/b", "a-b", "a b"].map(|name| format!("a-b-{}", short_hash(name)));
        assert_eq!(paths(&["a/b", "sql", "a-b"]), [&slash, "sql", &dash]);
        assert_eq!(paths(&["a-b", "a b", "a/b"]), [dash, space, slash]);
        let unnamed = format!("adapter-{}", short_hash(""));
        assert_eq!(paths(&["", "adapter"])[0], unnamed);
    }

    #[test]
    fn what_would_share_a_folder_with_a_hash_is_refused_in_any_order() {
        let literal = format!("a-b-{}", short_hash("a/b"));
        let expected = Collision::Path {
            first: literal.clone(),
            second: "a/b".into(),
            path: format!("/mnt/lora/{literal}"),
        };
        assert_eq!(mount_paths(&["a/b", "a-b", &literal]), Err(expected.clone()));
        assert_eq!(mount_paths(&[&literal, "a-b", "a/b"]), Err(expected));
        assert_eq!(mount_paths(&["x", "a", "x"]), Err(Collision::Duplicate("x".into())));
        assert_eq!(mount_paths(&["", "a", ""]), Err(Collision::Unnamed));
    }
}
