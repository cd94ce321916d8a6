//! Reads tar and zip archives into the stage.

use std::{
    fs::{File, Permissions},
    io::{self, Read},
    os::unix::fs::PermissionsExt,
};

use flate2::{CrcWriter, read::DeflateDecoder};

use super::{
    form::{decompressed, is_zip},
    problem::Problem,
    rules::{Budget, EXPANSION_ALLOWANCE, MAX_EXPANSION, MAX_MEMBERS, masked, wanted},
    stage::Stage,
    tar::{Kind, Reader},
    zip::{self, Method},
};
use crate::{FetchError, names, remote::Members};

/// Longest target of a symbolic link, in bytes.
const MAX_LINK: u64 = 4096;

// === impl Stage ===

impl Stage {
    /// Unpacks an archive. Its members replace those of earlier archives.
    pub(crate) fn unpack(
        &mut self,
        mut file: File,
        name: &str,
        archive: &str,
        members: &Members,
    ) -> Result<(), FetchError> {
        self.start_archive();
        let result = self.budget(&file).map_err(Problem::from).and_then(|budget| {
            if is_zip(&mut file)? {
                self.zip(file, archive, members, budget)
            } else {
                self.tar(file, archive, members, budget)
            }
        });
        result.map_err(|problem| match problem {
            Problem::Archive(why) => FetchError::Archive { archive: names::shown(name), why },
            Problem::Io(source) if source.raw_os_error().is_some() => {
                FetchError::File { action: "unpack in", path: self.root.clone(), source }
            }
            // The decoder's message about broken data is replaced by this one.
            Problem::Io(_) => FetchError::Archive {
                archive: names::shown(name),
                why: "The file format is not valid.".into(),
            },
        })
    }

    fn budget(&self, file: &File) -> io::Result<Budget> {
        let grown = EXPANSION_ALLOWANCE.max(file.metadata()?.len().saturating_mul(MAX_EXPANSION));
        let budget = |bytes, why| Budget { members: MAX_MEMBERS, bytes, why };
        Ok(match self.free {
            Some(free) if free < grown => budget(free, "its content is larger than the free space"),
            _ => budget(grown, "its content is more than 200 times its size"),
        })
    }

    fn tar(
        &mut self,
        file: File,
        archive: &str,
        members: &Members,
        mut budget: Budget,
    ) -> Result<(), Problem> {
        let mut reader = Reader::new(decompressed(file)?);
        while let Some(entry) = reader.entry()? {
            let Some(path) = wanted(&entry.path, members)? else { continue };
            budget.member()?;
            if members.whiteouts && self.white_out(&path, archive)? {
                continue;
            }
            match entry.kind {
                Kind::Folder => self.folder(&path, archive)?,
                Kind::File => {
                    if members.filter.wants(&path) {
                        let mut file = self.create(&path, archive, entry.mode)?;
                        budget.copy(&mut reader, &mut file)?;
                        file.set_permissions(Permissions::from_mode(masked(entry.mode)))?;
                    }
                }
                Kind::Symlink(_) | Kind::Hardlink(_) if !members.filter.wants(&path) => {}
                Kind::Symlink(to) => self.link(&path, &to, archive)?,
                Kind::Hardlink(to) => {
                    let Some(to) = wanted(&to, members)? else {
                        return Err(format!("`{}` is a link to a file outside", names::shown(&path)).into());
                    };
                    self.same(&path, &to, archive)?;
                }
                Kind::Special => {
                    return Err(format!("`{}` is a device or a pipe", names::shown(&path)).into());
                }
            }
        }
        Ok(())
    }

    fn zip(
        &mut self,
        mut file: File,
        archive: &str,
        members: &Members,
        mut budget: Budget,
    ) -> Result<(), Problem> {
        for entry in zip::directory(&mut file)? {
            let Some(path) = wanted(&entry.path, members)? else { continue };
            budget.member()?;
            if entry.path.ends_with('/') {
                self.folder(&path, archive)?;
                continue;
            }
            if !members.filter.wants(&path) {
                continue;
            }
            entry.seek(&mut file)?;
            let packed = (&mut file).take(entry.packed);
            let mut content: Box<dyn Read> = match entry.method {
                Method::Stored => Box::new(packed),
                Method::Deflated => Box::new(DeflateDecoder::new(packed)),
            };
            if entry.is_symlink() {
                let mut to = String::new();
                content.take(MAX_LINK).read_to_string(&mut to)?;
                self.link(&path, &to, archive)?;
                continue;
            }
            let mode = if entry.mode == 0 { 0o644 } else { entry.mode };
            let mut out = CrcWriter::new(self.create(&path, archive, mode)?);
            let size = budget.copy(&mut content, &mut out)?;
            if size != entry.size || out.crc().sum() != entry.sum {
                return Err(format!("the content of `{}` is damaged", names::shown(&path)).into());
            }
            out.get_ref().set_permissions(Permissions::from_mode(masked(mode)))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeMap,
        fs,
        io::{Seek as _, Write as _},
        os::unix::fs::MetadataExt,
    };

    use super::{
        super::{
            stage::{EntryKind, Member},
            tar::tests::member,
        },
        *,
    };

    fn unpack(
        archives: &[Vec<u8>],
        members: &Members,
    ) -> Result<(tempfile::TempDir, BTreeMap<String, Member>), FetchError> {
        let dir = tempfile::tempdir().unwrap();
        let mut stage = Stage::open(dir.path(), None);
        for (number, archive) in archives.iter().enumerate() {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(archive).unwrap();
            stage.unpack(file, "m.tar", &number.to_string(), members)?;
        }
        Ok((dir, stage.finish()))
    }

    fn tar(members: &[Vec<u8>]) -> Vec<u8> {
        [members.concat(), vec![0; 1024]].concat()
    }

    #[test]
    fn what_an_archive_must_not_do_is_refused() {
        let file = |path: &str| member(path, b'0', 0o644, "", b"x");
        for (hostile, members) in [
            ("leaves", vec![file("../x")]),
            ("leaves in the middle", vec![file("a/../../x")]),
            ("link out", vec![member("l", b'2', 0, "../x", b"")]),
            ("link out deeper", vec![member("a/l", b'2', 0, "../../x", b"")]),
            // Judged only by its text, the second link would stay inside.
            (
                "link out by links",
                vec![member("d/l", b'2', 0, "..", b""), member("e", b'2', 0, "d/l/../x", b"")],
            ),
            ("absolute link", vec![member("l", b'2', 0, "/etc", b"")]),
            ("through a link", vec![file("d/x"), member("l", b'2', 0, "d", b""), file("l/y")]),
            ("hard link out", vec![member("h", b'1', 0, "../x", b"")]),
            ("hard link to nothing", vec![member("h", b'1', 0, "x", b"")]),
            ("device", vec![member("n", b'3', 0, "", b"")]),
            ("pipe", vec![member("n", b'6', 0, "", b"")]),
            ("our state", vec![file(".longboat/x")]),
            ("file and folder", vec![file("a"), file("a/b")]),
            ("folder and file", vec![file("a/b"), file("a")]),
            ("sparse", vec![member("s", b'S', 0, "", b"")]),
        ] {
            let result = unpack(&[tar(&members)], &Members::default());
            assert!(matches!(result, Err(FetchError::Archive { .. })), "{hostile}");
        }
    }

    /// A zip archive of members that are not compressed: path, mode, content.
    fn zip(members: &[(&str, u32, &[u8])]) -> Vec<u8> {
        let (mut archive, mut directory) = (Vec::new(), Vec::new());
        for (path, mode, content) in members {
            let number = |value: usize| u32::try_from(value).unwrap().to_le_bytes();
            let (sum, size) = (crc32fast::hash(content).to_le_bytes(), number(content.len()));
            let name = &number(path.len())[..2];
            let common = [&[0; 8][..], &sum, &size, &size, name, &[0; 2]].concat();
            let at = number(archive.len());
            archive.extend([&b"PK\x03\x04\x14\0"[..], &common, path.as_bytes(), content].concat());
            let rights = (mode << 16).to_le_bytes();
            let more = [&[0; 6][..], &rights, &at].concat();
            directory.extend([&b"PK\x01\x02\x14\x03\x14\0"[..], &common, &more, path.as_bytes()].concat());
        }
        let count = &u32::try_from(members.len()).unwrap().to_le_bytes()[..2];
        let numbers =
            [directory.len(), archive.len()].map(|value| u32::try_from(value).unwrap().to_le_bytes());
        let end = [&b"PK\x05\x06"[..], &[0; 4], count, count, &numbers.concat(), &[0; 2]].concat();
        [archive, directory, end].concat()
    }

    #[test]
    fn a_zip_archive_keeps_the_rules_of_tar() {
        for (hostile, members) in [
            ("leaves", vec![("../x", 0o100_644, &b"x"[..])]),
            ("link out", vec![("l", 0o120_777, b"../x")]),
            ("link out by links", vec![("d/l", 0o120_777, b".."), ("e", 0o120_777, b"d/l/../x")]),
            ("absolute link", vec![("l", 0o120_777, b"/etc")]),
            (
                "through a link",
                vec![("d/x", 0o100_644, b"x"), ("l", 0o120_777, b"d"), ("l/y", 0o100_644, b"y")],
            ),
            ("our state", vec![(".longboat/x", 0o100_644, b"x")]),
            ("file and folder", vec![("a", 0o100_644, b"x"), ("a/b", 0o100_644, b"x")]),
        ] {
            let result = unpack(&[zip(&members)], &Members::default());
            let is_refused =
                matches!(&result, Err(FetchError::Archive { why, .. }) if !why.contains("not valid"));
            assert!(is_refused, "{hostile}: {result:?}");
        }
        let (dir, members) = unpack(
            &[zip(&[("d/run", 0o104_777, b"x"), ("/abs", 0o100_400, b"y"), ("l", 0o120_777, b"d/run")])],
            &Members::default(),
        )
        .unwrap();
        assert_eq!(members.len(), 4);
        let mode = |path: &str| dir.path().join(path).metadata().unwrap().mode() & 0o7777;
        assert_eq!((mode("d/run"), mode("abs")), (0o755, 0o600));
        assert_eq!(fs::read_to_string(dir.path().join("l")).unwrap(), "x");
    }

    #[test]
    fn members_that_are_not_wanted_are_not_counted() {
        let image = Members { below: Some("models".into()), ..Members::default() };
        let file = |path: &str| member(path, b'0', 0o644, "", b"x");
        let archive = tar(&[file("etc/a"), file("etc/b"), file("models/c")]);
        let dir = tempfile::tempdir().unwrap();
        let mut packed = tempfile::tempfile().unwrap();
        packed.write_all(&archive).unwrap();
        packed.seek(io::SeekFrom::Start(0)).unwrap();
        let mut stage = Stage::open(dir.path(), None);
        let budget = Budget { members: 1, bytes: 10, why: "w" };
        assert!(stage.tar(packed, "m.tar", &image, budget).is_ok());
        assert_eq!(stage.finish().len(), 1);
    }

    #[test]
    fn rights_are_masked_and_links_inside_stay() {
        let archive = tar(&[
            member("/abs", b'0', 0o644, "", b"x"),
            member("./d/run", b'0', 0o4777, "", b"x"),
            member("ro", b'0', 0o400, "", b"x"),
            member("d/l", b'2', 0, "../ro", b""),
            member("h", b'1', 0, "ro", b""),
        ]);
        let (dir, members) = unpack(&[archive], &Members::default()).unwrap();
        let mode = |path: &str| fs::symlink_metadata(dir.path().join(path)).unwrap().mode() & 0o7777;
        assert_eq!([mode("abs"), mode("d/run"), mode("ro")], [0o644, 0o755, 0o600]);
        assert_eq!(fs::read_to_string(dir.path().join("d/l")).unwrap(), "x");
        let paths: Vec<_> = members.keys().map(String::as_str).collect();
        assert_eq!(paths, ["abs", "d", "d/l", "d/run", "h", "ro"]);
    }

    #[test]
    fn layers_of_an_image_replace_and_remove() {
        let file = |path: &str, content: &str| member(path, b'0', 0o644, "", content.as_bytes());
        let image = Members { below: Some("models".into()), whiteouts: true, ..Members::default() };
        let first = tar(&[
            file("etc/passwd", "no"),
            file("models/a", "1"),
            file("./models/b", "1"),
            file("/models/d/x", "1"),
            file("models/e/x", "1"),
        ]);
        let second = tar(&[
            file("models/a", "2"),
            file("models/.wh.b", ""),
            file("models/d/.wh..wh..opq", ""),
            file("models/d/y", "2"),
            file("models/.wh.e", ""),
        ]);
        let (dir, members) = unpack(&[first, second], &image).unwrap();
        let files = members.iter().filter(|(_, member)| member.kind != EntryKind::Folder);
        assert_eq!(files.map(|(path, _)| path).collect::<Vec<_>>(), ["a", "d/y"]);
        assert_eq!(fs::read_to_string(dir.path().join("a")).unwrap(), "2");
    }

    #[test]
    fn a_later_layer_replaces_a_folder_by_a_file_and_a_file_by_a_folder() {
        let file = |path: &str, content: &str| member(path, b'0', 0o644, "", content.as_bytes());
        let image = Members { whiteouts: true, ..Members::default() };
        let first =
            || tar(&[file("d/x", "1"), file("d/s/y", "1"), file("f", "1"), member("l", b'2', 0, "d", b"")]);
        let folder = |path| member(path, b'5', 0o755, "", b"");
        let second = tar(&[file("d", "2"), folder("f/"), file("f/x", "2"), folder("l/"), file("l/x", "2")]);
        let (dir, members) = unpack(&[first(), second], &image).unwrap();
        assert_eq!(members.keys().collect::<Vec<_>>(), ["d", "f", "f/x", "l", "l/x"]);
        for path in ["d", "f/x", "l/x"] {
            assert_eq!(fs::read_to_string(dir.path().join(path)).unwrap(), "2", "{path}");
        }
        // Within one layer, and below a file that the layer does not replace, it is unclear what is meant.
        for layer in [tar(&[file("n/x", "2"), file("n", "2")]), tar(&[file("l/x", "2")])] {
            assert!(unpack(&[first(), layer], &image).is_err());
        }
    }

    #[test]
    fn an_opaque_folder_hides_earlier_layers_and_not_what_its_own_layer_brings() {
        let file = |path: &str, content: &str| member(path, b'0', 0o644, "", content.as_bytes());
        let image = Members { below: Some("models".into()), whiteouts: true, ..Members::default() };
        let first = tar(&[file("models/d/a", "1"), file("models/d/s/x", "1"), file("models/d/t/x", "1")]);
        // In the order of their names, as many programs write layers.
        let second = tar(&[
            file("models/d/.gitattributes", "2"),
            file("models/d/-/s/y", "2"),
            file("models/d/s/.y", "2"),
            file("models/d/.wh..wh..opq", ""),
            file("models/d/.wh..wh..opq", ""),
            file("models/d/b", "2"),
        ]);
        let (dir, members) = unpack(&[first, second], &image).unwrap();
        let files = members.iter().filter(|(_, member)| member.kind != EntryKind::Folder);
        let kept: Vec<_> = files.map(|(path, _)| path.as_str()).collect();
        assert_eq!(kept, ["d/-/s/y", "d/.gitattributes", "d/b", "d/s/.y"]);
        assert!(!dir.path().join("d/t").exists() && !members.contains_key("d/t"));
        assert_eq!(fs::read_to_string(dir.path().join("d/.gitattributes")).unwrap(), "2");
    }

    #[test]
    fn bombs_are_refused() {
        // Two MiB of zeros in a few kB.
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(&tar(&[member("bomb", b'0', 0o644, "", &vec![0; 2 << 20])])).unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&packed.finish().unwrap()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let mut stage = Stage::open(dir.path(), Some(1 << 20));
        let result = stage.unpack(file.try_clone().unwrap(), "m.tar", "m", &Members::default());
        assert!(
            matches!(&result, Err(FetchError::Archive { why, .. }) if why.contains("free space")),
            "{result:?}"
        );
        let grown = |free| Stage::open(dir.path(), free).budget(&file).unwrap();
        assert_eq!(grown(None).bytes, EXPANSION_ALLOWANCE);
        file.set_len(EXPANSION_ALLOWANCE).unwrap();
        assert_eq!(grown(None).bytes, EXPANSION_ALLOWANCE * MAX_EXPANSION);
    }
}
