//! Recursion into folders, for `-R`.

use std::path::{Path, PathBuf};

/// Returns the inputs. With `recursive`, each folder is followed by all folders below it, sorted by name. Like kubectl, this
/// does not follow links to folders. An unreadable folder stays in the list, so that reading its files reports the error.
pub(super) fn with_those_below<'a>(
    inputs: impl IntoIterator<Item = &'a PathBuf>,
    recursive: bool,
) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for input in inputs {
        let at = all.len();
        all.push(input.clone());
        if !recursive || !input.is_dir() {
            continue;
        }
        let mut waiting = below(input);
        while let Some(folder) = waiting.pop() {
            waiting.extend(below(&folder));
            all.push(folder);
        }
        all[at + 1..].sort();
    }
    all
}

fn below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    // The type of the entry itself: a link to a folder is not a folder.
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn folders_are_followed_by_those_below_them_and_links_are_not_followed() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        fs::create_dir_all(path("b/deep")).unwrap();
        fs::create_dir_all(path("a")).unwrap();
        std::os::unix::fs::symlink(home.path(), path("a/loop")).unwrap();
        fs::write(path("file.yaml"), "").unwrap();
        let inputs = [home.path().to_owned(), PathBuf::from("-"), path("file.yaml")];
        let expected = [
            home.path().to_owned(),
            path("a"),
            path("b"),
            path("b/deep"),
            PathBuf::from("-"),
            path("file.yaml"),
        ];
        assert_eq!(with_those_below(&inputs, true), expected);
        assert_eq!(with_those_below(&inputs, false), inputs);
    }
}
