//! Follows the manifests of `up`: prints what an edit changes, and applies it.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use longboat_key::Key;
use longboat_local::Local;
use longboat_manifest::Document;
use longboat_offline::{
    Settings,
    diff::{self, Difference},
};
use owo_colors::OwoColorize;
use parking_lot::Mutex;

use super::manifests;
use crate::{cli::ManifestArgs, command::input, printer};

/// How often the files are looked at. Editors replace files, so a watch on a file would be lost, and one look costs little.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// The most files that are looked at.
const MAX_FILES: usize = 10_000;

/// Which file it was, when and how large. Package managers give all files the same time, and replace a link to them.
type FileState = (PathBuf, Option<(u64, SystemTime, u64)>);

/// The manifests of `up`, and what of them was applied.
pub(crate) struct Edits {
    args: ManifestArgs,
    /// The files when the documents were read.
    seen: Vec<FileState>,
    /// The documents that were applied last. `None` if a write has failed, which may have changed some of the objects.
    applied: Option<Vec<Document>>,
    /// Whether the last edit was refused.
    is_refused: bool,
}

// === impl Edits ===

impl Edits {
    /// Starts to follow files. Call this before the documents are read, so that no edit is missed.
    pub(crate) fn new(args: ManifestArgs) -> anyhow::Result<Self> {
        if args.files().iter().any(|input| input.as_os_str() == "-") {
            anyhow::bail!("--watch follows files, and `-` is standard input: pass a file or a folder");
        }
        check(&args.files())?;
        let seen = states(&args.files());
        Ok(Self { args, seen, applied: Some(Vec::new()), is_refused: false })
    }

    /// The documents that run at first.
    pub(crate) fn start_with(&mut self, documents: Vec<Document>) {
        self.applied = Some(documents);
    }

    /// Applies every edit, and adds new services to `names`.
    pub(crate) async fn follow(mut self, local: &Local, names: &Mutex<Vec<Key>>) -> Infallible {
        let mut before: Option<Vec<FileState>> = None;
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            let args = self.args.clone();
            // The arguments are read again, too: with `-R`, a folder may have new ones below it.
            let Ok(now) = tokio::task::spawn_blocking(move || states(&args.files())).await else { continue };
            if now == self.seen {
                before = None;
                continue;
            }
            // An editor may write a file in several steps, so the edit counts when a second look finds the same.
            if before.as_ref() != Some(&now) {
                before = Some(now);
                continue;
            }
            (self.seen, before) = (now, None);
            let applied = self.apply(local, names).await;
            self.is_refused = applied.is_err();
            if let Err(error) = applied {
                let hint = match self.applied {
                    Some(_) => "nothing was changed; the next edit is tried again",
                    None => "some objects may be written; the next edit is tried again",
                };
                printer::error(&error, Some(hint));
            }
        }
    }

    async fn apply(&mut self, local: &Local, names: &Mutex<Vec<Key>>) -> anyhow::Result<()> {
        let inputs = self.args.files();
        check(&inputs)?;
        let documents =
            tokio::task::spawn_blocking(move || input::accepted_documents(&inputs, true, "")).await??;
        let objects =
            |documents: &[Document]| documents.iter().map(|one| one.object.clone()).collect::<Vec<_>>();
        if self.applied.as_deref().is_some_and(|applied| objects(applied) == objects(&documents)) {
            // Whoever has read an error waits for a word that it is gone.
            if self.is_refused {
                printer::note(&format!(
                    "{} the manifests are valid again; nothing changes",
                    "edited:".bold()
                ));
            }
            return Ok(());
        }
        let changes = input::changes(local.client(), Settings::default(), documents.clone()).await?;
        for error in changes.failed {
            printer::error(&error, None);
        }
        let (new, edited): (Vec<_>, Vec<_>) = changes.differences.iter().partition(|one| one.is_new);
        let text = diff::to_text(edited);
        let no_service = text.is_empty() && new.is_empty();
        let what = if no_service { "no service changes" } else { "this changes" };
        printer::labelled("edited:", format!("the manifests; {what}"));
        if !text.is_empty() {
            printer::note(text.trim_end());
        }
        for difference in &new {
            printer::note(&start_of(difference));
        }
        let is_edited = |document: &&Document| {
            self.applied.iter().flatten().all(|before| before.object != document.object)
        };
        let others = documents.iter().filter(is_edited).filter(|one| one.kind() != "LLMInferenceService");
        let others: Vec<String> = others.map(|one| format!("{} {}", one.kind(), one.name())).collect();
        if !others.is_empty() {
            printer::note(&format!("objects of other kinds: {}", others.join(", ")));
        }
        // If the write fails, the next edit is compared with the cluster.
        self.applied = None;
        let written = manifests::write(local, &documents).await?;
        let gone: Vec<Key> = {
            let mut names = names.lock();
            let gone = names.iter().filter(|name| !written.contains(name)).cloned().collect();
            for name in written {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            gone
        };
        for Key { namespace, name } in gone {
            printer::note(&format!(
                "{namespace}/{name} is no longer in the manifests and still runs: `kubectl delete llmisvc -n {namespace} {name}` \
                 removes it"
            ));
        }
        self.applied = Some(documents);
        Ok(())
    }
}

/// Says that a service starts, and which objects it has. Its fields are those of the file that the reader has just written.
fn start_of(difference: &Difference) -> String {
    let objects: Vec<&str> = difference.children.iter().map(|child| child.object.as_str()).collect();
    format!(
        "{} is new and starts: {} {}",
        difference.service.bold(),
        objects.join(", "),
        "are created".green()
    )
}

/// Returns the states of all files below the inputs.
fn states(inputs: &[PathBuf]) -> Vec<FileState> {
    let mut files = BTreeSet::new();
    for input in inputs {
        files.insert(input.clone());
        let below = fs::read_dir(input).into_iter().flatten().flatten();
        files.extend(below.map(|entry| entry.path()).take(MAX_FILES));
    }
    let with_state = |file: PathBuf| {
        let state = state(&file);
        (file, state)
    };
    files.into_iter().take(MAX_FILES).map(with_state).collect()
}

fn state(file: &Path) -> Option<(u64, SystemTime, u64)> {
    let metadata = fs::metadata(file).ok()?;
    Some((metadata.ino(), metadata.modified().ok()?, metadata.len()))
}

/// Checks that each input can be read again and again: opening a pipe would wait for its writer, and no edit would be seen meanwhile.
fn check(inputs: &[PathBuf]) -> anyhow::Result<()> {
    let is_other =
        |input: &&PathBuf| fs::metadata(input).is_ok_and(|found| !found.is_file() && !found.is_dir());
    match inputs.iter().find(is_other) {
        Some(input) => {
            anyhow::bail!("`{}` is neither a file nor a folder: --watch cannot follow it", input.display())
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_a_new_size_and_a_missing_file_are_seen() {
        let folder = tempfile::tempdir().unwrap();
        let inputs = [folder.path().to_owned(), folder.path().join("later/b.yaml")];
        let mut states_so_far = vec![states(&inputs)];
        let mut is_new = |what: &str| {
            let now = states(&inputs);
            assert!(!states_so_far.contains(&now), "{what}");
            states_so_far.push(now);
        };
        let file = folder.path().join("a.yaml");
        fs::write(&file, "a").unwrap();
        is_new("a file in a folder");
        fs::write(&file, "ab").unwrap();
        is_new("another size");
        fs::create_dir(folder.path().join("later")).unwrap();
        fs::write(&inputs[1], "").unwrap();
        is_new("a file that did not exist");
        fs::remove_file(&file).unwrap();
        is_new("a file that is gone");
        let same = [folder.path().join("1"), folder.path().join("2")];
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        for target in &same {
            fs::write(target, "abc").unwrap();
            fs::File::options().append(true).open(target).unwrap().set_modified(time).unwrap();
        }
        std::os::unix::fs::symlink(&same[0], &file).unwrap();
        is_new("a link");
        fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink(&same[1], &file).unwrap();
        is_new("a link to another file");
        assert_eq!(states(&inputs), states(&inputs));
    }

    #[test]
    fn a_pipe_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("a.yaml");
        assert!(check(&[folder.path().to_owned(), pipe.clone()]).is_ok());
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, fifo, rustix::fs::Mode::RUSR, 0).unwrap();
        let message = check(std::slice::from_ref(&pipe)).unwrap_err().to_string();
        let expected =
            format!("`{}` is neither a file nor a folder: --watch cannot follow it", pipe.display());
        assert_eq!(message, expected);
    }
}
