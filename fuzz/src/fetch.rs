//! Fuzz targets of model downloads: all input from servers, archives and disks. The test that replays the stored corpus shares
//! this file.
#![allow(dead_code, reason = "each fuzz target uses one of them")]

use std::{
    ffi::OsStr,
    io::{self, Cursor},
    path::{Component, Path},
};

use longboat_fetch::parsers::{
    Address, Challenge, FileRecord, Filter, Journal, MAX_WORDS, Manifest, Model, Page, Progress, TarReader,
    Tree, check, content_range, gcs_objects, matches, oci_image, parse_list, parse_models, parse_report,
    s3_bucket, s3_parts, words, zip_directory,
};

/// A target runs on one input.
pub(crate) type Target = fn(&[u8]);

/// All targets by name. The folders of the corpus have the same names.
pub(crate) const ALL: [(&str, Target); 8] = [
    ("fetch_adapters", fetch_adapters),
    ("fetch_address", fetch_address),
    ("fetch_journal", fetch_journal),
    ("fetch_listing", fetch_listing),
    ("fetch_manifest", fetch_manifest),
    ("fetch_progress", fetch_progress),
    ("fetch_tar", fetch_tar),
    ("fetch_zip", fetch_zip),
];

/// Any list of adapters, any report about them, and any response of an engine that loads them must be parsed or refused. A folder
/// of an adapter is one folder below that of all adapters.
pub(crate) fn fetch_adapters(data: &[u8]) {
    let root = Path::new("/mnt/adapters");
    match parse_list(data) {
        Ok(listed) => {
            for adapter in listed {
                let folder = root.join(&adapter.folder);
                let own = folder.strip_prefix(root).expect("the folder is below that of all adapters");
                assert!(
                    own.components().eq([Component::Normal(OsStr::new(&adapter.folder))]),
                    "{}",
                    adapter.folder
                );
            }
        }
        Err(error) => assert!(!error.is_empty()),
    }
    match parse_models(data) {
        Ok(models) => {
            for model in &models {
                let _ = model.folder_in(root);
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    assert!(words(data).chars().count() <= MAX_WORDS);
    if let Some(reports) = parse_report(data) {
        let text = serde_json::to_vec(&reports).expect("a report is JSON");
        assert_eq!(parse_report(&text), Some(reports));
    }
}

/// Any address must be parsed or refused. An address that is shown must not contain user information. Matching a pattern must not
/// take long.
pub(crate) fn fetch_address(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let address = Address::parse(text);
    if let Ok((repository, revision)) = address.hub_model() {
        assert_eq!(repository.matches('/').count(), 1);
        assert!(!revision.is_empty());
    }
    if let Ok((bucket, key)) = s3_bucket(&address) {
        assert!(!bucket.is_empty() && !bucket.contains('/') && !key.starts_with('/'));
    }
    if let Ok((host, repository, reference)) = oci_image(&address) {
        assert!(!host.contains('@') && !repository.split('/').any(|part| matches!(part, "" | "." | "..")));
        assert!(!reference.is_empty() && !reference.contains('/'));
    }
    if let Some((start, end, size)) = content_range(text) {
        assert!(start < end && size.is_none_or(|size| end <= size));
    }
    if address.credentials().is_some() {
        let shown = Address::parse(address.to_string());
        assert_eq!(shown.credentials(), None, "user information is left");
    }
    let _ = Challenge::parse(text);
    if let Some((pattern, name)) = text.split_once('\n') {
        assert_ne!(s3_parts(pattern, name), Some(0));
        let _ = matches(pattern, name);
        let _ = Filter::new(Some(pattern), Some(name)).wants(name);
    }
    if check(text).is_ok() {
        assert!(!text.starts_with('/') && !text.split('/').any(|part| part == ".."));
    }
}

/// Any journal must be read up to the first incomplete record. A shorter prefix must name the same source.
pub(crate) fn fetch_journal(data: &[u8]) {
    let Ok(Some(journal)) = Journal::parse(data) else { return };
    for offset in journal.offsets() {
        let rest = usize::try_from(offset).ok().and_then(|offset| data.get(offset..)).unwrap_or_default();
        let line = rest.split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
        assert!(FileRecord::read(line).is_some(), "the record of a complete file is not where it should be");
    }
    for partial in journal.partial.values() {
        assert!(partial.blocks.iter().all(|(start, end, _)| start < end));
    }
    let half = data.len() / 2;
    if let Ok(Some(part)) = Journal::parse(&data[..half]) {
        assert_eq!(part.source, journal.source);
    }
}

/// Any file listing of the hub, of S3 or of Google Cloud Storage must be parsed or refused.
pub(crate) fn fetch_listing(data: &[u8]) {
    let _ = serde_json::from_slice::<Model>(data).map(|model| model.commit().map(str::len));
    let _ = serde_json::from_slice::<Tree>(data);
    let _ = Page::parse(data);
    let _ = gcs_objects(data);
}

/// Any manifest must be parsed or refused, and its layers must have target paths or be refused.
pub(crate) fn fetch_manifest(data: &[u8]) {
    let Ok(manifest) = Manifest::parse(data) else { return };
    let _ = manifest.of_platform("amd64");
    let _ = manifest.layers(&Filter::default());
}

/// Any progress report of a pod must be refused, or printable as one short line.
pub(crate) fn fetch_progress(data: &[u8]) {
    let Some(progress) = Progress::parse(data) else { return };
    let said = progress.to_string();
    assert!(said.len() < 128 && !said.chars().any(char::is_control), "{said}");
}

/// Any bytes must be read as a tar archive or refused, and reading must end.
pub(crate) fn fetch_tar(data: &[u8]) {
    let mut reader = TarReader::new(data);
    let mut members = 0;
    while let Ok(Some(_)) = reader.entry() {
        if io::copy(&mut reader, &mut io::sink()).is_err() {
            break;
        }
        members += 1;
        assert!(members <= data.len() / 512, "more members than blocks");
    }
}

/// Any bytes must be read as the directory of a zip archive or refused.
pub(crate) fn fetch_zip(data: &[u8]) {
    if let Ok(entries) = zip_directory(&mut Cursor::new(data)) {
        assert!(entries.len() * 46 <= data.len(), "more members than the directory holds");
    }
}
