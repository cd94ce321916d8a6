//! Models that are on this machine already (contract 07 §9).

use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use crate::FetchError;

/// Links each file of `source` (or `source` itself, if it is a file) into `destination`: weights are large, and nothing
/// here changes them.
pub(crate) async fn copy(source: PathBuf, destination: PathBuf) -> Result<(), FetchError> {
    let linked = tokio::task::spawn_blocking(move || {
        link(&source, &destination).map_err(|error| FetchError::Copy { path: source, source: error })
    });
    linked.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
}

fn link(source: &Path, destination: &Path) -> io::Result<()> {
    fs::create_dir_all(destination)?;
    let source = source.canonicalize()?;
    if source.is_dir() {
        for entry in fs::read_dir(&source)? {
            let entry = entry?;
            if entry.path().is_dir() {
                link(&entry.path(), &destination.join(entry.file_name()))?;
            } else {
                link_file(&entry.path(), &destination.join(entry.file_name()))?;
            }
        }
        return Ok(());
    }
    link_file(&source, &destination.join(source.file_name().unwrap_or_default()))
}

fn link_file(source: &Path, link: &Path) -> io::Result<()> {
    match symlink(source, link) {
        // A second run of the same pod finds what the first one made.
        Err(error)
            if error.kind() == io::ErrorKind::AlreadyExists
                && fs::read_link(link).is_ok_and(|to| to == source) =>
        {
            Ok(())
        }
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use crate::{Args, FetchError, run};

    #[tokio::test]
    async fn a_folder_is_linked_file_by_file_and_again() {
        let dir = tempfile::tempdir().unwrap();
        let (source, destination) = (dir.path().join("model"), dir.path().join("mnt"));
        std::fs::create_dir_all(source.join("deep")).unwrap();
        std::fs::write(source.join("config.json"), "{}").unwrap();
        std::fs::write(source.join("deep/weights"), "w").unwrap();
        for _ in 0..2 {
            let args = Args {
                pairs: vec![format!("file://{}", source.display()), destination.display().to_string()],
                mode: None,
            };
            run(args).await.unwrap();
        }
        assert_eq!(std::fs::read_to_string(destination.join("deep/weights")).unwrap(), "w");
    }

    #[tokio::test]
    async fn what_cannot_be_fetched_is_refused_by_name_and_skipping_is_not_fetching() {
        let dir = tempfile::tempdir().unwrap();
        let args = |source: &str, mode: Option<&str>| Args {
            pairs: vec![source.into(), dir.path().join("mnt").display().to_string()],
            mode: mode.map(Into::into),
        };
        let error = run(args("hf://a/b", None)).await.unwrap_err();
        assert!(matches!(&error, FetchError::Unsupported { scheme, .. } if scheme == "hf"), "{error}");
        assert!(matches!(run(args("/no/such/folder", None)).await, Err(FetchError::Copy { .. })));
        run(args("hf://a/b", Some("skip"))).await.unwrap();
        let mut odd = args("/a", None);
        odd.pairs.truncate(1);
        assert!(matches!(run(odd).await, Err(FetchError::NoDestination { .. })));
    }

    #[tokio::test]
    async fn a_model_and_its_adapters_come_in_one_run() {
        let dir = tempfile::tempdir().unwrap();
        let mut pairs = Vec::new();
        for name in ["model", "adapter"] {
            let source = dir.path().join(name);
            std::fs::create_dir_all(&source).unwrap();
            std::fs::write(source.join("config.json"), name).unwrap();
            pairs.extend(
                [source, dir.path().join(format!("mnt-{name}"))].map(|path| path.display().to_string()),
            );
        }
        run(Args { pairs, mode: None }).await.unwrap();
        assert_eq!(std::fs::read_to_string(dir.path().join("mnt-adapter/config.json")).unwrap(), "adapter");
    }
}
