//! Checks the names that a source gives its files.

use crate::FetchError;

/// The downloader's own folder in a target. It contains journals and partial files.
pub(crate) const OWN_FOLDER: &str = ".longboat";

/// Longest path, in bytes. Linux takes 4096 for a whole path, and the target folder's own path comes before it.
const MAX_PATH: usize = 3072;
/// Longest name of a file or folder in common file systems, in bytes.
const MAX_PART: usize = 255;
/// The most parts of a path. Programs walk folders recursively, and no model has this many levels.
const MAX_PARTS: usize = 100;

/// Refuses a path that is absolute, leaves the folder, or is not possible in file systems.
pub fn check(path: &str) -> Result<(), FetchError> {
    let refuse = |why: &str| Err(FetchError::Name { name: shown(path), why: why.to_owned() });
    if path.is_empty() {
        return refuse("it is empty");
    }
    if path.starts_with('/') {
        return refuse("it is absolute");
    }
    if path.len() > MAX_PATH {
        return refuse("it is longer than 3072 bytes");
    }
    if path.split('/').count() > MAX_PARTS {
        return refuse("it has more than 100 parts");
    }
    if path.chars().any(char::is_control) {
        return refuse("it has control characters");
    }
    for part in path.split('/') {
        match part {
            ".." => return refuse("it leaves the target folder"),
            "" => return refuse("it has an empty part"),
            "." => return refuse("it has a part `.`"),
            _ if part.len() > MAX_PART => return refuse("a part is longer than 255 bytes"),
            _ => {}
        }
    }
    if path.split('/').next() == Some(OWN_FOLDER) {
        return refuse("the folder `.longboat` is reserved for the state of the download");
    }
    Ok(())
}

/// Refuses files of one source that cannot exist together: two files with the same path, or a file whose path another file
/// needs as a folder. `names` returns a file's path below the target and its name at the source.
pub(crate) fn check_all<T>(files: &[T], names: impl Fn(&T) -> (&str, &str)) -> Result<(), FetchError> {
    let path = |index: &usize| names(&files[*index]).0;
    for file in files {
        check(names(file).0)?;
    }
    // Indexes are sorted instead of files, because there may be very many files.
    let mut sorted: Vec<usize> = (0..files.len()).collect();
    sorted.sort_unstable_by(|one, other| path(one).cmp(path(other)));
    for pair in sorted.windows(2) {
        let ((shared, one), (other_path, other)) = (names(&files[pair[0]]), names(&files[pair[1]]));
        if shared == other_path {
            let why = if one == other {
                "two files of the source have this name".to_owned()
            } else {
                // The names are given in the source's order.
                let [first, second] = if pair[0] < pair[1] { [one, other] } else { [other, one] };
                let (first, second) = (shown(first), shown(second));
                format!(
                    "`{first}` and `{second}` of the source have the same name here; rename one of them at \
                     the source"
                )
            };
            return Err(FetchError::Name { name: shown(shared), why });
        }
    }
    for file in files {
        let (whole, _) = names(file);
        for (at, _) in whole.match_indices('/') {
            if sorted.binary_search_by(|index| path(index).cmp(&whole[..at])).is_ok() {
                return Err(FetchError::Name {
                    name: shown(whole),
                    why: format!("`{}` is also a file of the source", shown(&whole[..at])),
                });
            }
        }
    }
    Ok(())
}

/// Returns a name that can be printed: short, and without control characters.
pub(crate) fn shown(name: &str) -> String {
    let clean = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let mut text: String = name.chars().take(200).map(clean).collect();
    if name.chars().nth(200).is_some() {
        text.push('…');
    }
    text
}

/// Whether the name is that of an archive. A single archive is unpacked.
pub(crate) fn is_archive(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    [".tar", ".tgz", ".tar.gz", ".tar.zst", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".zip"]
        .iter()
        .any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_inside() {
        for name in ["a", "a/b.c", ".hidden", "a..b", "...", "ü/ø", "a b+c%20"] {
            assert!(check(name).is_ok(), "{name}");
        }
        let (long, deep, wide) =
            ("x".repeat(256), "x/".repeat(100) + "x", ["x"; 13].map(|x| x.repeat(255)).join("/"));
        for name in [
            "",
            "/a",
            "..",
            "a/../b",
            "a//b",
            "a/",
            "./a",
            "a\0b",
            "a\nb",
            ".longboat/x",
            &long,
            &deep,
            &wide,
        ] {
            assert!(check(name).is_err(), "{name:?}");
        }
        assert!(check(&deep[2..]).is_ok() && check(&wide[256..]).is_ok());
    }

    #[test]
    fn collisions_are_found() {
        let check_paths = |paths: &[&'static str]| check_all(paths, |path| (*path, *path));
        assert!(check_paths(&["a/b", "a/c", "ab"]).is_ok());
        assert!(check_paths(&["a", "a"]).is_err());
        assert!(check_paths(&["a/b", "a"]).is_err());
        assert!(check_paths(&["a/b/c", "a"]).is_err());
    }
}
