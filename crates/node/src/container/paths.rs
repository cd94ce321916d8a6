//! Where the mount paths of a container are on this machine.
//!
//! A path that is bound is the path of the manifest in the container's mount namespace ([`crate::mounts`]), so texts keep it.
//! Every other `/mnt/models` in a manifest must become the folder of that volume. The rule applies
//! to every element of command and args (a whole script is one element), to env values, to `workingDir`, and to the commands
//! of hooks and exec probes. It applies after the expansion of `$(NAME)` references:
//!
//! * an occurrence of a mount path counts when it starts where a path can start: at the beginning of the text, or after a
//!   character that is not part of a path (`=`, a quote, a space, `:`, `,`, …), or after `file://`;
//! * and when it ends where a path component ends: at the end of the text or before anything but a letter, a digit, one of
//!   `_ - . + @ % ~`, or a shell expansion or glob (`$ { * ? [`);
//! * of several mount paths that match, the longest wins.
//!
//! For example, if `/models` is mounted, `--dir=/models/x` and `"/models"` change, but `publishers/ns/models/m`,
//! `hf://models`, `/models-2`, `${HOME}/models` do not. Text is rewritten once: the result is not searched again.

use std::path::{Path, PathBuf};

/// The mounts of one container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathMap {
    /// Longer mount paths come first.
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    mount: String,
    local: String,
    /// Whether the container sees the volume at the mount path.
    bound: bool,
}

impl PathMap {
    /// Creates a map from pairs of mount path and local path. Ignores a mount at `/`, which would match everything.
    pub fn new(entries: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut entries: Vec<_> = entries
            .into_iter()
            .map(|(mount, local)| Entry {
                mount: mount.trim_end_matches('/').to_owned(),
                local,
                bound: false,
            })
            .filter(|entry| entry.mount.starts_with('/'))
            .collect();
        entries.sort_by(|a, b| b.mount.len().cmp(&a.mount.len()).then_with(|| a.mount.cmp(&b.mount)));
        Self { entries }
    }

    /// Binds the mounts for which `can_bind` is true, given mount path and local path. Rewrites the others.
    #[must_use]
    pub fn bind(mut self, can_bind: impl Fn(&Path, &Path) -> bool) -> Self {
        for entry in &mut self.entries {
            entry.bound = can_bind(Path::new(&entry.mount), Path::new(&entry.local));
        }
        self
    }

    /// Returns mount path and local path of the bound mounts. A mount comes before those below it.
    pub fn bound(&self) -> impl Iterator<Item = (&str, &str)> {
        let bound = self.entries.iter().rev().filter(|entry| entry.bound);
        bound.map(|entry| (entry.mount.as_str(), entry.local.as_str()))
    }

    /// Rewrites every mount path in `text` that is not bound.
    pub fn rewrite(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        while let Some(slash) = text[at..].find('/').map(|offset| at + offset) {
            out.push_str(&text[at..slash]);
            if let Some(Entry { mount, local, bound }) = self.matching(text, slash) {
                out.push_str(if *bound { mount } else { local });
                at = slash + mount.len();
            } else {
                out.push('/');
                at = slash + 1;
            }
        }
        out.push_str(&text[at..]);
        out
    }

    /// Returns the local path of a path that is a mount path or below a mount path.
    pub fn local(&self, path: &str) -> Option<String> {
        self.matching(path, 0).map(|entry| format!("{}{}", entry.local, &path[entry.mount.len()..]))
    }

    /// Returns where a path of the container is outside of it.
    pub fn outside(&self, path: &str) -> PathBuf {
        self.local(path).map_or_else(|| path.into(), PathBuf::from)
    }

    fn matching(&self, text: &str, slash: usize) -> Option<&Entry> {
        if !starts_a_path(&text[..slash]) {
            return None;
        }
        self.entries.iter().find(|Entry { mount, .. }| {
            text[slash..].starts_with(mount.as_str()) && ends_a_component(&text[slash + mount.len()..])
        })
    }
}

fn starts_a_path(before: &str) -> bool {
    before.ends_with("file://")
        || before.chars().next_back().is_none_or(|c| {
            !(c.is_alphanumeric()
                || matches!(c, '_' | '-' | '.' | '/' | '}' | ')' | ']' | '~' | '*' | '?' | '+' | '%'))
        })
}

fn ends_a_component(after: &str) -> bool {
    after.chars().next().is_none_or(|c| {
        !(c.is_alphanumeric()
            || matches!(c, '_' | '-' | '.' | '+' | '@' | '%' | '~' | '$' | '{' | '*' | '?' | '['))
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::PathMap;

    fn map() -> PathMap {
        PathMap::new(
            [
                ("/mnt", "/s/mnt"),
                ("/mnt/models/", "/s/model"),
                ("/tmp", "/tmp/lb/pods/u/volumes/tmp-dir"),
                ("/models", "/s/cache"),
                ("/var/run/kserve/tls", "/s/tls"),
                ("/", "/never"),
            ]
            .map(|(mount, local)| (mount.to_owned(), local.to_owned())),
        )
    }

    #[test]
    fn mount_paths_are_rewritten_on_path_boundaries_only() {
        for (input, expected) in [
            ("/mnt/models", "/s/model"),
            ("/mnt/models/", "/s/model/"),
            ("/mnt/models/a/b.txt", "/s/model/a/b.txt"),
            ("/mnt/models2", "/s/mnt/models2"),
            ("/mnt/kv-cache-0", "/s/mnt/kv-cache-0"),
            ("--cert-path=/var/run/kserve/tls", "--cert-path=/s/tls"),
            ("/var/run/kserve/tls:/etc/pki/tls/certs", "/s/tls:/etc/pki/tls/certs"),
            ("\"/models\" '/models/x',/models", "\"/s/cache\" '/s/cache/x',/s/cache"),
            ("publishers/ns/models/qwen", "publishers/ns/models/qwen"),
            ("hf://models/x", "hf://models/x"),
            ("http://host/models", "http://host/models"),
            ("file:///models/x", "file:///s/cache/x"),
            ("${HOME}/models $(pwd)/models ~/models", "${HOME}/models $(pwd)/models ~/models"),
            ("/models-2 /models.d /models$X /models*", "/models-2 /models.d /models$X /models*"),
            ("[ -d /models ] && [ \"$(ls -A /models)\" ]", "[ -d /s/cache ] && [ \"$(ls -A /s/cache)\" ]"),
            (
                "echo >/tmp/x;cat</tmp/x",
                "echo >/tmp/lb/pods/u/volumes/tmp-dir/x;cat</tmp/lb/pods/u/volumes/tmp-dir/x",
            ),
            ("é/models /models/é", "é/models /s/cache/é"),
            ("/", "/"),
            ("", ""),
        ] {
            assert_eq!(map().rewrite(input), expected, "{input}");
        }
    }

    #[test]
    fn a_local_path_is_found_for_paths_at_or_below_a_mount() {
        assert_eq!(map().local("/mnt/models/x").as_deref(), Some("/s/model/x"));
        assert_eq!(map().local("/srv"), None);
    }

    #[test]
    fn texts_keep_bound_paths_and_files_are_found_in_their_volumes() {
        let map = map().bind(|mount, _| mount.starts_with("/mnt"));
        assert_eq!(map.rewrite("ls /mnt/models/a /mnt/b /models"), "ls /mnt/models/a /mnt/b /s/cache");
        assert_eq!(map.outside("/mnt/models/a"), Path::new("/s/model/a"));
        assert_eq!(map.outside("/srv/a"), Path::new("/srv/a"));
        assert_eq!(map.bound().collect::<Vec<_>>(), [("/mnt", "/s/mnt"), ("/mnt/models", "/s/model")]);
    }
}
