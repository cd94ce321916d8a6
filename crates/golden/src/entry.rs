//! Files and folders of the recordings, either in the archives of the repository or in the folder that `LONGBOAT_GOLDEN`
//! names.

use std::{
    collections::BTreeMap,
    fmt, fs,
    path::{Path, PathBuf},
    sync::{LazyLock, OnceLock},
};

use serde_json::Value;

use crate::archive::{self, Files};

/// The archived parts, so that each part is decompressed once per process.
static PARTS: LazyLock<BTreeMap<String, OnceLock<Files>>> =
    LazyLock::new(|| archive::parts().into_iter().map(|part| (part, OnceLock::new())).collect());

/// A file or folder of the recordings, which need not exist.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The path below the root, with `/` between names.
    path: String,
    /// The folder that replaces the archives, if there is one.
    folder: Option<PathBuf>,
}

/// Returns the root of the recordings: the folder `LONGBOAT_GOLDEN` if that is set, else the archives in the repository. A
/// part that the folder lacks comes from the repository.
pub fn golden() -> Entry {
    let folder = std::env::var_os("LONGBOAT_GOLDEN").map(PathBuf::from);
    if let Some(folder) = &folder {
        assert!(folder.is_dir(), "LONGBOAT_GOLDEN is no folder: {}", folder.display());
    }
    Entry { path: String::new(), folder }
}

/// Returns the folder of a part by its name.
pub fn part(name: &str) -> Entry {
    golden().join(name)
}

// === impl Entry ===

impl Entry {
    /// Returns the entry at a relative path.
    #[must_use]
    pub fn join(&self, path: &str) -> Self {
        let is_root = self.path.is_empty();
        let joined = if is_root { path.to_owned() } else { format!("{}/{path}", self.path) };
        let lacks_part = |folder: &PathBuf| is_root && !folder.join(path.split('/').next().unwrap()).exists();
        Self { path: joined, folder: self.folder.clone().filter(|folder| !lacks_part(folder)) }
    }

    /// Returns the last name of the path.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// Returns the name without its extension.
    pub fn stem(&self) -> &str {
        self.name().rsplit_once('.').map_or(self.name(), |(stem, _)| stem)
    }

    /// Whether the name has this extension, such as `yaml`.
    pub fn has_extension(&self, extension: &str) -> bool {
        self.name().rsplit_once('.').is_some_and(|(_, found)| found == extension)
    }

    /// Whether the file or folder exists.
    pub fn exists(&self) -> bool {
        self.text().is_some() || self.is_dir()
    }

    /// Whether the folder exists.
    pub fn is_dir(&self) -> bool {
        match &self.folder {
            Some(folder) => folder.join(&self.path).is_dir(),
            None => self.below().next().is_some(),
        }
    }

    /// Returns the text of a file, or `None` if it does not exist.
    pub fn text(&self) -> Option<String> {
        match &self.folder {
            Some(folder) => fs::read_to_string(folder.join(&self.path)).ok(),
            None => self.files()?.get(&self.path).cloned(),
        }
    }

    /// Returns the text of a file. Panics if it does not exist.
    pub fn read(&self) -> String {
        self.text().unwrap_or_else(|| panic!("the recordings have no file {self}"))
    }

    /// Returns the entries of a folder, sorted by name. A missing folder has no entries.
    pub fn entries(&self) -> Vec<Self> {
        if let Some(folder) = &self.folder {
            let entries = fs::read_dir(folder.join(&self.path)).into_iter().flatten();
            let mut names: Vec<String> =
                entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            return names.iter().map(|name| self.join(name)).collect();
        }
        let start = self.path.len() + 1;
        let mut names: Vec<&str> =
            self.below().map(|path| path[start..].split('/').next().unwrap_or_default()).collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter().map(|name| self.join(name)).collect()
    }

    /// Returns the folders in a folder, sorted by name.
    pub fn folders(&self) -> Vec<Self> {
        self.entries().into_iter().filter(Self::is_dir).collect()
    }

    /// Returns the documents of a YAML file unchanged.
    pub fn documents(&self) -> Vec<Value> {
        let text = self.read();
        let texts = text.split("\n---\n").filter(|text| !text.trim().is_empty());
        texts.map(|text| self.parse(text)).collect()
    }

    /// Returns the only document of a YAML file unchanged.
    pub fn yaml(&self) -> Value {
        self.parse(&self.read())
    }

    fn parse(&self, text: &str) -> Value {
        serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{self}: {error}"))
    }

    /// Writes the files of a folder into the file system, for programs that cannot read the archives.
    pub fn unpack(&self, into: &Path) {
        fs::create_dir_all(into).unwrap();
        for entry in self.entries() {
            let to = into.join(entry.name());
            match entry.text() {
                Some(text) => fs::write(to, text).unwrap(),
                None => entry.unpack(&to),
            }
        }
    }

    /// Returns the archived files of this entry's part.
    fn files(&self) -> Option<&'static Files> {
        let part = self.path.split('/').next().unwrap_or_default();
        let files = PARTS.get(part)?;
        Some(files.get_or_init(|| archive::read(part).unwrap_or_default()))
    }

    /// Returns the archived paths below this one.
    fn below(&self) -> impl Iterator<Item = &'static str> {
        let start = format!("{}/", self.path);
        let from = self.files().map(|files| files.range(start.clone()..));
        let paths = from.into_iter().flatten().map(|(path, _)| path.as_str());
        paths.take_while(move |path| path.starts_with(&start))
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_recordings_are_read_like_a_folder() {
        let case = Entry { path: "cases/cm-missing".to_owned(), folder: None };
        let names: Vec<String> = case.entries().iter().map(|entry| entry.name().to_owned()).collect();
        assert_eq!(names, ["about.txt", "expected", "input"]);
        assert!(case.is_dir() && !case.join("about.txt").is_dir() && case.join("about.txt").exists());
        assert!(!case.join("nothing").exists() && case.join("nothing").text().is_none());
        assert_eq!(case.folders().len(), 2);

        let scratch = tempfile::tempdir().unwrap();
        case.unpack(&scratch.path().join("cases/cm-missing"));
        let folder =
            Entry { path: "cases/cm-missing".to_owned(), folder: Some(scratch.path().to_path_buf()) };
        let listed = |entry: &Entry| -> Vec<(String, Option<String>)> {
            let all = entry.entries();
            let deep = all.iter().flat_map(Entry::entries).collect::<Vec<_>>();
            all.iter().chain(&deep).map(|entry| (entry.to_string(), entry.text())).collect()
        };
        assert_eq!(listed(&folder), listed(&case));
    }

    #[test]
    fn a_part_that_a_folder_lacks_is_taken_from_the_repository() {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir(scratch.path().join("merge")).unwrap();
        let root = Entry { path: String::new(), folder: Some(scratch.path().to_path_buf()) };
        assert_eq!(root.join("merge").entries(), []);
        assert!(root.join("cases/cm-missing").is_dir());
    }
}
